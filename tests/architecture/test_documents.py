"""Documents and code say the same: links, headings, tests, numbers, rows."""

import ast
import pkgutil
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from tagcast import model
from tagcast.model import RetryPolicy, Strategy
from tagcast.pushing.retry_delay import (
    BACKOFF_INTERVAL_S_RANGE,
    BACKOFF_RETRIES_DEFAULT,
    DECAY_RETRIES_MAX,
    delay_s,
    probe_delay_s,
)
from tagcast.subscription_settings import RETRIES_FOR_LIFE, TIMEOUT_S_DEFAULT

from tests.documents import documents

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT, capture_output=True, text=True, check=True,
).stdout.split("\n")  # fmt: skip
DOCUMENTS = [name for name in TRACKED if name.endswith(".md") and (ROOT / name).exists()]
NORMATIVE = ["docs/protocol.md", "docs/limits.md", "docs/semantics.md", "docs/filters.md", "docs/http-api.md"]
GUIDES = ["README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", "docs/from-cmq.md", "docs/from-rocketmq.md"]
SOURCES = [
    name
    for name in TRACKED
    if name.endswith((".py", ".toml", ".yaml", ".json", "Makefile"))
    and (ROOT / name).is_file()
    and "vectors/" not in name
]
IN_FULL = re.compile(r"`(?!tagcast\.message`)((?:tagcast|tagcast_aws|glue_jobs)(?:\.\w+)+(?::[\w.]+)?)`")
"""A name of the code in a document; tagcast.message is the type of an event."""
PRODUCT = [name for name in SOURCES if name.endswith(".py") and not name.startswith("tests/")]


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text()


@cache
def headings(name: str) -> tuple[str, ...]:
    outside = re.sub(r"^```.*?^```", "", text_of(name), flags=re.DOTALL | re.MULTILINE)
    return tuple(re.findall(r"^#+ (.+?) *$", outside, re.MULTILINE))


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table_rows(name: str, *header: str) -> Iterator[list[str]]:
    """The cells of every table whose columns are these."""
    wanted = "| " + " | ".join(header) + " |"
    lines = text_of(name).splitlines()
    for place, line in enumerate(lines):
        if line == wanted:
            for row in lines[place + 2 :]:
                if not row.startswith("|"):
                    break
                yield [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_between_documents_leads_somewhere(name: str) -> None:
    outside = re.sub(r"^```.*?^```", "", text_of(name), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", outside):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        found = (ROOT / name).parent / path if path else ROOT / name
        assert found.exists(), target
        if fragment:
            inside = str(found.resolve().relative_to(ROOT))
            assert fragment in map(anchor, headings(inside)), target


@pytest.mark.parametrize("name", NORMATIVE + GUIDES)
def test_every_test_that_a_document_names_exists(name: str) -> None:
    assert set(re.findall(r"`(test_\w+)`", text_of(name))) - names_of_tests() == set()


@cache
def names_of_tests() -> set[str]:
    """The names of all tests."""
    return {
        found
        for source in SOURCES
        if source.startswith("tests/") and source.endswith(".py")
        for found in re.findall(r"^\s*(?:async )?def (test_\w+)", text_of(source), re.MULTILINE)
    }


def rules() -> Iterator[tuple[str, str]]:
    """The promises of docs/semantics.md: the heading of each, and its text without marks of any kind."""
    text = text_of("docs/semantics.md")
    promised = text[text.index("## The promise") : text.index("Not promised:")]
    for section in (promised + text[text.index("## Topics") :]).split("\n## "):
        heading, _, body = section.removeprefix("## ").partition("\n")
        for rule in re.split(r"^(?:\d+\.|-) ", body, flags=re.MULTILINE)[1:]:
            plain = re.sub(r"[*`]|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", rule)
            yield heading, " ".join(plain.split())


def test_every_promise_to_users_has_its_tests() -> None:
    named = tomllib.loads(text_of("tests/promises.toml"))
    promises = list(rules())

    assert len(promises) > 130
    for heading, rule in promises:
        assert sum(map(rule.startswith, named.get(heading, {}))) == 1, rule
    assert sum(map(len, named.values())) == len(promises), "a name of no promise"
    assert {test for each in named.values() for some in each.values() for test in some} - names_of_tests() == set()
    assert all(some for each in named.values() for some in each.values())


def test_every_threat_is_met_by_a_test_but_the_one_that_others_know_of() -> None:
    rows = list(table_rows(".github/SECURITY.md", "who", "what they try", "how it is stopped", "test"))
    assert len(rows) >= 15
    assert [row[0] for row in rows if "`test_" not in row[3]] == ["a dependency"]


@cache
def constants() -> dict[str, set[object]]:
    """The plain values that names in capitals have in modules of the product; arithmetic is computed."""
    found: dict[str, set[object]] = {}
    for name in PRODUCT:
        for node in ast.parse(text_of(name)).body:
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        for each, what in _pairs(target, value):
                            _note(found, each, what)
                case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                    _note(found, target, value)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _note(found: dict[str, set[object]], target: ast.expr, value: ast.expr) -> None:
    plain = all(
        isinstance(node, ast.Constant | ast.BinOp | ast.operator | ast.Name | ast.expr_context)
        for node in ast.walk(value)
    )
    if isinstance(target, ast.Name) and target.id.isupper() and plain:
        known = {name: next(iter(values)) for name, values in found.items()}
        if all(node.id in known for node in ast.walk(value) if isinstance(node, ast.Name)):
            result = eval(compile(ast.Expression(value), "", "eval"), {}, known)
            found.setdefault(target.id, set()).add(result)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("docs/limits.md", "value"),
        ("docs/http-api.md", "limit"),
        ("docs/filters.md", "limit"),
        ("docs/from-cmq.md", "limit"),
    ],
)
def test_every_limit_is_the_number_in_the_code(name: str, column: str) -> None:
    known = constants()
    checked = 0
    for what, told, named in table_rows(name, "what", column, "constant"):
        numbers = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,.]*\d|\d", told)]
        names = re.findall(r"`(\w+)`", named)
        for number, constant in zip(numbers if len(names) > 1 else numbers[:1], names, strict=bool(names)):
            assert number in known[constant], what
            checked += 1

    assert checked >= 10


