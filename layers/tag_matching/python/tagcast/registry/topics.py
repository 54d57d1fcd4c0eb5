"""Use cases of topics: create, update, show, list, delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConflictError, Fault, FaultCode, InvalidRequestError, PreconditionFailedError
from tagcast.ids import first_id_at
from tagcast.model import FilterType, Topic, TopicSettings
from tagcast.ports import World
from tagcast.queues import GroupQueue
from tagcast.registry.directory import Directories, read_topic, wait_for_publishers
from tagcast.registry.subscribing import NO_VERSION
from tagcast.rows import stored
from tagcast.rows.listed import RETAINED
from tagcast.rows.topic import (
    COUNTERS,
    Counters,
    counters_delete,
    events_check,
    settings_update,
    topic_deletes,
    topic_puts,
)
from tagcast.tables import Page, Write
from tagcast.topic_settings import RETENTION_S_MAX

RETAINED_MAX, PAGES_MAX = 10_000, 10
COUNTERS_LIFE_S = 4 * 366 * 86_400
"""The counters of a deleted topic stay for 4 years, longer than the archive's default retention (three years)."""


def put_topic(
    world: World,
    name: str,
    settings: TopicSettings,
    if_match: int | None = None,
    filter_type: FilterType | None = None,
) -> tuple[Topic, bool]:
    """Create the topic or replace its settings. Return it, and whether it is new.

    *if_match* is the required version; NO_VERSION if the topic must not exist, None for any. Only a new topic gets
    *filter_type*. Raises PreconditionFailedError for another version. Raises ConflictError if the ordering would change
    while messages are retained, or if the events topic is missing or has an events topic. Raises InvalidRequestError if
    a topic names itself as its events topic.
    """

    def attempt() -> tuple[Topic, bool]:
        known = stored.topic(world.store, name)
        _check_version(known, if_match)
        if known is None:
            return _create(world, name, settings, filter_type), True
        return _write_settings(world, known, settings), False

    topic, is_new = until_won(world, f"topic {name}", attempt)
    if not is_new:
        wait_for_publishers(world)
    return topic, is_new


def change_topic(
    world: World, name: str, change: Callable[[TopicSettings], TopicSettings], if_match: int | None = None
) -> Topic:
    """Replace the topic's settings by the result of *change*, unless they are equal.

    *if_match* is the required version; None allows any. Raises NotFoundError, and the errors of :func:`put_topic`.
    """

    def attempt() -> Topic:
        known = read_topic(world, name)
        _check_version(known, if_match)
        wanted = change(known.settings)
        return known if wanted == known.settings else _write_settings(world, known, wanted)

    changed = until_won(world, f"topic {name}", attempt)
    wait_for_publishers(world)
    return changed


def _check_version(known: Topic | None, if_match: int | None) -> None:
    present = NO_VERSION if known is None else known.version
    if if_match is not None and present != if_match:
        raise PreconditionFailedError(f"the topic {f'has version {present}' if present else 'does not exist'}")


def _write_settings(world: World, known: Topic, wanted: TopicSettings) -> Topic:
    """Write the settings *wanted*, unless *known* changed since it was read. Return the stored topic."""
    if known.settings.ordering is not wanted.ordering and _has_ordered_messages(world, known.name):
        raise ConflictError("the ordering cannot change while messages are retained")
    changed = replace(known, settings=wanted, updated_at=max(world.clock.now(), known.version + 1))
    is_moved = wanted.events_topic != known.settings.events_topic
    # A transaction executes once even if the SDK repeats it; a repeated write would fail its own condition.
    world.store.transact((settings_update(known, changed), *(_events_check(world, changed) if is_moved else ())))
    return changed


def _has_ordered_messages(world: World, name: str) -> bool:
    """Return whether messages wait in backlogs, or in the queue of an ordered group."""
    if retained_count(world, name):
        return True
    present = stored.every_subscription(world.store, name)
    groups = [each for each in present if each.settings.is_group and each.settings.ordered]
    return any(world.group_queues.counts(GroupQueue.of(each)).has_any for each in groups)


