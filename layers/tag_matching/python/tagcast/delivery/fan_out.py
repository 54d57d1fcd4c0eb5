"""The first round of a batch of messages: push to active lanes, hand the rest to backlogs (architecture §3a).

Lanes are written before messages, and messages before the batch is acknowledged, so that an accident between
any two writes leaves something that a repetition of the batch completes. What is to be written is planned as
values; the world's executor carries it out beside the pushes, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.appending import Left, appending
from tagcast.delivery.settling import Ending, Lost, settle
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.model import Entry, EntryState, LaneState, Subscription, subscription_id
from tagcast.ports import World
from tagcast.pushing.attempts import Progress, Share
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.verdicts import attempt_judged
from tagcast.registry.directory import Snapshot, snapshot
from tagcast.rows import stored
from tagcast.rows.lane import Lane
from tagcast.rows.message import MessageRow

SHARE_S = 2.0
TRIES_MAX = 8
"""So often a write is tried whose condition gets lost; then the batch has to come again."""
PAUSE_S_MAX = 0.5


async def fan_out(world: World, topic: str, message_ids: Sequence[str], slots: PushSlots) -> None:
    """Bring the first round of these messages of one topic, in queue order, to its end.

    Repeating it, late or concurrently, changes no terminal entry and at most repeats pushes. Raises the first
    fault of the store, after all else has ended: then the whole batch has to come again.
    """
    ids = tuple(dict.fromkeys(message_ids))
    round_at = world.clock.now()
    batch = await _Batch.read(world, topic, ids)
    owed = sorted(set().union(*(row.map.owed for row in batch.rows.values())))
    servings = [_Serving(batch, ordinal, slots, batch.rows, batch.lane(ordinal)) for ordinal in owed]
    faults = await side_by_side(serving.serve() for serving in servings)
    faults += await side_by_side(_end_round(batch, message_id, servings, round_at) for message_id in batch.rows)
    if faults:
        raise faults[0]


async def _read_messages(world: World, topic: str, message_ids: Sequence[str]) -> dict[str, MessageRow]:
    return await world.executor.run(partial(stored.messages, world.store, topic, message_ids))


async def _pause(world: World, tries: int) -> None:
    """Wait after a lost condition, longer each time, and differently from those who lost it at the same time."""
    await world.clock.pause(world.dice.uniform(0.0, min(PAUSE_S_MAX, 0.02 * 2**tries)))


@dataclass(frozen=True, slots=True)
class _Batch:
    """What was read for all subscriptions: the messages first, in queue order, then the lanes."""

    world: World
    topic: str
    rows: Mapping[str, MessageRow]
    lanes: Mapping[str, Lane]
    directory: Snapshot | None

    @classmethod
    async def read(cls, world: World, topic: str, message_ids: Sequence[str]) -> _Batch:
        rows = await _read_messages(world, topic, message_ids)
        lanes = await world.executor.run(partial(stored.lanes, world.store, topic))
        try:
            directory = await world.executor.run(partial(snapshot, world, topic))
        except NotFoundError:
            directory = None
        return cls(world, topic, rows, lanes, directory)

    def subscription(self, ordinal: int) -> Subscription | None:
        return None if self.directory is None else self.directory.by_ordinal.get(ordinal)

    def lane(self, ordinal: int) -> Lane | None:
        topic_id = "" if self.directory is None else self.directory.topic.topic_id
        return self.lanes.get(subscription_id(topic_id, ordinal))


@dataclass(slots=True)
class _Serving:
    """One subscription's part of a batch: what was read for it, and what came of it so far."""

    batch: _Batch
    ordinal: int
    slots: PushSlots
    rows: Mapping[str, MessageRow]
    lane: Lane | None
    settled: dict[str, Entry] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)
    progress: Progress = field(default_factory=Progress)
    until: float = math.inf
    """When its share of the batch is over, in the clock's monotonic seconds."""
    ended: bool = False
    """Everything it was owed is settled here or stands in its backlog."""

    @property
    def world(self) -> World:
        return self.batch.world

    def owed(self) -> list[MessageRow]:
        """Return, in queue order, the messages that the subscription is owed and that were not settled here."""
        return [
            row
            for message_id, row in self.rows.items()
            if self.ordinal in row.map.owed and message_id not in self.settled
        ]

    async def serve(self) -> None:
        """Settle what the subscription is owed of this batch, or append it to its backlog."""
        subscription = self.batch.subscription(self.ordinal)
        for tries in range(TRIES_MAX):
            if subscription is None or (self.lane is not None and self.lane.state is LaneState.REMOVED):
                self.settled |= {row.message.message_id: Entry(EntryState.CANCELLED) for row in self.owed()}
                break
            self.expire()
            if self.lane is None and not self.progress.failures and self.world.clock.monotonic() < self.until:
                await self.push(subscription)
            if await self.append(subscription):
                break
            await _pause(self.world, tries)
            await self.reread(subscription)
        else:
            raise ConditionLostError
        self.ended = True

    def expire(self) -> None:
        """Settle what came to the end of its life before or while it was tried; after its first round a lane does."""
        now = self.world.clock.now()
        for row in self.owed():
            if row.map.round_open and row.message.is_expired(now):
                failure = self.progress.failures.pop(row.message.message_id, None)
                entry = Entry(EntryState.EXPIRED)
                if failure is not None:
                    entry = Entry(EntryState.EXPIRED, failure.attempts, failure.ended_at, failure.outcome.detail)
                self.settled[row.message.message_id] = entry

    async def push(self, subscription: Subscription) -> None:
        """Push what stands before anything that is owed elsewhere."""
        owed = self.owed()
        first = next((place for place, row in enumerate(owed) if not row.map.round_open), len(owed))
        deliveries = [(row.message, 0) for row in owed[:first]]
        unjudged = {message.message_id for message, _ in deliveries} - self.judged
        self.until = self.world.clock.monotonic() + SHARE_S
        share = Share(self.slots, SHARE_S)
        self.progress = await attempt_judged(self.world, subscription, deliveries, unjudged, share)
        self.judged |= self.progress.judged
        self.settled |= self.progress.settled

    async def append(self, subscription: Subscription) -> bool:
        """Append what is left to the backlog; return False if the lane is not as it was read any more."""
        world = self.world
        left = Left([row.message for row in self.owed() if row.map.round_open], self.progress, self.judged)
        if not left.messages:
            return True
        now = world.clock.now()
        plan = appending(subscription, self.lane, left, now, world.dice.unique_id(now))
        try:
            await world.executor.run(partial(world.store.transact, plan.writes))
        except ConditionLostError:
            return False
        if (lane := plan.started) is not None:
            start = partial(world.workflow.start, lane.topic, lane.subscription_id, lane.generation)
            await world.executor.run(start)
        return True

    async def reread(self, subscription: Subscription) -> None:
        """Read again what a lost condition proved stale, for this subscription: messages first, then the lane."""
        world, batch = self.world, self.batch
        fresh = await _read_messages(world, batch.topic, tuple(batch.rows))
        # The content is kept once, however many subscriptions read again.
        self.rows = {each: replace(row, message=batch.rows[each].message) for each, row in fresh.items()}
        read = partial(stored.lane, world.store, batch.topic, subscription.subscription_id)
        self.lane = await world.executor.run(read)


async def _end_round(batch: _Batch, message_id: str, servings: Sequence[_Serving], round_at: int) -> None:
    """Write the entries of one message, and the end of its first round unless a subscription's part of it failed."""
    entries = {each.ordinal: each.settled[message_id] for each in servings if message_id in each.settled}
    served = {each.ordinal for each in servings if each.ended}
    world, row = batch.world, batch.rows[message_id]
    ends = row.map.owed <= served

    def plan(before: MessageRow) -> Ending | None:
        if not before.map.pending or not ((ends and before.map.round_open) or entries.keys() & before.map.owed):
            return None
        return Ending(entries, round_at if ends else None)

    async def again(lost: Lost) -> bool:
        await _pause(world, lost.times - 1)
        return lost.times < TRIES_MAX

    match await settle(world.store, world.executor, (batch.topic, message_id), plan, again, row):
        case Lost(error=error):
            raise error
