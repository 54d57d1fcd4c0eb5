"""Topics with their subscriptions, cached while their version stays the same.

For a moment, a publish may use a cached topic without reading it. A change of the topic waits until no publish uses the
old version. See docs/limits.md, Hot keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.filters.compiled import FilterValue
from tagcast.filters.index.changed_index import Index, with_changes
from tagcast.filters.index.topic_index import Matched, TopicIndex
from tagcast.model import Message, Subscription, Topic
from tagcast.ports import Clock, World
from tagcast.registry import kept_subscriptions, reading
from tagcast.registry.indexing import ARCHIVED_SUBSCRIPTIONS_MIN, index_of
from tagcast.registry.kept_subscriptions import KEPT_MIN, StoredSubscriptions
from tagcast.registry.shadowing import ReadyShadow, compile_shadows
from tagcast.rows import stored
from tagcast.rows.shadow import Shadow
from tagcast.strict_json import same_json

DIRECTORIES_MAX = 256
CLOCKS_APART_S = 0.1
"""A change waits this much longer than publishers cache the topic, because two clocks may differ."""


@dataclass(frozen=True, slots=True)
class ReadStart:
    """The beginning of a read, on both clocks of the process: *monotonic_s* in seconds, *at* in milliseconds."""

    monotonic_s: float = -math.inf
    at: int = 0

    @classmethod
    def of(cls, clock: Clock) -> ReadStart:
        """Return the start of a read that begins now. Call it before the read."""
        return cls(clock.monotonic(), clock.now())

    def is_recent(self, clock: Clock, seconds: float) -> bool:
        """Return whether the read began less than *seconds* ago by both clocks.

        Both clocks are compared, because one of them may stop while the process is frozen.
        """
        since_ms = clock.now() - self.at
        return clock.monotonic() - self.monotonic_s < seconds and 0 <= since_ms < seconds * 1000


NEVER_READ = ReadStart()


def wait_for_publishers(world: World) -> None:
    """Wait until no publish can use the topic as cached before this call. Later publishes read the stored change."""
    if world.topic_known_s:
        world.clock.sleep(world.topic_known_s + CLOCKS_APART_S)


class LazyIndex:
    """The index of a topic's filters. It is compiled or loaded at the first match. Most processes match no message.

    *make* compiles or loads the index, and *made* is an index that exists already. With *is_kept*, *make* may load a
    copy that another process stored. If a change comes before the first match, this match loads the copy and then
    applies the change.
    """

    def __init__(self, make: Callable[[], Index], made: Index | None = None, *, is_kept: bool = False) -> None:
        self._make = make
        self._is_kept = is_kept
        self._index = made

    def get(self) -> Index:
        """Return the index; the first call builds it."""
        if self._index is None:
            self._index = self._make()
        return self._index

    def apply_changes(
        self, filters: Mapping[int, FilterValue | None], removed: Collection[int], rebuild: Callable[[], Index]
    ) -> LazyIndex:
        """Return the index after changes of subscriptions.

        *filters* maps the ordinals of new and changed subscriptions to their filters. *removed* has the ordinals of
        deleted subscriptions. *rebuild* builds the whole index after many changes, or if there is no index to change.
        """
        if self._index is not None:
            return LazyIndex(rebuild, with_changes(self._index, filters, removed))
        if self._is_kept:
            return LazyIndex(lambda: with_changes(self.get(), filters, removed) or rebuild())
        return LazyIndex(rebuild)


@dataclass(frozen=True, slots=True)
class Directory:
    """All subscriptions of a topic at one version, with one index of their filters, and the shadows."""

    topic: Topic
    by_ordinal: Mapping[int, Subscription]
    by_name: Mapping[str, Subscription]
    index: LazyIndex
    shadows: tuple[ReadyShadow, ...] = ()
    in_order: frozenset[int] = frozenset()
    """The ordinals of ordered subscriptions."""
    read_start: ReadStart = NEVER_READ

    def match(self, message: Message) -> Matched:
        """Return the ordinals of subscriptions that match *message*, and the ordinals of those whose filters failed."""
        return self.index.get().match(message)

    def only(self, name: str) -> Directory:
        """Return a directory that matches one subscription only, without shadows. Raises NotFoundError."""
        subscription = self.by_name.get(name)
        if subscription is None:
            raise NotFoundError("subscription", name)
        filters = {subscription.ordinal: subscription.settings.filter}
        return replace(self, index=LazyIndex(lambda: TopicIndex.build(filters)), shadows=())


class Directories(dict[str, Directory]):
    """The last directory of each topic in this process, by the topic's name."""


