"""What tests do to a world in memory, and what they read there: all of the topic test1."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tagcast.model import Entry, Outcome, Push
from tagcast.operating import messages
from tagcast.ports import QueueEntry, Row
from tagcast.registry.directory import Directories
from tagcast.registry.indexing import ARCHIVED_SUBSCRIPTIONS_MIN
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.message import MessageRow
from tagcast.sealing import open_secrets
from tagcast.subscription_settings import SubscriptionSettings

from functions.fan_out.app import handle
from tests.fakes.queue_records import batch_of
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.api.test_http_api import Client, Reply


def ask(fake: FakeWorld, method: str, target: str, body: Any = None, **headers: str) -> Reply:
    """Return the answer of the HTTP API."""
    client = Client()
    client.fakes = fake
    return client(method, target, body, **headers)


def blocked(fake: FakeWorld, *bodies: str, name: str = "A", **settings: Any) -> list[str]:
    """Subscribe a receiver that fails, and let it fail at *bodies*; return their ids."""
    failing(fake, name, **settings)
    return fake.first_round(*bodies)


def slow(fake: FakeWorld, seconds: float, outcome: Outcome = OK, name: str = "A") -> None:
    """Let every push to *name* take so long."""

    def answer(push: Push) -> Outcome:
        fake.clock.sleep(seconds)
        return outcome

    fake.pusher.behaviours[name] = answer


def failing(fake: FakeWorld, *names: str, **settings: Any) -> None:
    """Subscribe receivers that fail."""
    for name in names:
        fake.subscribe(name, answers=FAIL, **settings)


def served(fake: FakeWorld, *entries: QueueEntry) -> list[str]:
    """Serve these entries, or all of the queue, as one batch; return which of its records come again."""
    answer = asyncio.run(handle(batch_of(entries or fake.queue.entries), fake.world))
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def row_of(fake: FakeWorld, message_id: str) -> MessageRow:
    row = whole_message(fake.store, "test1", message_id)
    assert row is not None
    return row


def entry(fake: FakeWorld, message_id: str, name: str = "A") -> Entry:
    return messages.message_view(fake.world, "test1", message_id).subscribers[name]


def known(fake: FakeWorld) -> SubscriptionSettings:
    """Return the settings of A with its secrets."""
    return open_secrets(fake.world, get_subscription(fake.world, "test1", "A")).settings


def lane_if_any(fake: FakeWorld, name: str = "A") -> Lane | None:
    row = fake.store.rows.get(lane_key("test1", get_subscription(fake.world, "test1", name).subscription_id))
    return None if row is None else LANES.value_of(row)


def lane(fake: FakeWorld, name: str = "A") -> Lane:
    found = lane_if_any(fake, name)
    assert found is not None
    return found


@contextmanager
def changing(fake: FakeWorld) -> Iterator[None]:
    """Make the topic large. Whenever a process has read all of its subscriptions, one more is there."""
    for number in range(ARCHIVED_SUBSCRIPTIONS_MIN):
        fake.subscribe(f"one-of-many-{number}", "none")
    fake.world.memory.of(Directories).clear()

    def change(pk: str, rows: list[Row]) -> None:
        if pk.startswith("TOPIC#") and len(rows) >= ARCHIVED_SUBSCRIPTIONS_MIN:
            fake.subscribe(f"later-{len(rows)}", "none")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake.store, "after_query", change)
        yield
