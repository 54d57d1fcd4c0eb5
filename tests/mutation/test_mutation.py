"""The tool itself: what it changes, that its changes are in force and gone again, and that judgements are of today."""

import ast
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation.__main__ import PLANTED, chosen
from tests.mutation.bugs import planted
from tests.mutation.mutants import MODULES, Mutant, functions_of, mutants_of, mutated, path_of, sample
from tests.mutation.operators import changes_of
from tests.mutation.planting import live_functions
from tests.mutation.results import JUDGED, SURVIVED, TESTS, Result, Results, judgements, table
from tests.tenth import of_this_commit, tenth

ROOT = Path(__file__).resolve().parents[2]


def changed_texts(source: str) -> set[str]:
    function = ast.parse(source).body[0]
    return {f"{change.operator}: {ast.unparse(change.instead)}" for change in changes_of(function)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < 3", {"comparison: a <= 3", "comparison: a >= 3", "constant: 4", "constant: 2"}),
        ("return a is None", {"comparison: a is not None"}),
        ("return a and b", {"boolean: a or b", "boolean: a", "boolean: b"}),
        ("return not a", {"not: a"}),
        ("f(a, b)", {"statement: pass", "swapped arguments: f(b, a)"}),
        ("f(a, key=b)", {"argument: f(a)"}),
        ("return {'k': a}", {"dict key: {}", "constant: 'kX'"}),
        ("return (a, b)", {"item: (b,)", "item: (a,)"}),
        ("return a if b else c", {"branch: a", "branch: c", "condition: a if not b else c"}),
        ("self.a = b", {"statement: pass"}),
        ("raise ValueError('text for people')", {"statement: pass"}),
        ("return min(a, b)", {"function: max(a, b)"}),
        ("return a + b", {"arithmetic: a - b"}),
    ],
)
def test_each_kind_of_bug_is_made(body: str, expected: set[str]) -> None:
    assert expected <= changed_texts(f"def f(self, a, b, c):\n    {body}")


@pytest.mark.parametrize(
    "body", ["'''A docstring.'''", "assert a < 3", "x: list[int] = a", "logger.warning('text of a log')"]
)
def test_what_no_test_shall_care_for_stays(body: str) -> None:
    assert not {text for text in changed_texts(f"def f(a):\n    {body}\n    return None") if "statement" not in text}


def test_an_await_is_dropped_and_a_handler_forgotten() -> None:
    source = "async def f(a):\n    try:\n        await a\n    except KeyError:\n        return 1"

    assert {"await: a", "handler: except KeyError:\n    raise"} <= changed_texts(source)


@pytest.fixture(scope="module")
def every() -> list[Mutant]:
    return list(chosen(()))


def test_each_mutant_is_one_change_of_its_function_and_has_a_key_of_its_own(every: list[Mutant]) -> None:
    assert len({mutant.key for mutant in every}) == len(every) > 3_000
    for mutant in sample(every, 100, 5):
        shipped = ast.dump(functions_of(mutant.module)[mutant.function])
        assert ast.dump(mutated(mutant)) != shipped
        assert mutant.lines.start >= 1


def test_a_sample_is_the_same_every_time_and_its_beginning_that_of_a_larger_one(every: list[Mutant]) -> None:
    assert sample(every, 30, 1) == sample(list(reversed(every)), 50, 1)[:30]
    assert sample(every, 30, 1) != sample(every, 30, 2)


def test_each_function_is_found_after_the_garbage_collector_was_told_to_forget_it() -> None:
    gc.freeze()

    assert (str(path_of("tagcast.rows.keys")), "lane_key") in live_functions()


def test_every_judgement_is_of_a_mutant_that_there_is_and_says_why(every: list[Mutant]) -> None:
    known = {mutant.key for mutant in every}

    stale = [key for key in judgements() if key not in known]
    assert not stale
    assert all(len(judgement.reason) > 10 for judgement in judgements().values())
    assert JUDGED.read_text().count(" | ") == len(judgements())


@pytest.fixture
def mutant() -> Mutant:
    return next(iter(mutants_of("tagcast.rows.keys")))


def test_a_survivor_is_tried_again_when_anything_changed_and_a_kill_is_kept(tmp_path: Path, mutant: Mutant) -> None:
    path = tmp_path / "results.jsonl"
    Results(path, "tree 1").add(mutant, SURVIVED, "3 tests reach it", 1.0)
    survived = Results(path, "tree 1").of(mutant)
    assert survived is not None
    assert Results(path, "tree 2").of(mutant) is None

    Results(path, "tree 2").add(mutant, TESTS, "tests/unit/test_keys.py::test", 1.0)

    assert Results(path, "tree 3").of(mutant) == Result(
        mutant.key, survived.function, "tree 2", TESTS, "tests/unit/test_keys.py::test", 1.0
    )


def test_the_table_counts_by_module(mutant: Mutant) -> None:
    result = Result(mutant.key, "f", "t", TESTS, "x", 0.0)
    survivor = Result(mutant.key, "f", "t", SURVIVED, "x", 0.0)

    *_, line, total = table([(mutant, result), (mutant, result), (mutant, survivor)], MODULES)

    assert line == "| `tagcast.rows.keys` | 3 | 2 | 0 | 0 | 0 | 1 | 66.7 % |"
    assert total.startswith("| all | 3 | 2 |")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=580)


@pytest.fixture
def shipped_text() -> Iterator[str]:
    before = path_of("tagcast.rows.keys").read_text()
    yield before
    assert path_of("tagcast.rows.keys").read_text() == before


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_mutants_of_the_keys_are_killed_by_the_tests_that_reach_them(shipped_text: str) -> None:
    told = run("--only", "tagcast.rows.keys:lane_key", "--suite", "tests/unit/test_stored_rows.py", "--simulated", "0")

    assert told.returncode == 0, told.stdout + told.stderr
    line = next(line for line in told.stdout.splitlines() if line.startswith("| `tagcast.rows.keys`"))
    assert line.endswith("| 0 | 0 | 0 | 0 | 100.0 % |")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", [of_this_commit(), pytest.param(None, marks=pytest.mark.nightly)])
def test_bugs_that_were_planted_by_hand_turn_their_tests_red(which: int | None) -> None:
    told = run("--planted", *([] if which is None else ["--tenth", str(which)]))

    assert told.returncode == 0, told.stdout + told.stderr
    assert f"{len(tenth(PLANTED, which))} planted bugs, 0 survived." in told.stdout


def test_every_bug_that_was_planted_by_hand_has_a_name_of_its_own_and_its_place_in_the_shipped_code() -> None:
    for bug in PLANTED:
        with planted(bug):
            pass

    assert len({bug.name for bug in PLANTED}) == len(PLANTED) >= 370


def test_every_bug_that_was_planted_by_hand_names_a_test_that_there_is() -> None:
    named = {(bug.section, bug.caught_by.partition("[")[0]) for bug in PLANTED}
    texts = {section: (ROOT / "tests" / section).read_text() for section, _ in named}

    assert [(section, test) for section, test in sorted(named) if f"def {test}" not in texts[section]] == []
