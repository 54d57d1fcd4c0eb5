"""Hostile histories of the deployed service, some at each run; `make simulate-aws` plays any number."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.aws.histories.asked import GROUP
from tests.aws.histories.campaign import play, shrunk
from tests.aws.histories.history import History
from tests.aws.histories.plan import draw_plan
from tests.mutation.bugs import Bug, planted, read_bugs
from tests.simulation.campaign import campaign
from tests.simulation.elsewhere import told_elsewhere
from tests.simulation.ledger import TERMINAL
from tests.simulation.planted import aim_of
from tests.tenth import TENTHS, of_this_commit

BUGS = read_bugs(Path(__file__).with_name("planted.txt"))
FIRST = 1_000
WITH_GROUPS = 17
"""A plan in which two of the subscribers are groups."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", [12, pytest.param(24, marks=pytest.mark.nightly)])
def test_every_promise_holds_on_the_box(seeds: int) -> None:
    tally = campaign(FIRST, seeds, 2, play)

    assert not tally.broken, "\n".join(tally.lines())
    assert set(tally.entries) == TERMINAL | {"unmatched"}
    assert len(tally.accidents) >= 18
    groups = [
        each for seed in range(FIRST, FIRST + seeds) for each in draw_plan(seed).subscribers if each.mode == GROUP
    ]
    assert len(groups) >= seeds / 4


def test_the_sweep_may_read_the_topic_of_what_it_sends_again() -> None:
    assert History(draw_plan(2_384)).run().broken is None


def test_a_seed_is_one_history_in_every_process() -> None:
    first = History(draw_plan(WITH_GROUPS), tell=True).run()
    again = History(draw_plan(WITH_GROUPS), tell=True).run()
    elsewhere = {told_elsewhere("tests.aws.histories", WITH_GROUPS, hash_seed) for hash_seed in ("1", "2")}

    assert first.trace == again.trace
    assert len(first.trace) > 100
    assert len(elsewhere) == 1
    assert f"digest {first.digest}\n" in elsewhere.pop()


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=bug.name, marks=[pytest.mark.nightly] * (n % TENTHS != of_this_commit()))
        for n, bug in enumerate(BUGS)
    ],
)
def test_a_planted_bug_is_caught_on_the_box(bug: Bug) -> None:
    assert caught_at(bug, (int(bug.caught_by or 0), *range(60))) is not None


def test_every_planted_bug_has_its_place_in_the_shipped_code() -> None:
    for bug in BUGS:
        with planted(bug):
            pass


def caught_at(bug: Bug, seeds: Iterable[int]) -> int | None:
    """Return the first of *seeds* whose history breaks with the bug; without it that one has to hold."""
    for seed in seeds:
        plan = draw_plan(seed, aim_of(bug))
        with planted(bug):
            broken = History(plan).run().broken
        if broken is not None:
            assert History(plan).run().broken is None
            return seed
    return None


def test_a_failing_history_shrinks_to_what_its_failure_needs() -> None:
    bug = next(each for each in BUGS if each.name == "a batch with one idempotency key shares one claim")
    with planted(bug):
        seed = next(seed for seed in range(40) if History(draw_plan(seed, aim_of(bug))).run().broken is not None)
        plan = draw_plan(seed, aim_of(bug))
        small = shrunk(plan)
        broken = History(small).run().broken

    assert broken is not None
    assert len(small.actions) < len(plan.actions)
    assert History(small).run().broken is None
