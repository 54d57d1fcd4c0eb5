"""Hostile histories of the deployed service, some at each run; `make simulate-aws` plays any number."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tagcast.model import Strategy

from tests.aws.histories.asked import GROUP
from tests.aws.histories.campaign import play, shrunk
from tests.aws.histories.history import History
from tests.aws.histories.plan import draw_plan
from tests.aws.histories.planted_groups import PLANTED_EVENTS, PLANTED_GROUPS
from tests.simulation.campaign import campaign
from tests.simulation.elsewhere import told_elsewhere
from tests.simulation.ledger import TERMINAL
from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant, planted

FIRST, SEEDS = 1_000, 24
WITH_GROUPS = 17
"""A plan in which two of the subscribers are groups."""


@pytest.mark.timeout(300)
def test_every_promise_holds_on_the_box() -> None:
    tally = campaign(FIRST, SEEDS, 2, play)

    assert not tally.broken, "\n".join(tally.lines())
    assert set(tally.entries) == TERMINAL | {"unmatched"}
    assert len(tally.accidents) >= 18
    groups = [
        each for seed in range(FIRST, FIRST + SEEDS) for each in draw_plan(seed).subscribers if each.mode == GROUP
    ]
    assert len(groups) >= SEEDS / 4


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


PLANTED = (
    Mutant(
        "a failed send counts as sent",
        "tagcast_aws.dispatch.queue:SqsQueue._send_batch",
        'return [batch[int(failed["Id"])] for failed in answer.get("Failed", [])]',
        "return []",
        Aim(faults=("spoiled",), only_these_faults=True, rate=0.3),
    ),
    Mutant(
        "keys that stay unprocessed are dropped",
        "tagcast_aws.store.dynamodb:DynamoStore.get_many",
        'left = cast("dict[str, Any]", answer.get("UnprocessedKeys") or {})',
        "left = {}",
        Aim(faults=("spoiled",), rate=0.05),
    ),
    Mutant(
        "a batch with one idempotency key shares one claim",
        "tagcast.delivery.publishing:Idempotency.at",
        'f"{self.key}#{place}"',
        "self.key",
        Aim(keyed=0.8),
    ),
    Mutant(
        "a resumed lane forgets what was planned",
        "tagcast.operating.lanes:_resume",
        "max(now, lane.next_attempt_at or 0)",
        "now",
        Aim(
            operations=("pause", "resume"),
            strategy=Strategy.BACKOFF_RETRY,
            modes=("down", "dead"),
            heavy=0.0,
            batched=0.0,
            wide=0.0,
            knowing=0.0,
        ),
    ),
    Mutant(
        "records that the archive refused count as taken",
        "tagcast_aws.dispatch.firehose:FirehoseArchive._refused",
        'return [parcel for parcel, response in pairs if response.get("ErrorCode")]',
        "return ()",
        Aim(faults=("spoiled",), rate=0.05),
    ),
)


RARE = {"a resumed lane forgets what was planned": 141}
"""Seeds that catch what one seed in some seventy catches."""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught_on_the_box(mutant: Mutant) -> None:
    assert caught_at(mutant, (RARE.get(mutant.name, 0), *range(40))) is not None


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("mutant", "seed"), [pytest.param(*each, id=each[0].name) for each in PLANTED_GROUPS])
def test_a_planted_bug_of_groups_is_caught_on_the_box(mutant: Mutant, seed: int) -> None:
    assert caught_at(mutant, (seed, *range(60))) is not None


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("mutant", "seed"), [pytest.param(*each, id=each[0].name) for each in PLANTED_EVENTS])
def test_a_planted_bug_of_events_is_caught_on_the_box(mutant: Mutant, seed: int) -> None:
    assert caught_at(mutant, (seed, *range(60))) is not None


def caught_at(mutant: Mutant, seeds: Iterable[int]) -> int | None:
    """Return the first of *seeds* whose history breaks with the bug; without it that one has to hold."""
    for seed in seeds:
        plan = draw_plan(seed, mutant.aim)
        with planted(mutant):
            broken = History(plan).run().broken
        if broken is not None:
            assert History(plan).run().broken is None
            return seed
    return None


def test_a_failing_history_shrinks_to_what_its_failure_needs() -> None:
    mutant = PLANTED[2]
    with planted(mutant):
        seed = next(seed for seed in range(40) if History(draw_plan(seed, mutant.aim)).run().broken is not None)
        plan = draw_plan(seed, mutant.aim)
        small = shrunk(plan)
        broken = History(small).run().broken

    assert broken is not None
    assert len(small.actions) < len(plan.actions)
    assert History(small).run().broken is None
