"""A wide message in an order: its sections are served side by side, and what stands behind it waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest
from tagcast.errors import UnavailableError

from functions.fan_out import app as fan_out
from tests.fakes.queue_records import batch_of
from tests.fakes.world import FakeWorld

NAMES = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def fake() -> FakeWorld:
    """A topic whose subscriptions keep an order, two of them in a section."""
    fake = FakeWorld()
    fake.world = replace(fake.world, section_max=2)
    fake.topic()
    for name in NAMES:
        fake.subscribe(name)
    return fake


def served(fake: FakeWorld) -> list[str]:
    """Serve what is in the queue as one batch; return which of its records come again."""
    batch, fake.queue.entries = batch_of(fake.queue.entries), []
    return failed_of(asyncio.run(fan_out.handle(batch, fake.world)))


def failed_of(answer: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def pushes(fake: FakeWorld) -> list[tuple[str, str]]:
    return [(push.subscription.name, push.message.draft.body.decode()) for push in fake.pusher.pushes]


async def refused(serving: Awaitable[None]) -> bool:
    serving.close()  # type: ignore[attr-defined]
    return False


async def killed(serving: Awaitable[None]) -> bool:
    await serving
    return False


async def lost(serving: Awaitable[None]) -> bool:
    await serving
    raise UnavailableError("no answer")


def test_the_first_section_is_served_here_and_each_other_one_by_another_process(fake: FakeWorld) -> None:
    fake.publish("1")

    assert served(fake) == []
    assert fake.first_rounds.asked == [1, 2]
    assert fake.pusher.received == {name: ["1"] for name in NAMES}


def test_the_next_message_begins_when_the_last_section_is_served_however_late(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")
    before: list[tuple[str, str]] = []

    async def late(serving: Awaitable[None]) -> bool:
        for _ in range(100):
            await asyncio.sleep(0)
        before.extend(pushes(fake))
        await serving
        return True

    fake.first_rounds.told[1] = late

    assert served(fake) == []
    assert set(before[:4]) == {(name, "1") for name in NAMES if name not in ("c", "d")}
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}
    assert [body for _, body in pushes(fake)] == ["1"] * 6 + ["2"] * 6


def test_sections_of_two_messages_are_never_served_side_by_side(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")
    fake.queue.entries = fake.queue.entries[1:-1]

    served(fake)

    assert fake.first_rounds.asked == [2, 1]
    assert [body for _, body in pushes(fake)] == ["1"] * 4 + ["2"] * 4


@pytest.mark.parametrize("fate", [refused, killed])
def test_what_nobody_served_elsewhere_is_served_here_before_the_next_message(fake: FakeWorld, fate: Any) -> None:
    fake.publish("1")
    fake.publish("2")
    fake.first_rounds.told[1] = fate

    assert served(fake) == []
    bodies = [body for _, body in pushes(fake)]
    assert bodies == sorted(bodies)
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}


def test_what_nobody_served_comes_again_first_when_time_is_over(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")

    async def refused_late(serving: Awaitable[None]) -> bool:
        fake.clock.instant += 3_000
        return await refused(serving)

    fake.first_rounds.told[1] = refused_late
    entries = list(fake.queue.entries)
    records = batch_of(entries)["Records"]

    assert served(fake) == [records[place]["messageId"] for place in (1, 3, 4, 5)]
    assert fake.queue.given_back == [records[place]["receiptHandle"] for place in (1, 3, 4, 5)]
    assert {body for _, body in pushes(fake)} == {"1"}
    fake.first_rounds.told.clear()
    fake.queue.entries = [entries[place] for place in (1, 3, 4, 5)]
    assert served(fake) == []
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}


def test_while_nobody_knows_what_came_of_a_section_the_batch_stays_invisible(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")
    fake.first_rounds.told[2] = lost
    entries = list(fake.queue.entries)

    assert len(served(fake)) == len(entries)
    assert fake.queue.given_back == []
    assert {body for _, body in pushes(fake)} == {"1"}
    fake.first_rounds.told.clear()
    fake.queue.entries = entries
    assert served(fake) == []
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}, "nobody had anything twice"


def test_a_section_that_comes_twice_in_a_batch_is_served_by_one_at_a_time(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.queue.entries = [*fake.queue.entries[:2], *fake.queue.entries[1:]]

    fake.deliver()

    assert fake.first_rounds.asked == [1, 2]
    assert fake.pusher.received == {name: ["1"] for name in NAMES}


def test_a_narrow_message_behind_a_section_that_is_served_again_is_read_after_it(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.world = replace(fake.world, section_max=6)
    fake.publish("2")
    fake.first_rounds.told[1] = refused

    assert served(fake) == []
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}
