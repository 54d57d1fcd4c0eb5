"""A filter at the bound of a limit survives its way: request, row, index, snapshot in the archive, match.

The limits are those of docs/filters.md. Whatever a request may set must be readable later, in another process.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tagcast.delivery.publishing import publish
from tagcast.errors import FilterEvaluationError
from tagcast.filters.compiled import SENT_TIMES_MAX, CompiledFilter
from tagcast.filters.event_pattern.event import PATH_CHARACTERS_MAX
from tagcast.filters.event_pattern.pattern import (
    ALL_VALUES_MAX,
    ALTERNATIVES_MAX,
    CONDITIONS_MAX,
    FIELDS_MAX,
    PATTERN_CHARACTERS_MAX,
    PATTERN_DEPTH_MAX,
    PATTERN_VALUES_MAX,
    SEARCHES_MAX,
)
from tagcast.filters.event_pattern_filter import SNS_COMBINATIONS_MAX, SNS_KEYS_MAX, SNS_NUMBER_MAX
from tagcast.filters.function_filter import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from tagcast.filters.index import event_index
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import KINDS, compile_filter
from tagcast.filters.routing_key_filter import FILTER_PATTERNS_MAX, KEY_BYTES_MAX, KEY_DOTS_MAX
from tagcast.filters.sql92 import cell
from tagcast.filters.sql92.dialect import CHARACTERS_MAX, DEPTH_MAX, ELEMENTS_MAX, TERMS_MAX
from tagcast.filters.sql92.java import INT_MAX, LONG_MAX
from tagcast.filters.sql92.numbers import EXPONENT_MAX
from tagcast.filters.tag_filters import (
    EXPRESSION_CHARACTERS_MAX,
    EXPRESSION_TAGS_MAX,
    FILTER_TAGS_MAX,
    TAG_CHARACTERS_MAX,
)
from tagcast.model import Draft
from tagcast.ports import Memory
from tagcast.registry import indexing

from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld

HOOK = {"endpoint": {"protocol": "https", "url": "https://example.com/"}}
DOCUMENT = (Path(__file__).parents[2] / "docs" / "filters.md").read_text("utf-8")
OF_EVALUATION = {"COMPARISONS_MAX", "STEPS_MAX"}
"""A filter may exceed these limits: its evaluation then fails (tests/unit/test_event_index.py)."""

Case = tuple[Mapping[str, Any], Draft]
"""A filter, and a message that matches."""


def tagged(*tags: str, **settings: Any) -> Case:
    """A filter by tags."""
    return {"kind": "tags", "tags": list(tags), **settings}, Draft(b"1", tags=tuple(dict.fromkeys(tags)))


def expressed(expression: str, tag: str) -> Case:
    """A tag expression."""
    return {"kind": "tag_expression", "expression": expression}, Draft(b"1", tags=(tag,))


def routed(*patterns: str) -> Case:
    """A filter by routing key."""
    return {"kind": "routing_key", "patterns": list(patterns)}, Draft(b"1", routing_key=patterns[-1])


def sql(expression: str, *dialects: str, **properties: str) -> list[Case]:
    """An SQL92 filter, in both dialects or the given ones."""
    message = Draft(b"1", properties=properties)
    return [
        ({"kind": "sql92", "expression": expression, "dialect": dialect}, message)
        for dialect in dialects or ("strict", "rocketmq")
    ]


def numbers(dialect: str, literals: Sequence[str]) -> list[Case]:
    """Expressions with each literal after each operator, with each sign."""
    written = [f"{sign}{literal}" for sign in ("", "-") for literal in literals]
    return [
        case
        for literal in written
        for expression in (f"n = {literal}", f"n >= {literal}", f"n <= {literal}", f"n BETWEEN {literal} AND {literal}")
        for case in sql(f"{expression} AND m <> {literal}", dialect, n=literal, m="1")
    ]


def pattern(written: Mapping[str, Any], body: Any, **settings: Any) -> Case:
    """An event pattern over the body."""
    content = json.dumps(body, ensure_ascii=False).encode()
    return {"kind": "event_pattern", "pattern": written, **settings}, Draft(content)


def nested(levels: int, value: Any) -> Any:
    return value if levels == 0 else {"a": nested(levels - 1, value)}


def alternatives(*sizes: int) -> dict[str, Any]:
    """Return fields with an ``$or`` each; the number of alternatives is the product of *sizes*."""
    return {f"o{n}": {"$or": [{f"x{k}": [1]} for k in range(size)]} for n, size in enumerate(sizes)}


def all_fields(prefix: str) -> Case:
    """A pattern whose fields have names before or behind the names with an ``$or``."""
    fields = range(CONDITIONS_MAX // 100 - 2)
    written = {**alternatives(10, 10), **{f"{prefix}{n}": [1] for n in fields}}
    return pattern(written, {"o0": {"x9": 1}, "o1": {"x0": 1}, **{f"{prefix}{n}": 1 for n in fields}})


LONG_TAGS = [f"{n:0{TAG_CHARACTERS_MAX}}" for n in range(EXPRESSION_TAGS_MAX)]
NUMBERS = (1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 2**53 - 1, 2**53 + 1, 0.1, 10**4_000, -(10**4_000))
LIMITS: dict[str, list[Case]] = {
    "FILTER_TAGS_MAX": [tagged(*LONG_TAGS[:FILTER_TAGS_MAX]), tagged(*LONG_TAGS[:FILTER_TAGS_MAX], match="all")],
    "EXPRESSION_TAGS_MAX": [expressed("||".join(LONG_TAGS), LONG_TAGS[-1])],
    "TAG_CHARACTERS_MAX": [tagged("😀" * TAG_CHARACTERS_MAX), expressed("😀" * TAG_CHARACTERS_MAX, "😀" * 64)],
    "EXPRESSION_CHARACTERS_MAX": [
        expressed("||".join(LONG_TAGS).ljust(EXPRESSION_CHARACTERS_MAX), LONG_TAGS[0]),
        expressed("t".rjust(EXPRESSION_CHARACTERS_MAX), "t"),
    ],
    "FILTER_PATTERNS_MAX": [routed(*(f"{n:0{KEY_BYTES_MAX}}" for n in range(FILTER_PATTERNS_MAX)))],
    "KEY_BYTES_MAX": [routed("😀" * (KEY_BYTES_MAX // 4))],
    "KEY_DOTS_MAX": [routed(".".join("k" * (KEY_DOTS_MAX + 1))), routed(".".join("*#" * (KEY_DOTS_MAX // 2) + "*a"))],
    "SENT_TIMES_MAX": [
        tagged(*LONG_TAGS[:FILTER_TAGS_MAX] * SENT_TIMES_MAX),
        routed(*[f"k{n}" for n in range(FILTER_PATTERNS_MAX)] * SENT_TIMES_MAX),
    ],
    "CHARACTERS_MAX": [
        *sql(f"a = '{'x' * (CHARACTERS_MAX - 6)}'", a="x" * (CHARACTERS_MAX - 6)),
        *sql(f"a = '{chr(0x1F600) * (CHARACTERS_MAX - 6)}'", a="😀" * (CHARACTERS_MAX - 6)),
        *sql("a = 'x'".ljust(CHARACTERS_MAX), a="x"),
        *sql(f"a < {'9' * (CHARACTERS_MAX - 4)}", "strict", a="1"),
        *sql(f"a > 0.{'0' * (CHARACTERS_MAX - 7)}1", "strict", a="1"),
        *sql(f"a LIKE '{'%a' * 8_000}'", "strict", a="a" * 8_000),
        *numbers(
            "strict",
            [
                *(f"10e{EXPONENT_MAX}", f"0.5e-{EXPONENT_MAX}", f"0.0e-{EXPONENT_MAX}", f"0.0e{EXPONENT_MAX}"),
                *(f"0.{'0' * 400}1", f"1e{EXPONENT_MAX}", "9" * 400, str(LONG_MAX + 1), "9007199254740993", "0"),
            ],
        ),
        *numbers(
            "rocketmq",
            [str(INT_MAX), str(INT_MAX + 1), str(LONG_MAX), "1.7976931348623157e308", "4.9e-324", "9007199254740993.0"],
        ),
    ],
    "TERMS_MAX": [
        *sql(" OR ".join(f"a{n}='x'" for n in range(TERMS_MAX)), a1023="x"),
        *sql(" AND ".join(f"a{n}='x'" for n in range(TERMS_MAX)), **{f"a{n}": "x" for n in range(TERMS_MAX)}),
    ],
    "DEPTH_MAX": [
        *sql("(" * DEPTH_MAX + "a > 1" + ")" * DEPTH_MAX, a="2"),
        *sql("NOT (" * (DEPTH_MAX - 1) + "a > 1" + ")" * (DEPTH_MAX - 1), a="1"),
    ],
    "ELEMENTS_MAX": sql(f"a IN ({','.join(repr(str(n)) for n in range(ELEMENTS_MAX))})", a="999"),
    "PATTERN_CHARACTERS_MAX": [
        pattern({"a": ["x" * (PATTERN_CHARACTERS_MAX - 10)]}, {"a": "x" * (PATTERN_CHARACTERS_MAX - 10)}),
        pattern({"a": ["😀" * (PATTERN_CHARACTERS_MAX - 10)]}, {"a": "😀" * (PATTERN_CHARACTERS_MAX - 10)}),
    ],
    "PATTERN_VALUES_MAX": [
        pattern({"a": list(range(PATTERN_VALUES_MAX))}, {"a": PATTERN_VALUES_MAX - 1}),
        pattern({"a": [{"anything-but": list(range(PATTERN_VALUES_MAX - 1))}]}, {"a": -1}),
        *(pattern({"a": [number], "b": [{"anything-but": 1}]}, {"a": number, "b": 2}) for number in NUMBERS),
        *(
            pattern({"a": [{"numeric": [">=", low, "<=", high]}], "b": [1]}, {"a": high, "b": 1})
            for low, high in ((-1.7976931348623157e308, 1.7976931348623157e308), (0, 5e-324))
        ),
        *(
            pattern({"a": [{"cidr": block}], "b": [{"prefix": "x"}]}, {"a": address, "b": "xy"})
            for block, address in (("0.0.0.0/0", "255.255.255.255"), ("10.0.0.1/31", "10.0.0.0"), ("::/0", "::1"))
        ),
    ],
    "PATTERN_DEPTH_MAX": [pattern(nested(PATTERN_DEPTH_MAX - 1, {"a": [1]}), nested(PATTERN_DEPTH_MAX - 1, {"a": 1}))],
    "PATH_CHARACTERS_MAX": [pattern({"a" * PATH_CHARACTERS_MAX: [1]}, {"a" * PATH_CHARACTERS_MAX: 1})],
    "FIELDS_MAX": [pattern({f"f{n}": [n] for n in range(FIELDS_MAX)}, {f"f{n}": n for n in range(FIELDS_MAX)})],
    "ALTERNATIVES_MAX": [
        pattern(alternatives(ALTERNATIVES_MAX // 5, 5), {"o0": {"x199": 1}, "o1": {"x4": 1}}),
        pattern(alternatives(10, 10, 10), {"o0": {"x9": 1}, "o1": {"x0": 1}, "o2": {"x5": 1}}),
    ],
    "CONDITIONS_MAX": [all_fields("a"), all_fields("z")],
    "ALL_VALUES_MAX": [
        pattern({**alternatives(25), "z": list(range(ALL_VALUES_MAX // 25 - 1))}, {"o0": {"x24": 1}, "z": 798})
    ],
    "SEARCHES_MAX": [pattern({"a": [{"wildcard": f"*{n}*x"} for n in range(SEARCHES_MAX)]}, {"a": "31x"})],
    "TIMEOUT_DEFAULT_S": [({"kind": "function", "function": "f"}, Draft(b"1"))],
    "TIMEOUT_MAX_S": [
        ({"kind": "function", "function": "f" * 64, "timeout_seconds": seconds, "on_error": "block"}, Draft(b"1"))
        for seconds in (1, TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S)
    ],
    "of the dialect sns": [
        pattern({f"k{n}": [1] for n in range(SNS_KEYS_MAX)}, {f"k{n}": 1 for n in range(SNS_KEYS_MAX)}, dialect="sns"),
        pattern({"a": list(range(SNS_COMBINATIONS_MAX))}, {"a": SNS_COMBINATIONS_MAX - 1}, dialect="sns"),
        *(
            pattern({"a": [{"numeric": ["=", number]}], "b": [number]}, {"a": number, "b": number}, dialect="sns")
            for number in (SNS_NUMBER_MAX, -SNS_NUMBER_MAX, SNS_NUMBER_MAX - 0.00001, 0.00001)
        ),
    ],
}


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of subscriptions of the indexes that are built. Every index is stored in the archive."""
    done, build = list[int](), TopicIndex.build

    def counted(filters: Mapping[int, Any]) -> TopicIndex:
        done.append(len(filters))
        return build(filters)

    monkeypatch.setattr(TopicIndex, "build", counted)
    monkeypatch.setattr(indexing, "ARCHIVED_SUBSCRIPTIONS_MIN", 1)
    return done