def read_topic(world: World, name: str) -> Topic:
    """Return the current topic, or raise NotFoundError."""
    topic = stored.topic(world.store, name)
    if topic is None:
        raise NotFoundError("topic", name)
    return topic


def publishing_directory(world: World, name: str) -> Directory:
    """Return the topic's directory for a publish, like :func:`kept_directory_of`.

    A directory that this process read less than ``topic_known_s`` seconds ago is returned without a read. A change of
    the topic is acknowledged only when the old version is no longer in use (:func:`wait_for_publishers`).
    """
    known = world.memory.of(Directories).get(name)
    if known is not None and known.read_start.is_recent(world.clock, world.topic_known_s):
        return known
    return kept_directory_of(world, name, world.clock.monotonic() + reading.READ_FOR_S / world.time_scale)


def kept_directory_of(world: World, name: str, until_s: float = math.inf) -> Directory:
    """Return the topic's directory like :func:`directory_of`, but use the stored copy of a large topic.

    Without a usable copy, this call reads all subscriptions of a large topic. If that lasts beyond *until_s*
    (monotonic), the call raises UnavailableError. The next call continues where this call stopped.
    """
    return until_won(world, f"topic {name}", lambda: _directory_of(world, name, until_s))


def directory_of(world: World, name: str) -> Directory:
    """Return the topic's directory with every subscription acknowledged before this call. Raises NotFoundError.

    Each call reads the topic's version with a strongly consistent read. Subscriptions are read only if the version has
    changed since this process read them. After few changes, only the changed subscriptions are read. If the version
    changes during the read, the read is repeated. Raises UnavailableError if that happens too often.
    """
    return until_won(world, f"topic {name}", lambda: _directory_of(world, name))


def subscription_at(world: World, topic: str, ordinal: int) -> Subscription | None:
    """Return the subscription with *ordinal*, or None if it does not exist. Raises NotFoundError (topic).

    In a large topic, only this subscription is read. The stored versions of its filter contain its name.
    """
    known = world.memory.of(Directories).get(topic)
    count = (read_topic(world, topic) if known is None else known.topic).subscription_count
    if count < ARCHIVED_SUBSCRIPTIONS_MIN:
        return directory_of(world, topic).by_ordinal.get(ordinal)
    name = stored.subscription_name(world.store, topic, ordinal)
    found = None if name is None else stored.subscription(world.store, topic, name)
    return found if found is not None and found.ordinal == ordinal else None


def _directory_of(world: World, name: str, until_s: float | None = None) -> Directory:
    """Return the topic with its subscriptions; with *until_s*, use and update the copy in the index bucket."""
    read_start = ReadStart.of(world.clock)
    topic = read_topic(world, name)
    directories = world.memory.of(Directories)
    known = directories.get(name)
    if known is not None and _same_version(known.topic, topic):
        fresh: Directory | None = replace(known, topic=topic)
    else:
        fresh = None if known is None else _refresh(world, known, topic)
    if fresh is None and until_s is not None and topic.subscription_count >= KEPT_MIN:
        fresh = _load_kept(world, topic, until_s)
    if fresh is None:
        subscriptions, shadows = stored.subscriptions_and_shadows(world.store, name)
        after = read_topic(world, name)
        if not _same_version(topic, after):
            raise ConditionLostError
        fresh = _compile(world, after, subscriptions, shadows)
    found = replace(fresh, read_start=read_start)
    if name not in directories and len(directories) >= DIRECTORIES_MAX:
        directories.clear()
    directories[name] = found
    return found


