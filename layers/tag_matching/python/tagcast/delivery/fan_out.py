"""The first round of a batch of messages: push to active lanes, hand the rest to backlogs.

See docs/architecture.md, The first round.

Lanes are written before messages, and messages before the batch is acknowledged, so that an accident between
any two writes leaves something that a repetition of the batch completes. What is to be written is planned as
values; the world's executor carries it out beside the pushes, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, takewhile

from tagcast.concurrency.contention import pause_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.appending import appending
from tagcast.delivery.copies import end_in_backlogs
from tagcast.delivery.round_end import TRIES_MAX, RoundEnd
from tagcast.delivery.serving import Part
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.ids import subscription_id
from tagcast.model import Subscription
from tagcast.ports import QueueEntry, World
from tagcast.pushing.circuit import CIRCUIT, Passage
from tagcast.pushing.course import Share, take_requests
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.rate_limit import RATE
from tagcast.pushing.receivers import in_turn
from tagcast.pushing.verdicts import attempt_judged
from tagcast.queues import PACK_MAX, Audience
from tagcast.registry.directory import Directory, kept_directory_of
from tagcast.rows import stored, stored_maps
from tagcast.rows.lane import Lane
from tagcast.rows.message import MessageRow
from tagcast.settings import UNVERIFIED

SHARE_S, SHARE_OF, SHARE_AMONG, SHARE_S_MAX = 2.0, 10, 500, 4.0
"""So long a subscription's pushes may start, for each so many messages or subscriptions of a batch, and at most."""
GO_ON_S = 2.0
"""So long after its beginning an invocation goes on with the next part of what it was given."""


async def fan_out(world: World, topic: str, entries: Iterable[QueueEntry], slots: PushSlots) -> tuple[QueueEntry, ...]:
    """Bring the first round of what these entries of one topic name, in queue order, to its end for their audiences.

    Packs are served part by part, each as a batch of its own. Returns the entries that were left, because the parts
    before them took long: they have to come again. Repeating it, late or concurrently, changes no terminal entry and at
    most repeats pushes. Raises the first fault of the store after all else of its part: then all has to come again.
    """
    begun_s = world.clock.monotonic()
    for part, left in _in_parts(tuple(entries)):
        await _serve_part(world, topic, _audiences(part), part[0].section, slots)
        if world.clock.monotonic() > begun_s + GO_ON_S / world.time_scale:
            return left
    return ()


def _in_parts(entries: Sequence[QueueEntry]) -> Iterator[tuple[Sequence[QueueEntry], tuple[QueueEntry, ...]]]:
    """Yield entries in parts of at most PACK_MAX messages, each with all that is left behind it.

    What is for a section of a wide message is a part by itself.
    """
    left = tuple(entries)
    while left:
        sizes = accumulate(1 + len(entry.others) for entry in takewhile(lambda entry: entry.section is None, left))
        count = sum(size <= PACK_MAX for size in sizes) or 1
        part, left = left[:count], left[count:]
        yield part, left


async def _serve_part(
    world: World, topic: str, audiences: Mapping[str, Audience], section: int | None, slots: PushSlots
) -> None:
    round_at, read_s = world.clock.now(), world.clock.monotonic()
    batch = await _read(world, topic, audiences, section)
    for row in batch.rows.values():
        if row.map.round_open:
            world.telemetry.waited("FirstRoundMs", round_at - row.message.accepted_at)
    parts = {each: Part(each, batch.rows_for(each, batch.rows), batch.lane(each), read_s) for each in batch.owed()}
    faults = await side_by_side([_serve(batch, each, slots, parts) for each in in_turn(world, batch.topic_id, parts)])
    faults += await end_in_backlogs(world, topic, batch.topic_id, parts)
    faults += await RoundEnd(world, topic, batch.topic_id, batch.rows, batch.theirs, parts, round_at).write()
    if faults:
        raise faults[0]


def _audiences(entries: Iterable[QueueEntry]) -> dict[str, Audience]:
    """Return whom each message is brought to by all of *entries* together, in their order."""
    audiences: dict[str, Audience] = {}
    for entry in entries:
        for message_id in (entry.message_id, *entry.others):
            same = audiences.get(message_id, entry.audience) is entry.audience
            audiences[message_id] = entry.audience if same else Audience.EVERYBODY
    return audiences