def matches(one: CompiledFilter, message: Draft) -> bool:
    """The plain rule."""
    try:
        return one.evaluate(message) is True
    except FilterEvaluationError:
        return False


@pytest.mark.parametrize("few", [True, False], ids=["one by one", "in cells"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_filter_at_a_limit_matches_in_every_later_process(
    limit: str, few: bool, builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(cell, "ONE_BY_ONE_MAX", 0)
        monkeypatch.setattr(event_index, "HANDFUL_MAX", 0)
    cases = LIMITS[limit]
    fake = FakeWorld()
    assert answered(fake.world, "PUT", "/topics/t", "{}")["statusCode"] == 201
    compiled = [compile_filter(written) for written, _ in cases]
    for number, (written, _) in enumerate(cases):
        settings = json.dumps({**HOOK, "filter": written})
        answer = answered(fake.world, "PUT", f"/topics/t/subscriptions/s{number}", settings)
        assert answer["statusCode"] == 201, (written, answer["body"])
    for builds_index in (True, False):
        builds.clear()
        fake.world = replace(fake.world, memory=Memory())
        for number, (written, message) in enumerate(cases):
            assert matches(compiled[number], message), written
            expected = sum(matches(each, message) for each in compiled)
            assert publish(fake.world, "t", [message])[0].matched == expected, (builds_index, written)
        assert bool(builds) == builds_index, "the second process loads the index of the first"


def test_every_limit_and_every_kind_is_tried() -> None:
    table = DOCUMENT.partition("## Limits\n")[2].partition("\n## ")[0]
    constants = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*_(?:MAX|S))`", table))
    assert constants - OF_EVALUATION == set(LIMITS) - {"of the dialect sns"}
    assert {written["kind"] for cases in LIMITS.values() for written, _ in cases} == set(KINDS)
