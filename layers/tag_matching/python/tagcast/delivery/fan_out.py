"""The first round of a batch of messages: push to active lanes, hand the rest to backlogs.

See docs/architecture.md, The first round.

Lanes are written before messages, and messages before the batch is acknowledged, so that an accident between
any two writes leaves something that a repetition of the batch completes. What is to be written is planned as
values; the world's executor carries it out beside the pushes, in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.appending import appending
from tagcast.delivery.copies import end_in_backlogs
from tagcast.delivery.serving import Part
from tagcast.delivery.settling import Ending, Lost, settle
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.ids import subscription_id
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.pushing.circuit import CIRCUIT, Passage
from tagcast.pushing.course import Share, take_requests
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.rate_limit import RATE
from tagcast.pushing.verdicts import attempt_judged
from tagcast.registry.directory import Directory, directory_of
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
    round_at, read_s = world.clock.now(), world.clock.monotonic()
    batch = await _read(world, topic, tuple(dict.fromkeys(message_ids)))
    for row in batch.rows.values():
        if row.map.round_open:
            world.telemetry.waited("FirstRoundMs", round_at - row.message.accepted_at)
    parts = {ordinal: Part(ordinal, batch.rows, batch.lane(ordinal), read_s) for ordinal in batch.owed()}
    faults = await side_by_side([_serve(batch, ordinal, slots, parts) for ordinal in sorted(parts)])
    faults += await end_in_backlogs(world, topic, batch.topic_id, parts)
    faults += await side_by_side([_end_round(batch, each, parts.values(), round_at) for each in batch.rows])
    if faults:
        raise faults[0]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What was read for all subscriptions: the messages first, in queue order; then who is subscribed, then the lanes.

    So nobody whom a message matched is unknown, and the lane of whoever is gone was read after its end.
    """

    world: World
    topic: str
    rows: Mapping[str, MessageRow]
    lanes: Mapping[str, Lane]
    directory: Directory | None

    def owed(self) -> set[int]:
        """Return the ordinals of all subscriptions that are owed any of the messages."""
        return set[int]().union(*(row.map.owed for row in self.rows.values()))

    def subscription(self, ordinal: int) -> Subscription | None:
        return None if self.directory is None else self.directory.by_ordinal.get(ordinal)

    @property
    def topic_id(self) -> str:
        """Return the id of the topic, empty when it is gone."""
        return "" if self.directory is None else self.directory.topic.topic_id

    def lane(self, ordinal: int) -> Lane | None:
        return self.lanes.get(subscription_id(self.topic_id, ordinal))


async def _read(world: World, topic: str, message_ids: Sequence[str]) -> _Batch:
    run = world.executor.run
    rows = await run(partial(stored.messages, world.store, topic, message_ids))
    try:
        directory = await run(partial(directory_of, world, topic))
    except NotFoundError:
        directory = None
    lanes = await run(partial(stored.lanes, world.store, topic))
    return _Batch(world, topic, rows, lanes, directory)


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
            parts[ordinal] = part = await _push(world, subscription, part, slots)
        if await _append(world, subscription, part):
            parts[ordinal] = part.served()
            return
        await _pause(world, tries)
        parts[ordinal] = part = await _read_again(batch, subscription, part)
    raise ConditionLostError


async def _push(world: World, subscription: Subscription, part: Part, slots: PushSlots) -> Part:
    """Push what stands before anything that is owed elsewhere, as far as its rate and its host allow."""
    deliveries, grant = [(message, 0) for message in part.pushable()], None
    if subscription.settings.max_per_second and deliveries:
        deliveries, grant = await take_requests(world, subscription, deliveries, slots.bytes)
        part = part.limited(grant.free_at, RATE)
    unjudged = {message.message_id for message, _ in deliveries} - part.judged
    until = world.clock.monotonic() + SHARE_S
    passage = Passage(world, subscription)
    share = Share(slots, SHARE_S, passage, grant=grant)
    progress = await attempt_judged(world, subscription, deliveries, unjudged, share)
    await passage.tell()
    part = part.pushed(progress, until)
    return part if passage.until is None else part.limited(passage.until, CIRCUIT)


async def _append(world: World, subscription: Subscription, part: Part) -> bool:
    """Append what is left to the backlog; return False if the lane is not as it was read any more."""
    left = part.left()
    if not left.messages:
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
    rows = await run(partial(stored.messages, store, batch.topic, tuple(batch.rows)))
    lane = await run(partial(stored.lane, store, batch.topic, subscription.subscription_id))
    # The content is kept once, however many subscriptions read again.
    known = {each: replace(row, message=batch.rows[each].message) for each, row in rows.items()}
    return part.read_again(known, lane, read_s)


async def _end_round(batch: _Batch, message_id: str, parts: Collection[Part], round_at: int) -> None:
    """Write the entries of one message, and the end of its first round unless a subscription's part of it failed."""
    world, row = batch.world, batch.rows[message_id]
    entries = {part.ordinal: part.ended[message_id] for part in parts if message_id in part.ended}
    handed = {part.ordinal for part in parts if message_id in part.handed}
    ends = row.map.owed <= {part.ordinal for part in parts if part.is_served}

    def plan(before: MessageRow) -> Ending | None:
        news = (entries.keys() | handed) & (before.map.owed - before.map.handed)
        if not before.map.owed or not ((ends and before.map.round_open) or news):
            return None
        return Ending(entries, round_at if ends else None, handed=handed)

    async def again(lost: Lost) -> bool:
        await _pause(world, lost.times - 1)
        return lost.times < TRIES_MAX

    match await settle(world.store, world.executor, (batch.topic, message_id), plan, again, row):
        case Lost(error=error):
            raise error


async def _pause(world: World, tries: int) -> None:
    """Wait after a lost condition, longer each time, and differently from those who lost it at the same time."""
    await world.clock.pause(world.dice.uniform(0.0, min(PAUSE_S_MAX, 0.02 * 2**tries)))