def _load_kept(world: World, topic: Topic, until_s: float) -> Directory:
    """Return a large topic from its stored copy and later changes. Without a usable copy, read it completely."""
    kept = kept_subscriptions.load(world, topic)
    if kept is not None and (fresh := _since(world, topic, kept)) is not None:
        reading.forget(world, topic)
        return fresh
    fresh = _since(world, read_topic(world, topic.name), reading.read_on(world, topic, until_s))
    if fresh is None:
        raise ConditionLostError
    return fresh


def _since(world: World, topic: Topic, kept: StoredSubscriptions) -> Directory | None:
    """Return *topic* from its *kept* copy and later changes; None after too many changes, or one during the read."""
    then = replace(topic, subscriptions_version=kept.version)
    index = LazyIndex(lambda: index_of(world, then, kept.by_ordinal, kept.digest), is_kept=True)
    known = Directory(then, kept.by_ordinal, kept.by_name, index, in_order=kept.in_order)
    if not _same_version(then, topic):
        return _refresh(world, known, topic)
    shadows = stored.shadows(world.store, topic.name)
    if not _same_version(topic, read_topic(world, topic.name)):
        return None
    return replace(known, topic=topic, shadows=compile_shadows(shadows, known.by_ordinal))


def _same_version(one: Topic, other: Topic) -> bool:
    return (one.topic_id, one.subscriptions_version) == (other.topic_id, other.subscriptions_version)


def _refresh(world: World, known: Directory, topic: Topic) -> Directory | None:
    """Return *known* with the changes up to *topic*, or None if more must be read."""
    changes = stored.changes(world.store, known.topic, topic)
    if changes is None or not _same_version(topic, read_topic(world, topic.name)):
        return None
    changed, shadows = changes
    present = [each for each in changed.values() if each is not None]
    before = {name: known.by_name.get(name) for name in changed}
    ordinals = {each.ordinal for each in present}
    removed = [each.ordinal for each in before.values() if each and each.ordinal not in ordinals]
    filters: dict[int, FilterValue | None] = {}
    for each in present:
        was = before[each.name]
        if was is None or was.ordinal != each.ordinal or not same_json(was.settings.filter, each.settings.filter):
            filters[each.ordinal] = each.settings.filter
    gone = [name for name, each in changed.items() if each is None]
    by_name = kept_subscriptions.apply_changes(known.by_name, {each.name: each for each in present}, gone)
    by_ordinal = kept_subscriptions.apply_changes(known.by_ordinal, {each.ordinal: each for each in present}, removed)
    in_order = known.in_order - {*removed, *(each.ordinal for each in present)} | _in_order(present)
    index = known.index
    if filters or removed:
        index = index.apply_changes(filters, removed, lambda: index_of(world, topic, by_ordinal))
    return Directory(topic, by_ordinal, by_name, index, compile_shadows(shadows, by_ordinal, known.shadows), in_order)


def _compile(world: World, topic: Topic, subscriptions: Sequence[Subscription], shadows: Sequence[Shadow]) -> Directory:
    by_ordinal = {subscription.ordinal: subscription for subscription in subscriptions}
    return Directory(
        topic=topic,
        by_ordinal=by_ordinal,
        by_name={subscription.name: subscription for subscription in subscriptions},
        index=LazyIndex(lambda: index_of(world, topic, by_ordinal)),
        shadows=compile_shadows(shadows, by_ordinal),
        in_order=_in_order(subscriptions),
    )


def _in_order(subscriptions: Sequence[Subscription]) -> frozenset[int]:
    return frozenset(each.ordinal for each in subscriptions if each.settings.keeps_order)