def test_a_number_with_the_name_of_its_constant_behind_it_is_its_value() -> None:
    known = constants()
    found = [
        (name, each[0], float(each[1].replace(",", "")), each[2])
        for name in DOCUMENTS
        for each in re.finditer(
            r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)(?: [a-zA-Z%]+)? \(`([A-Z][A-Z0-9_]+)`\)", text_of(name)
        )
    ]

    assert found
    assert [each for each in found if each[2] not in known.get(each[3], ())] == []


def test_every_reference_to_a_document_names_a_heading_of_it() -> None:
    for name in SOURCES:
        text = " ".join(text_of(name).replace("#", " ").split())
        for found in re.finditer(r"\b(docs/[\w-]+\.md)(, (.{0,80}))?", text):
            path, rest = found[1], found[3]
            assert path in DOCUMENTS, (name, path)
            if rest is not None:
                assert any(rest.startswith(heading) for heading in headings(path)), (name, found[0])


def test_no_source_refers_to_sections_by_number_or_to_documents_that_are_not_here() -> None:
    by_number = [name for name in SOURCES if "\N{SECTION SIGN}" in text_of(name)]
    named = {(name, path) for name in SOURCES for path in re.findall(r"(?<![.\w/\"'-])[\w/-]+\.md\b", text_of(name))}

    assert by_number == []
    assert sorted((name, path) for name, path in named if path not in DOCUMENTS) == []


def test_what_is_made_from_the_code_is_current() -> None:
    assert [name for name, text in documents().items() if text_of(name) != text] == [], "run `make docs`"


def test_every_name_of_the_code_that_a_document_gives_in_full_exists() -> None:
    named = {found for name in DOCUMENTS for found in re.findall(IN_FULL, text_of(name))}

    assert len(named) > 100
    assert [found for found in named if pkgutil.resolve_name(found) is None] == []


def test_every_step_of_the_protocol_names_its_function() -> None:
    steps = re.findall(r"^\d+\. .*", text_of("docs/protocol.md").split("## Publishing")[1], re.MULTILINE)

    named = re.compile(r"\d+\. \(`(tagcast[\w.]+:[\w.]+|functions/\w+/app\.py)`\) ")

    assert len(steps) > 40
    assert [step for step in steps if not named.match(step)] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_row_of_a_table_is_a_line_of_its_own(name: str) -> None:
    rulers = [line.strip() for line in text_of(name).splitlines() if re.search(r"\|\s*:?---", line)]
    assert [line for line in rulers if not re.fullmatch(r"\|[-:| ]+\|", line)] == []


def test_the_first_page_is_short() -> None:
    assert text_of("README.md").count("\n") <= 160


