"""A wide message in an order: its sections are served in turn, and what stands behind it waits for all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tagcast.model import Push

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
    answer = asyncio.run(fan_out.handle(batch, fake.world))
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def pushes(fake: FakeWorld) -> list[tuple[str, str]]:
    return [(push.subscription.name, push.message.draft.body.decode()) for push in fake.pusher.pushes]


def test_the_sections_of_a_message_are_served_in_turn_and_the_next_message_behind_them(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")

    assert served(fake) == []
    sections = [pushes(fake)[place : place + 2] for place in range(0, 12, 2)]
    assert [sorted(each) for each in sections] == [
        [(one, body), (other, body)] for body in ("1", "2") for one, other in ("ab", "cd", "ef")
    ]


def test_what_is_not_begun_when_time_is_over_comes_again_in_its_order(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")

    def slow(push: Push) -> object:
        if push.subscription.name == "c":
            fake.clock.instant += 3_000
        return None

    fake.pusher.before_push = slow
    entries = list(fake.queue.entries)
    records = batch_of(entries)["Records"]

    assert served(fake) == [record["messageId"] for record in records[2:]]
    assert fake.queue.given_back == [record["receiptHandle"] for record in records[2:]]
    assert {body for _, body in pushes(fake)} == {"1"}
    fake.pusher.before_push = lambda push: None
    fake.queue.entries = entries[2:]
    assert served(fake) == []
    fake.run_workflows(until=fake.clock.instant + 10_000)
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}
