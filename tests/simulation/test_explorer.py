"""The explorer walks what it can within seconds; `python -m tests.simulation --explore 3600` walks further."""

from tests.mutation.bugs import planted
from tests.simulation.explorer import explore
from tests.simulation.moves import Bounds
from tests.simulation.planted import BUGS

SECONDS = 10.0
UNORDERED = next(bug for bug in BUGS if bug.name == "messages are closed before lanes are written")


def test_a_quiet_small_world_is_walked_whole() -> None:
    walk = explore(SECONDS, Bounds(crashes=1, copies=0, failures=0, changes=(), late_answers=False))

    assert walk.broken is None, walk.story
    assert walk.whole
    assert walk.states > 100
    assert walk.ends > 0


def test_crashes_copies_failures_and_a_change_in_any_order_break_nothing() -> None:
    walk = explore(SECONDS)

    assert walk.broken is None, walk.story
    assert walk.states > 300


def test_the_explorer_finds_a_planted_bug_and_tells_how() -> None:
    with planted(UNORDERED):
        walk = explore(SECONDS, Bounds(crashes=0, copies=0, failures=1, changes=()))

    assert walk.broken is not None
    assert walk.broken.invariant == "5 pending has a due row"
    assert walk.story[0] == "the batch is delivered"
