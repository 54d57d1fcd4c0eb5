"""How members of a group share its messages, on the shipped handlers, in a time that only events move."""

import heapq
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from tagcast.model import Ordering
from tagcast.operating.messages import message_view

from tests.fakes.world import FakeWorld
from tests.unit.worlds import ask

GROUP = "/topics/test1/subscriptions/workers"
POLL_MS, VISIBILITY_TIMEOUT_S = 100, 60
WORK_MS = (500, 1_500)
"""So long a member works on a batch: all are equally fast."""
EVENLY = 0.2


@dataclass
class Members:
    """Members that pull, work and acknowledge, each at its own pace; one that is killed says nothing any more."""

    fake: FakeWorld
    chance: random.Random
    total: int
    pulled: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)

    def live(self, *names: str, until: int) -> None:
        """Let members of these names live until that instant, or until everything is acknowledged."""
        clock, plan = self.fake.clock, [(self.fake.clock.instant + place, name) for place, name in enumerate(names)]
        busy: dict[str, list[dict[str, Any]]] = {}
        while plan and plan[0][0] < until and len(self.acknowledged) < self.total:
            at, name = heapq.heappop(plan)
            clock.instant = max(clock.instant, at)
            if at >= self.killed.get(name, until):
                continue
            self.acknowledge(name, busy.pop(name, []))
            if messages := self.pull(name):
                busy[name] = messages
            pause = self.chance.randint(*WORK_MS) if name in busy else POLL_MS
            heapq.heappush(plan, (clock.instant + pause, name))

    def pull(self, name: str) -> list[dict[str, Any]]:
        wish = {"max_messages": 10, "visibility_timeout_seconds": VISIBILITY_TIMEOUT_S, "member_id": name}
        found: list[dict[str, Any]] = self.ask("pull", wish)["messages"]
        self.pulled.setdefault(name, []).extend((self.fake.clock.instant, each["body"]) for each in found)
        return found

    def acknowledge(self, name: str, messages: Sequence[dict[str, Any]]) -> None:
        if not messages:
            return
        results = self.ask("ack", {"receipt_handles": [each["receipt_handle"] for each in messages]})["results"]
        for message, result in zip(messages, results, strict=True):
            assert result["status"] == "acknowledged", result
            self.acknowledged[message["body"]] = name

    def ask(self, word: str, body: dict[str, Any]) -> Any:
        reply = ask(self.fake, "POST", f"{GROUP}/{word}", body)
        assert reply.status == 200, reply.json
        return reply.json


@pytest.fixture
def fake() -> FakeWorld:
    fake = FakeWorld()
    fake.topic(ordering=Ordering.NONE)
    fake.group("workers")
    return fake


def published(fake: FakeWorld, count: int) -> dict[str, str]:
    ids: dict[str, str] = {}
    for start in range(0, count, 100):
        bodies = [f"m{place}" for place in range(start, min(start + 100, count))]
        ids |= dict(zip(bodies, fake.first_round(*bodies), strict=True))
    return ids


def all_delivered(fake: FakeWorld, ids: dict[str, str]) -> bool:
    views = [message_view(fake.world, "test1", message_id) for message_id in ids.values()]
    return all(view.subscribers["workers"].state.value == "delivered" for view in views)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_four_members_that_are_equally_fast_share_evenly(fake: FakeWorld, seed: int) -> None:
    ids = published(fake, 800)
    members = Members(fake, random.Random(seed), len(ids))
    members.live("a", "b", "c", "d", until=fake.clock.instant + 3_600_000)

    shares = Counter(members.acknowledged.values())
    assert sum(shares.values()) == len(ids)
    assert all(abs(share - 200) <= EVENLY * 200 for share in shares.values()), shares
    assert all_delivered(fake, ids)


def test_a_member_that_dies_loses_nothing_and_delays_its_share_by_its_invisible_time(fake: FakeWorld) -> None:
    ids = published(fake, 400)
    members = Members(fake, random.Random(1), len(ids))
    dies_at = fake.clock.instant + 5_000
    members.killed["d"] = dies_at
    members.live("a", "b", "c", "d", until=dies_at + 600_000)

    left_behind = {body for _, body in members.pulled["d"]} - {
        b for b, who in members.acknowledged.items() if who == "d"
    }
    again = {body: at for name in "abc" for at, body in members.pulled[name] if body in left_behind}
    assert left_behind
    assert again.keys() == left_behind
    assert max(again.values()) <= dies_at + VISIBILITY_TIMEOUT_S * 1000 + 1_500
    assert all_delivered(fake, ids)


@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.benchmark)])
def test_two_members_that_are_killed_again_and_again_lose_nothing(fake: FakeWorld, count: int) -> None:
    ids = published(fake, count)
    members = Members(fake, random.Random(7), len(ids))
    lives = 0
    while len(members.acknowledged) < count:
        names = [f"{name}{lives}" for name in "ab"]
        end = fake.clock.instant + 20_000
        members.killed = {name: end - members.chance.randint(0, 10_000) for name in names}
        members.live(*names, until=end)
        lives += 1
        fake.clock.instant = end + 180_000 * (lives % 4 == 0)  # Every fourth time nobody is there for three minutes.

    pulls: dict[str, list[int]] = {}
    for each in members.pulled.values():
        for at, body in each:
            pulls.setdefault(body, []).append(at)
    repeated = {body: sorted(instants) for body, instants in pulls.items() if len(instants) > 1}
    print(f"{count} messages, {lives} lives of two members, {len(repeated)} pulled more than once")
    assert repeated
    assert all(
        later - earlier >= VISIBILITY_TIMEOUT_S * 1000 for at in repeated.values() for earlier, later in pairwise(at)
    )
    assert pulls.keys() == ids.keys()
    assert all_delivered(fake, ids)
