"""The first round of a batch of messages: push to active lanes, hand the rest to backlogs.

See docs/architecture.md, The first round.

Lanes are written before messages, and messages before the batch is acknowledged, so that an accident between
any two writes leaves something that a repetition of the batch completes. What is to be written is planned as
values; the world's executor carries it out beside the pushes, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, takewhile

from tagcast.concurrency.contention import pause_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.round_end import TRIES_MAX, RoundEnd
from tagcast.delivery.serving import Part, append, push
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.ids import subscription_id
from tagcast.model import Subscription
from tagcast.ports import QueueEntry, World
from tagcast.pushing.circuit import Passage
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.receivers import in_turn
from tagcast.queues import Audience
from tagcast.registry.directory import Directory, kept_directory_of
from tagcast.rows import stored, stored_maps
from tagcast.rows.lane import Lane
from tagcast.rows.message import MessageRow

GO_ON_S = 2.0
"""So long after its beginning an invocation goes on with the next part of what it was given."""


async def fan_out(world: World, topic: str, entries: Iterable[QueueEntry], slots: PushSlots) -> tuple[QueueEntry, ...]:
    """Bring the first round of what these entries of one topic name, in queue order, to its end for their audiences.

    Packs are served part by part, each as a batch of its own. Returns the entries that were left, because the parts
    before them took long: they have to come again. Repeating it, late or concurrently, changes no terminal entry and at
    most repeats pushes. Raises the first fault of the store after all else that was begun: then all has to come again.
    """
    begun_s, line, left = world.clock.monotonic(), _Line(world, topic, slots), tuple(entries)
    while left:
        part, behind = _first_part(left, world.part_max)
        await line.serve(part, _first_part(behind, world.part_max)[0])
        left = behind
        if line.faults or world.clock.monotonic() > begun_s + GO_ON_S / world.time_scale:
            break
    await line.write()
    if line.faults:
        raise line.faults[0]
    return left


def _first_part(entries: tuple[QueueEntry, ...], most: int) -> tuple[tuple[QueueEntry, ...], tuple[QueueEntry, ...]]:
    """Return what is served first, and the rest: at most so many messages, or one section of a wide message."""
    sizes = accumulate(1 + len(entry.others) for entry in takewhile(lambda entry: entry.section is None, entries))
    count = sum(size <= most for size in sizes) or 1
    return entries[:count], entries[count:]


@dataclass(slots=True)
class _Line:
    """The parts of a batch in their order.

    While one is served, what came of the one *before* it is written, and the messages of the next are read *ahead*.
    """

    world: World
    topic: str
    slots: PushSlots
    before: RoundEnd | None = None
    ahead: Mapping[str, MessageRow] | None = None
    faults: list[Exception] = field(default_factory=list)

    async def serve(self, entries: Sequence[QueueEntry], following: Sequence[QueueEntry]) -> None:
        """Serve the next part: one that has a message again is read when all that came of it before is written."""
        audiences = _audiences(entries)
        if self.before is not None and self.before.rows.keys() & audiences.keys():
            await self.write()
        if self.faults:
            return
        written = audiences.keys() | (set() if self.before is None else self.before.rows.keys())
        served = self._serve(audiences, entries[0].section, _readable_ahead(following, written))
        if self.before is None:
            await served
            return
        before, self.before = self.before, None
        self.faults += await side_by_side([served, self._write(before)])

    async def write(self) -> None:
        """Write what came of the last part."""
        if self.before is not None:
            before, self.before = self.before, None
            await self._write(before)

    async def _serve(self, audiences: Mapping[str, Audience], section: int | None, following: Sequence[str]) -> None:
        """Push what is owed of one part, or append it to backlogs; keep what is to be written of that."""
        world, topic = self.world, self.topic
        round_at = world.clock.now()
        batch = await _read(world, topic, audiences, section, self.ahead)
        for row in batch.rows.values():
            if row.map.round_open:
                world.telemetry.waited("FirstRoundMs", round_at - row.message.accepted_at)
        parts = {each: Part(each, batch.rows_for(each, batch.rows), batch.lane(each)) for each in batch.owed()}
        turns = in_turn(world, batch.topic_id, parts)
        works = [_serve(batch, each, self.slots, parts) for each in turns]
        self.ahead = None
        works += [self._look_ahead(following)] if following else []
        self.faults += await side_by_side(works)
        self.before = RoundEnd(world, batch.rows, batch.theirs, parts, round_at)

    async def _look_ahead(self, message_ids: Sequence[str]) -> None:
        world = self.world
        self.ahead = await world.executor.run(partial(stored_maps.brought, world.store, self.topic, message_ids, None))

    async def _write(self, round_end: RoundEnd) -> None:
        self.faults += await round_end.write()


def _readable_ahead(following: Sequence[QueueEntry], written: Set[str]) -> Sequence[str]:
    """Return the messages of the next part, unless it has one of which something is still to be *written*."""
    ids = _audiences(following).keys()
    return () if any(entry.section is not None for entry in following) or ids & written else tuple(ids)


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


async def _read(
    world: World,
    topic: str,
    audiences: Mapping[str, Audience],
    section: int | None,
    rows: Mapping[str, MessageRow] | None,
) -> _Batch:
    run = world.executor.run
    if rows is None:
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
            parts[ordinal] = part = await push(passage, part, slots, len(parts))
            await passage.tell()
        if await append(world, subscription, part):
            parts[ordinal] = part.served()
            return
        await world.clock.pause(pause_s(world, tries + 1))
        parts[ordinal] = part = await _read_again(batch, subscription, part)
    raise ConditionLostError


async def _read_again(batch: _Batch, subscription: Subscription, part: Part) -> Part:
    """Read what was proved stale, for this subscription: messages first, then the lane."""
    run, store = batch.world.executor.run, batch.world.store
    rows = await run(partial(stored_maps.brought, store, batch.topic, tuple(batch.rows), batch.section))
    lane = await run(partial(stored.lane, store, batch.topic, subscription.subscription_id))
    # The content is kept once, however many subscriptions read again.
    known = {each: replace(row, message=batch.rows[each].message) for each, row in rows.items()}
    return part.read_again(batch.rows_for(part.ordinal, known), lane)