def _events_check(world: World, topic: Topic) -> tuple[Write, ...]:
    """Return a condition for the write of *topic*: its events topic exists and has no events topic.

    Raises InvalidRequestError if a topic names itself. Raises ConflictError if the condition is not met now.
    """
    name = topic.settings.events_topic
    if name is None:
        return ()
    if name == topic.name:
        raise InvalidRequestError((Fault("is the topic itself", "/events_topic", FaultCode.CONFLICT),))
    found = stored.topic(world.store, name)
    if found is None:
        raise ConflictError(f"the events_topic {name} does not exist")
    if found.settings.events_topic is not None:
        raise ConflictError(f"the events_topic {name} has an events_topic itself")
    return (events_check(found.name),)


def _create(world: World, name: str, settings: TopicSettings, filter_type: FilterType | None) -> Topic:
    """Store a new topic, with the counters of an earlier topic of the same name."""
    now, known = world.clock.now(), COUNTERS.read(world.store, name)
    counters = known or Counters()
    topic = Topic(
        name,
        world.dice.unique_id(now),
        settings,
        created_at=now,
        updated_at=now,
        subscriptions_version=counters.subscriptions_version,
        next_ordinal=counters.next_ordinal,
        filling_quota_until=counters.filling_quota_until,
        filter_type=filter_type,
    )
    world.store.transact((*topic_puts(topic), counters_delete(name, known), *_events_check(world, topic)))
    return topic


def list_topics(world: World, limit: int, cursor: str | None) -> Page[Topic]:
    """Return at most *limit* topics, sorted by name, after the name *cursor*."""
    names = stored.topic_names(world.store, after=cursor or "", limit=limit + 1)
    return Page(stored.topics(world.store, names[:limit]), names[limit - 1] if len(names) > limit else None)


def search_topics(world: World, word: str) -> tuple[tuple[str, str], ...]:
    """Return the name and id of every topic whose name contains *word*, case-insensitively, sorted by name."""
    wanted = word.lower()
    return tuple(each for each in stored.topic_ids(world.store) if wanted in each[0].lower())


def delete_topic(world: World, name: str, if_match: int | None = None) -> None:
    """Delete the topic. Raises ConflictError if it has subscriptions, and NotFoundError if it does not exist.

    *if_match* is the required version (PreconditionFailedError); None allows any. The counters of the topic stay for as
    long as receipts and the archive may contain its ordinals. So a later topic of the same name reuses no ordinal.
    """

    def attempt() -> None:
        topic = read_topic(world, name)
        _check_version(topic, if_match)
        if topic.subscription_count:
            raise ConflictError(f"topic {name} still has {topic.subscription_count} subscriptions")
        world.store.transact(topic_deletes(topic, world.clock.now() // 1000 + COUNTERS_LIFE_S))

    until_won(world, f"topic {name}", attempt)
    world.memory.of(Directories).pop(name, None)
    wait_for_publishers(world)


def retained_count(world: World, topic: str) -> int:
    """Return how many live messages have pending deliveries after their first round, at most :data:`RETAINED_MAX`.

    At most :data:`PAGES_MAX` pages of rows are read, oldest first. The number may be too low if many of these rows are
    of expired messages; the sweep deletes such rows later.
    """
    now, found = world.clock.now(), set[str]()
    after = first_id_at(now - RETENTION_S_MAX * 1000)
    for _ in range(PAGES_MAX):
        rows = stored.retained_rows(world.store, topic, after=after, limit=RETAINED_MAX)
        found |= {message.message_id for message in map(RETAINED.value_of, rows) if message.expires_at > now}
        if len(rows) < RETAINED_MAX or len(found) >= RETAINED_MAX:
            break
        after = stored.place(rows[-1])
    return min(len(found), RETAINED_MAX)
