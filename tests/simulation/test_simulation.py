"""Hostile histories of the shipped code, a few hundred at each run; `make simulate` plays any number."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.bugs import Bug, planted
from tests.simulation import digests
from tests.simulation.campaign import Tally, campaign, load, play, resume
from tests.simulation.elsewhere import told_elsewhere
from tests.simulation.history import LATE_MS_MAX, History, archive_of
from tests.simulation.ledger import TERMINAL
from tests.simulation.plan import FAULTS, Aim, Plan, draw_plan
from tests.simulation.shrink import shrink

NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize("seeds", [75, pytest.param(150, marks=NIGHTLY)])
def test_every_promise_holds_under_faults(seeds: int) -> None:
    tally = campaign(1_000, seeds, 2)

    assert not tally.broken, "\n".join(tally.lines())
    assert tally.runs == seeds
    assert set(tally.entries) == TERMINAL | {"unmatched"}
    assert set(tally.accidents) == FAULTS.keys()


@pytest.mark.parametrize("seeds", [10, pytest.param(30, marks=NIGHTLY)])
def test_every_promise_holds_while_strategies_change(seeds: int) -> None:
    broken = [History(draw_plan(seed, Aim(changing=0.6))).run().broken for seed in range(seeds)]

    assert broken == [None] * seeds


@pytest.mark.parametrize("seed", [3_025_468, 3_413_622])
def test_a_history_that_was_broken_once_holds(seed: int) -> None:
    assert History(draw_plan(seed)).run().broken is None


def test_a_seed_is_one_history_in_every_process() -> None:
    first = History(draw_plan(256), tell=True).run()
    again = History(draw_plan(256), tell=True).run()
    elsewhere = {told_elsewhere("tests.simulation", 256, hash_seed) for hash_seed in ("1", "2")}

    assert first.trace == again.trace
    assert digests.line(256, aws=False) == digests.line(256, aws=False)
    assert len(first.trace) > 50
    assert len(elsewhere) == 1
    assert f"digest {first.digest}\n" in elsewhere.pop()


FORGETFUL = Bug("the relay sends nothing again", (("tagcast.repairing.relay:relay", "never waiting"),))


def test_a_failing_history_shrinks_to_what_its_failure_needs() -> None:
    aim = Aim(faults=("send_loss",), rate=0.08)
    with planted(FORGETFUL):
        seed = next(seed for seed in range(100) if History(draw_plan(seed, aim)).run().broken is not None)
        plan = draw_plan(seed, aim)
        small = shrink(plan)
        broken = History(small).run().broken

    assert broken is not None
    assert broken.invariant == "liveness"
    assert len(small.actions) < len(plan.actions)
    assert _messages(small) <= _messages(plan) / 2
    assert small.faults_max == 1
    assert History(small).run().broken is None


def _messages(plan: Plan) -> int:
    return sum(len(action.drafts) for action in plan.actions)


def test_a_campaign_goes_on_where_its_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "commit.json"
    resume(path, 5, 1)
    resumed = resume(path, 10, 1)

    at_once = replace(play(range(10)), seconds=resumed.seconds)
    assert resumed == at_once == replace(load(path), seconds=resumed.seconds)
    assert load(tmp_path / "none.json") == Tally()


def test_the_time_to_live_takes_rows_after_the_settled_history_and_nothing_happens() -> None:
    history = History(draw_plan(30))
    result = history.run()

    assert result.broken is None
    assert history.now - min(row["accepted_at"] for row in history.checks.ledger.accepted.values()) > LATE_MS_MAX
    assert not [key for key in history.store.rows if key.pk.startswith(("MSG#", "DUE#", "RETAINED#"))]


@pytest.mark.parametrize("seed", [30, 35])
def test_the_archive_of_a_history_is_exported_under_a_topic_of_its_own(seed: int) -> None:
    records = archive_of(seed)

    assert {record.fields["topic"] for record in records if "topic" in record.fields} == {f"t{seed}"}
    assert {record.kind for record in records} >= {"messages", "deliveries", "subscriptions"}
    assert len({record.fields["record_id"] for record in records}) < len(records)
