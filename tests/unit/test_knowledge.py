"""What a process that publishes knows of a topic without reading it, and who waits for that."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tagcast.model import Keep, TopicSettings
from tagcast.ports import Key
from tagcast.registry import shadows, subscriptions, topics
from tagcast.registry.directory import CLOCKS_APART_S
from tagcast.registry.subscribing import SubscriptionRequest, put_subscriptions
from tagcast.registry.subscriptions import change_filter
from tagcast.rows.keys import topic_key

from tests.fakes.calls import Before
from tests.fakes.raced_store import watch_reads
from tests.fakes.world import FakeWorld

KNOWN_S = 1.0
AWAITED_S = KNOWN_S + CLOCKS_APART_S
TOPIC = topic_key("test1")
PEAR = {"kind": "tags", "tags": ["pear"]}


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("A")
    fake.publish("known from here on")
    return fake


def reading(fake: FakeWorld, known_s: float = KNOWN_S) -> list[Key]:
    """Let the process know the topic for *known_s*; what it knows already is older than that. Return what it reads."""
    fake.world = replace(fake.world, topic_known_s=known_s)
    fake.clock.sleep(known_s)
    return watch_reads(fake.store)


@pytest.mark.parametrize(("known_s", "reads"), [(0, [1, 2, 3]), (KNOWN_S, [1, 1, 2])])
def test_a_topic_is_read_for_every_publish_or_once_a_second(fake: FakeWorld, known_s: float, reads: list[int]) -> None:
    read = reading(fake, known_s)

    seen = []
    for pause_s in (0, KNOWN_S - 0.001, 0.001):
        fake.clock.sleep(pause_s)
        fake.publish("x")
        seen.append(read.count(TOPIC))

    assert seen == reads


def test_what_is_known_counts_from_the_beginning_of_its_read(fake: FakeWorld, before: Before) -> None:
    before.each(fake.store, "get", lambda key: fake.clock.sleep(KNOWN_S if key == TOPIC else 0))
    read = reading(fake)

    fake.publish("x")
    fake.publish("y")

    assert read.count(TOPIC) == 2


@pytest.mark.parametrize("stopped", ["monotonic", "now"])
def test_a_process_that_was_frozen_knows_nothing_whichever_of_its_clocks_stood_still(
    fake: FakeWorld, stopped: str
) -> None:
    read = reading(fake)
    fake.publish("x")
    still = getattr(fake.clock, stopped)()
    setattr(fake.clock, stopped, lambda: still)

    fake.clock.sleep(3_600)
    fake.publish("x")

    assert read.count(TOPIC) == 2


CHANGES: dict[str, Callable[[FakeWorld], object]] = {
    "made": lambda fake: fake.subscribe("B"),
    "replaced": lambda fake: fake.subscribe("A", "pear"),
    "many": lambda fake: put_subscriptions(
        fake.world,
        "test1",
        [SubscriptionRequest(name, fake.subscribe("A").settings) for name in "BC"],
        fake.clock.monotonic(),
    ),
    "group": lambda fake: fake.group("G"),
    "removed": lambda fake: subscriptions.delete_subscription(fake.world, "test1", "A"),
    "shadowed": lambda fake: shadows.put_shadow(fake.world, "test1", "A", PEAR),
    "promoted": lambda fake: (
        shadows.put_shadow(fake.world, "test1", "A", PEAR),
        shadows.promote_shadow(fake.world, "test1", "A"),
    ),
    "refiltered": lambda fake: change_filter(fake.world, "test1", "A", PEAR),
    "settings": lambda fake: topics.put_topic(fake.world, "test1", TopicSettings(60, 1_024, keep=Keep.LIFE)),
    "resized": lambda fake: topics.change_topic(
        fake.world, "test1", lambda settings: replace(settings, body_bytes_max=1_024)
    ),
}


def known(fake: FakeWorld) -> tuple[object, ...]:
    """Return what a publish goes by: who matched, until when the message lives, and what is kept."""
    (message_id,) = fake.publish("x", tags=["apple"])
    row = next(row for key, row in fake.store.rows.items() if key.sk == "MSG" and row["message_id"] == message_id)
    told = ("matched", "subscriptions_version", "kept")
    return *(row.get(name) for name in told), row["expires_at"] - row["accepted_at"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_was_acknowledged_is_what_the_next_publish_of_any_process_goes_by(
    fake: FakeWorld, change: Callable[[FakeWorld], object]
) -> None:
    reading(fake)
    known(fake)
    began_at = fake.clock.now()

    change(fake)
    assert fake.clock.now() - began_at >= AWAITED_S * 1000
    warm = known(fake)
    fake.world = replace(fake.world, memory=type(fake.world.memory)())

    assert known(fake) == warm


def test_a_topic_that_is_gone_is_published_to_by_nobody_once_that_was_told(fake: FakeWorld) -> None:
    reading(fake)
    subscriptions.delete_subscription(fake.world, "test1", "A")
    began_at = fake.clock.now()

    topics.delete_topic(fake.world, "test1")

    assert fake.clock.now() - began_at >= AWAITED_S * 1000


def test_nobody_waits_where_every_publish_reads_its_topic(fake: FakeWorld) -> None:
    began_at = fake.clock.now()
    for change in CHANGES.values():
        change(fake)
        fake.subscribe("A")
    assert fake.clock.now() == began_at


def test_many_subscriptions_wait_once(fake: FakeWorld) -> None:
    settings = fake.subscribe("A").settings
    reading(fake)
    began_at = fake.clock.now()

    put_subscriptions(
        fake.world, "test1", [SubscriptionRequest(f"S{n}", settings) for n in range(100)], fake.clock.monotonic()
    )

    assert fake.clock.now() - began_at == AWAITED_S * 1000
