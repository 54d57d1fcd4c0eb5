"""Promises of pull groups, late entries and kept bodies under accidents, and that planted bugs break them."""

from pathlib import Path

import pytest

from tests.mutation.bugs import Bug, planted, read_bugs
from tests.simulation.group_history import BrokenPromiseError, GroupHistory
from tests.simulation.late_history import LateHistory

KINDS = {"groups": GroupHistory, "late entries": LateHistory}
BUGS = read_bugs(Path(__file__).with_name("planted_groups.txt"))


@pytest.mark.parametrize(
    ("kind", "seeds"), [("groups", range(20)), ("groups", range(20, 40)), ("late entries", range(12))]
)
def test_every_promise_of_a_group_holds_under_accidents(kind: str, seeds: range) -> None:
    for seed in seeds:
        try:
            KINDS[kind](seed).play()
        except BrokenPromiseError as fault:
            pytest.fail(f"seed {seed}: {fault}")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_of_groups_breaks_a_promise(bug: Bug) -> None:
    with planted(bug), pytest.raises(BrokenPromiseError):
        KINDS[bug.section](int(bug.caught_by)).play()