@dataclass(frozen=True, slots=True)
class _Batch:
    """What was read for all subscriptions: the messages first, in queue order; then who is subscribed, then the lanes.

    So nobody whom a message matched is unknown, and the lane of whoever is gone was read after its end. *theirs* are
    those to whom each message is brought here; of a wide one the entries in one *section* of its map.
    """

    world: World
    topic: str
    rows: Mapping[str, MessageRow]
    theirs: Mapping[str, frozenset[int]]
    lanes: Mapping[str, Lane]
    directory: Directory | None
    section: int | None

    def owed(self) -> set[int]:
        """Return the ordinals of all subscriptions that are owed any of the messages here."""
        return set[int]().union(*(row.map.owed & self.theirs[each] for each, row in self.rows.items()))

    def rows_for(self, ordinal: int, rows: Mapping[str, MessageRow]) -> Mapping[str, MessageRow]:
        """Return those of *rows* that are for a subscription, or for another audience than its own."""
        if all(ordinal in theirs for theirs in self.theirs.values()):
            return rows
        return {each: row for each, row in rows.items() if ordinal in self.theirs[each]}

    def subscription(self, ordinal: int) -> Subscription | None:
        return None if self.directory is None else self.directory.by_ordinal.get(ordinal)

    @property
    def topic_id(self) -> str:
        """Return the id of the topic, empty when it is gone."""
        return "" if self.directory is None else self.directory.topic.topic_id

    def lane(self, ordinal: int) -> Lane | None:
        return self.lanes.get(subscription_id(self.topic_id, ordinal))


async def _read(world: World, topic: str, audiences: Mapping[str, Audience], section: int | None) -> _Batch:
    run = world.executor.run
    rows = await run(partial(stored_maps.brought, world.store, topic, tuple(audiences), section))
    try:
        directory = await run(partial(kept_directory_of, world, topic))
    except NotFoundError:
        directory = None
    lanes = await run(partial(stored.lanes, world.store, topic))
    some = {each: audience for each, audience in audiences.items() if audience is not Audience.EVERYBODY}
    theirs = {each: row.of(some[each]) if each in some else row.map.matched for each, row in rows.items()}
    return _Batch(world, topic, rows, theirs, lanes, directory, section)


async def _serve(batch: _Batch, ordinal: int, slots: PushSlots, parts: dict[int, Part]) -> None:
    """End what a subscription is owed of this batch, or append it to its backlog.

    *parts* has its part as it stands after each step, so that a fault of the next one forgets nothing.
    """
    world, subscription, part = batch.world, batch.subscription(ordinal), parts[ordinal]
    for tries in range(TRIES_MAX):
        if subscription is None or part.is_removed:
            parts[ordinal] = part.cancelled()
            return
        parts[ordinal] = part = part.expired(world.clock.now())
        if part.may_be_pushed(world.clock.monotonic()):
            passage = Passage(world, subscription)
            parts[ordinal] = part = await _push(passage, part, slots, len(parts))
            await passage.tell()
        if await _append(world, subscription, part):
            parts[ordinal] = part.served()
            return
        await world.clock.pause(pause_s(world, tries + 1))
        parts[ordinal] = part = await _read_again(batch, subscription, part)
    raise ConditionLostError


async def _push(passage: Passage, part: Part, slots: PushSlots, among: int) -> Part:
    """Push what stands before anything that is owed elsewhere, as far as rate and host of one *among* so many allow."""
    world, subscription = passage.world, passage.subscription
    if subscription.settings.unverified is not None:  # The lane looks at once whether it still is not.
        return part.limited(world.clock.now(), UNVERIFIED)
    deliveries, grant = [(message, 0) for message in part.pushable()], None
    if subscription.settings.max_per_second and deliveries:
        deliveries, grant = await take_requests(world, subscription, deliveries, slots.bytes)
        part = part.limited(grant.free_at, RATE)
    unjudged = {message.message_id for message, _ in deliveries} - part.judged
    share_s = min(SHARE_S_MAX, SHARE_S * max(math.ceil(len(deliveries) / SHARE_OF), math.ceil(among / SHARE_AMONG)))
    share, until = Share(slots, share_s, passage, grant=grant), world.clock.monotonic() + share_s
    part = part.pushed(await attempt_judged(world, subscription, deliveries, unjudged, share), until)
    return part if passage.until is None else part.limited(passage.until, CIRCUIT)


async def _append(world: World, subscription: Subscription, part: Part) -> bool:
    """Append what is left to the backlog; return False if the lane is not as it was read any more."""
    if not (left := part.left()).messages:
        return True
    now = world.clock.now()
    plan = appending(subscription, part.lane, left, now, world.dice.unique_id(now))
    try:
        await world.executor.run(partial(world.store.transact, plan.writes))
    except ConditionLostError:
        return False
    if (lane := plan.started) is not None:
        start = partial(world.workflow.start, lane.topic, lane.subscription_id, lane.generation)
        await world.executor.run(start)
    return True


async def _read_again(batch: _Batch, subscription: Subscription, part: Part) -> Part:
    """Read what was proved stale, for this subscription: messages first, then the lane."""
    read_s = batch.world.clock.monotonic()
    run, store = batch.world.executor.run, batch.world.store
    rows = await run(partial(stored_maps.brought, store, batch.topic, tuple(batch.rows), batch.section))
    lane = await run(partial(stored.lane, store, batch.topic, subscription.subscription_id))
    # The content is kept once, however many subscriptions read again.
    known = {each: replace(row, message=batch.rows[each].message) for each, row in rows.items()}
    return part.read_again(batch.rows_for(part.ordinal, known), lane, read_s)