def test_every_state_that_is_stored_is_explained() -> None:
    explained = {row[0] for row in table_rows("docs/semantics.md", "state", "meaning")}
    explained |= {row[0] for row in table_rows("docs/semantics.md", "state", "reason", "attempts", "new messages")}
    stored = {f"`{member.value}`" for kind in (model.EntryState, model.LaneState) for member in kind}

    assert issubclass(model.EntryState, StrEnum)
    assert stored - explained == set()


def test_the_glossary_is_in_order_and_has_each_word_once() -> None:
    words = re.findall(r"^\| \*\*([\w -]+)\*\*", text_of("docs/glossary.md"), re.MULTILINE)

    assert words == sorted(set(words), key=lambda word: word.replace("-", "").replace(" ", ""))


def test_every_function_is_in_the_plan() -> None:
    functions = {Path(name).parent.name for name in PRODUCT if name.startswith("functions/")}
    told = {row[0].strip("`") for row in table_rows("docs/protocol.md", "function", "called by", "does")}

    assert told == functions


def test_every_room_of_the_core_is_in_the_plan() -> None:
    rows = table_rows("docs/follow-one-message.md", "room of the core", "holds")
    named = {room for row in rows for room in re.findall(r"`(\w+)`", row[0])}
    core = "layers/tag_matching/python/tagcast/"
    inside = [name.removeprefix(core) for name in PRODUCT if name.startswith(core)]

    assert named == {path.partition("/")[0].removesuffix(".py") for path in inside} - {"__init__"}


@pytest.mark.parametrize("name", GUIDES)
def test_every_path_of_the_code_that_a_document_names_exists(name: str) -> None:
    roots = ("functions/", "layers/", "local/", "glue_jobs/", "events/", "tests/", "docs/", "clients/")
    for path in re.findall(r"`([\w./*<>{}-]+)`", text_of(name)):
        if path.startswith(roots):
            assert list(ROOT.glob(re.sub(r"<\w+>|\{\w+\}", "*", path))), path


OUTAGE_S = 6 * 3_600
BACKOFF = RetryPolicy(Strategy.BACKOFF_RETRY, BACKOFF_RETRIES_DEFAULT)
FOR_LIFE = RetryPolicy(Strategy.BACKOFF_RETRY, RETRIES_FOR_LIFE)
INDEPENDENT = RetryPolicy(Strategy.INDEPENDENT_RETRY, DECAY_RETRIES_MAX)


def waits(policy: RetryPolicy, jitter_s: float = 0.0) -> list[float]:
    """All waits of a delivery whose attempts all fail."""
    found = (delay_s(policy, failures, jitter_s) for failures in range(1, policy.max_retries + 1))
    return [wait_s for wait_s in found if wait_s is not None]


def attempts_until(end_s: float, policy: RetryPolicy) -> int:
    """How many attempts of one delivery begin before the end, if each fails at once."""
    return sum(begun_s < end_s for begun_s in accumulate(waits(policy), initial=0.0))


def probes_until(end_s: float, policy: RetryPolicy) -> int:
    """How many attempts at a receiver that gives no answer begin before the end, whatever waits for it."""
    found, at_s = 0, 0.0
    while at_s < end_s:
        found, at_s = found + 1, at_s + probe_delay_s(policy, at_s)
    return found


def test_an_outage_of_six_hours_does_what_the_how_to_says() -> None:
    text = " ".join(text_of("docs/how-to.md").split())
    quick, slow = ([sum(waits(BACKOFF, jitter_s)) + taken_s for jitter_s in BACKOFF_INTERVAL_S_RANGE]
                   for taken_s in (0, (1 + BACKOFF_RETRIES_DEFAULT) * TIMEOUT_S_DEFAULT))  # fmt: skip

    assert f"after {quick[0]:.0f}-{quick[1]:.0f} s" in text
    for lives_s, words in ((quick, "{}-{} messages"), (slow, "discards {}-{} messages")):
        assert words.format(*sorted(int(OUTAGE_S / life_s) for life_s in lives_s)) in text
    assert f"{attempts_until(OUTAGE_S, FOR_LIFE) - 1} times, the others never" in text
    assert f"{probes_until(OUTAGE_S, INDEPENDENT) - 1} times in all |" in text
    for longest_s, words in ((512, "take {} h {} min in all"), (300, "after {} h"), (60, "after {} h {} min")):
        minutes = int(sum(waits(replace(INDEPENDENT, interval_s_max=longest_s))) // 60)
        assert words.format(*divmod(minutes, 60)) in text
