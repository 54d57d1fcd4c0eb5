"""What a receiver asks for by Retry-After is waited for, wherever its delivery stands in the backlog."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from tagcast.model import Outcome, Push, Strategy
from tagcast.operating import lanes

from tests.fakes.world import FAIL, OK, FakeWorld

DECAY, BACKOFF = Strategy.EXPONENTIAL_DECAY_RETRY, Strategy.BACKOFF_RETRY
BUSY = Outcome(False, "http 503", retry_after_s=90.0)


class Receiver:
    """Remembers when it was asked for each body; *answers* are its first answers, after them all is well."""

    def __init__(self, fake: FakeWorld, answers: dict[str, Outcome]) -> None:
        self.asked_at: dict[str, list[int]] = defaultdict(list)
        self.meanwhile: Callable[[], object] = lambda: None
        self._fake, self._answers = fake, answers
        fake.pusher.behaviours["A"] = self

    def __call__(self, push: Push) -> Outcome:
        body = push.message.draft.body.decode()
        self.asked_at[body].append(self._fake.clock.instant)
        if len(self.asked_at[body]) > 1:
            return OK
        self.meanwhile()
        return self._answers.get(body, OK)


def wait_of(receiver: Receiver, body: str) -> float:
    first, second = receiver.asked_at[body]
    return (second - first) / 1000


def test_behind_a_head_that_got_through_it_is_waited_for(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY)
    receiver = Receiver(fake, {"1": FAIL, "2": BUSY})
    fake.first_round("0", "1", "2")

    fake.run_workflows(until=fake.clock.instant + 200_000)

    assert wait_of(receiver, "1") == 1
    assert 90 <= wait_of(receiver, "2") < 95


@pytest.mark.parametrize("strategy", [DECAY, BACKOFF])
def test_what_joins_a_lane_that_is_there_already_is_waited_for(fake: FakeWorld, strategy: Strategy) -> None:
    fake.subscribe("A", strategy=strategy)
    receiver = Receiver(fake, {"1": BUSY})
    receiver.meanwhile = lambda: lanes.pause(fake.world, "test1", "A")
    fake.first_round("1")

    lanes.resume(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 200_000)

    assert 90 <= wait_of(receiver, "1") < 95


def test_who_asks_for_a_retry_now_waits_for_nothing(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY)
    receiver = Receiver(fake, {"1": BUSY})
    fake.first_round("1")

    fake.clock.instant += 1
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 200_000)

    assert wait_of(receiver, "1") < 1
