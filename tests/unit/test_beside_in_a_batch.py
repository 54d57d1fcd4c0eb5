"""A batch of the queue may have records of several topics: what is served of one waits for no other."""

from dataclasses import replace
from typing import Any

import pytest
from tagcast.model import Ordering
from tagcast.ports import Table
from tagcast.pushing.engine import ANSWERED_WITHIN_S
from tagcast.rows.keys import lane_key

from functions.fan_out.app import BESIDE_S, handle
from tests.fakes.calls import Before
from tests.fakes.queue_records import batch_of
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import OK, FakeQueue

HANGS_S, QUICK_S = 60.0, 0.05


class WatchedQueue(FakeQueue):
    """Remembers when something left it."""

    def __init__(self, timed: TimedWorld) -> None:
        super().__init__()
        self.timed = timed
        self.at_s: dict[str, float] = {}

    def delete(self, receipts: Any) -> None:
        super().delete(receipts)
        self.at_s |= dict.fromkeys(receipts, self.timed.loop.seconds)

    def give_back(self, receipts: Any, after_s: int = 0) -> None:
        super().give_back(receipts, after_s)
        self.at_s |= dict.fromkeys(receipts, self.timed.loop.seconds)


@pytest.fixture
def timed() -> TimedWorld:
    timed = TimedWorld(0.0)
    timed.fake.topic("theirs", ordering=Ordering.TOPIC)
    return timed


def served(
    timed: TimedWorld, theirs_s: float, budget_s: float | None = None, received: int = 1
) -> tuple[WatchedQueue, dict[str, Any], float]:
    """Serve a batch with two messages to a healthy receiver and one of another topic, whose receiver takes so long."""
    fake = timed.fake
    timed.subscribe("healthy", answers=(QUICK_S, OK))
    fake.subscribe("theirs", topic="theirs")
    timed.receivers.replies["theirs"] = (theirs_s, OK)
    fake.publish("1")
    fake.publish("2")
    fake.publish("3", topic="theirs")
    queue = WatchedQueue(timed)
    records = batch_of(fake.queue.entries)
    for record in records["Records"]:
        record["attributes"]["ApproximateReceiveCount"] = str(received)
    began_s = timed.loop.seconds
    answer = timed.run(handle(records, replace(timed.world, queue=queue), budget_s))
    return queue, answer, began_s


def test_what_is_served_leaves_the_queue_before_a_topic_that_hangs(timed: TimedWorld) -> None:
    queue, answer, began_s = served(timed, HANGS_S)

    first, second, hanging = sorted(queue.at_s[each] - began_s for each in queue.deleted)
    assert first == second <= 2 * QUICK_S + BESIDE_S + 0.01
    assert BESIDE_S < hanging <= ANSWERED_WITHIN_S + 0.01, "what stands behind it waits no longer, too"
    assert timed.loop.seconds - began_s >= 15
    assert answer == {"batchItemFailures": []}


def test_topics_that_end_together_need_no_request_more(timed: TimedWorld) -> None:
    queue, _, began_s = served(timed, QUICK_S)

    assert queue.deleted == []
    assert timed.loop.seconds - began_s < BESIDE_S


@pytest.mark.parametrize(("received", "pause_s"), [(1, 0), (4, 4), (50, 60)])
def test_what_failed_is_given_back_at_once_and_later_each_time(
    timed: TimedWorld, before: Before, received: int, pause_s: int
) -> None:
    """Until then its order would wait for the visibility timeout of the queue, six minutes."""

    def refuse(table: Table, pk: str, **bounds: Any) -> None:
        if pk == lane_key("test1", "").pk:
            raise TimeoutError

    before.each(timed.store, "query", refuse)
    queue, answer, began_s = served(timed, HANGS_S, received=received)

    assert len(queue.deleted) == 1, "that of the other topic"
    assert queue.put_off == dict.fromkeys(queue.given_back, pause_s)
    assert {receipt.split()[-1] for receipt in queue.given_back} == {
        each["itemIdentifier"] for each in answer["batchItemFailures"]
    }
    assert len(queue.given_back) == 2
    assert max(queue.at_s[receipt] for receipt in queue.given_back) - began_s < 1


def test_an_invocation_ends_itself_in_time_and_gives_back_what_it_has_not_done(
    timed: TimedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda would cut it off at its time-out, and the order would wait for the visibility timeout of the queue."""
    monkeypatch.setattr("tagcast.pushing.engine.ANSWERED_WITHIN_S", 5.0)
    queue, answer, began_s = served(timed, HANGS_S, budget_s=3.0)

    assert timed.loop.seconds - began_s < 4
    assert len(queue.deleted) == 2
    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == [
        receipt.split()[-1] for receipt in queue.given_back
    ]
    assert len(queue.given_back) == 1


def test_what_was_served_does_not_come_again_if_a_late_push_exceeds_the_time_of_the_invocation(
    timed: TimedWorld,
) -> None:
    queue, answer, began_s = served(timed, HANGS_S, budget_s=3.0)

    assert timed.loop.seconds - began_s < 4
    assert len(queue.deleted) == 3
    assert (answer, queue.given_back) == ({"batchItemFailures": []}, [])
