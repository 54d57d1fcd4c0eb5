"""The first round of a batch of messages: push to active lanes, and append other deliveries to backlogs.

See docs/protocol.md, The first round.

Within a slice, lanes are written before messages. The batch is acknowledged last. So after a crash between any two
writes, a repeated batch makes the missing writes. Writes are planned as values, and executed outside the event loop, so
that no write delays a push. Writes of different lanes, or of different messages, may end in any order.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.concurrency.side_by_side import Together, side_by_side
from tagcast.delivery.dead_letter import publish_dead_letter_after_run
from tagcast.delivery.ending import complete, slices_of, write_all
from tagcast.delivery.late_result import LateRun
from tagcast.delivery.lease import LEASE_GRACE_S, LaneLease, Task
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.filters.function_filter import is_unjudged, judging_s
from tagcast.ids import subscription_id
from tagcast.model import Entry, EntryState, LaneState, Message, Subscription
from tagcast.ports import QueueEntry, World, Write
from tagcast.pushing.circuit import CircuitCheck
from tagcast.pushing.engine import (
    Failure,
    InFlight,
    Run,
    RunResult,
    RunWatch,
    attempt_run,
    independent_state_after,
    lane_state_after,
    order_pushes,
)
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.rate_limit import RATE
from tagcast.queues import Audience
from tagcast.registry.directory import Directory, kept_directory_of
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PLACES, PendingDelivery, appended_after, due_put, position
from tagcast.rows.host import host_of
from tagcast.rows.lane import Lane, append_joined
from tagcast.rows.message import MessageRow
from tagcast.rows.message_transitions import ENDS_MAX, end_writes, enqueued_put, lone_update, round_writes
from tagcast.subscription_settings import UNVERIFIED
from tagcast.tables import UPDATES_MAX, fitting

TOGETHER_BYTES_MAX = 2 * 1024 * 1024
"""The maximum of message bytes in one request. DynamoDB accepts 16 MiB, but the sizes are estimates."""
GO_ON_S = 2.0
"""No slice starts later than 2 s after the beginning of its invocation."""
TIME_S, TIME_S_MAX = 2.0, 4.0
"""Pushes to a subscription may start for 2 s per 10 of its messages, or per 500 subscriptions in all; at most 4 s."""
MESSAGES_IN_TIME, SUBSCRIPTIONS_IN_TIME = 10, 500


Served = Callable[[tuple[QueueEntry, ...], bool], Awaitable[None]]
"""A callback with the entries to redeliver, and whether pushes are still in flight."""


async def fan_out(
    world: World, topic: str, entries: Iterable[QueueEntry], slots: PushSlots, served: Served | None = None
) -> tuple[QueueEntry, ...]:
    """Complete the first round of the messages in *entries*, queue entries of one topic, in queue order.

    Queue entries are served in slices, each like a batch of its own. The function returns the queue entries for which
    no time was left; these must be redelivered. A repeated or concurrent call changes no ended delivery and at most
    repeats pushes. After a fault of the store, the function finishes its writes and raises the first fault; then all
    queue entries must be redelivered.

    A push without a timely response delays no other work. As soon as everything else is written, *served* is called.
    The late results are written before this function returns.
    """
    begun_s, left = world.clock.monotonic(), tuple(entries)
    async with Together() as group:
        batch = _SlicedBatch(world, topic, slots, group)
        while left:
            first, behind = _first_slice(left, world.slice_max)
            await batch.serve(first, _first_slice(behind, world.slice_max)[0])
            left = behind
            if batch.faults or world.clock.monotonic() > begun_s + GO_ON_S / world.time_scale:
                break
        await batch.write()
        if served is not None and not batch.faults:
            await served(left, batch.has_left)
    if batch.faults:
        raise batch.faults[0]
    return left


def _first_slice(entries: tuple[QueueEntry, ...], most: int) -> tuple[tuple[QueueEntry, ...], tuple[QueueEntry, ...]]:
    """Split *entries* into the first slice (at most *most* messages, or one section of a wide message) and the rest."""
    sizes = accumulate(1 + len(entry.others) for entry in takewhile(lambda entry: not entry.is_section, entries))
    count = sum(size <= most for size in sizes) or 1
    return entries[:count], entries[count:]


@dataclass(slots=True)
class _SlicedBatch:
    """The slices of a batch. While one is served, the results of the slice *before* are written, and the next is read.

    *ahead* has the messages of the next slice, if they could be read already.
    """

    world: World
    topic: str
    slots: PushSlots
    group: asyncio.TaskGroup
    before: Slice | None = None
    ahead: Mapping[str, MessageRow] | None = None
    faults: list[Exception] = field(default_factory=list)
    has_left: bool = False
    """Whether pushes of any slice were left in flight."""

    async def serve(self, entries: Sequence[QueueEntry], following: Sequence[QueueEntry]) -> None:
        """Serve the next slice. If it repeats a message of the slice before, write that slice's results first."""
        audiences = _audiences(entries)
        if self.before is not None and self.before.rows.keys() & audiences.keys():
            await self.write()
        if self.faults:
            return
        written = audiences.keys() | (set() if self.before is None else self.before.rows.keys())
        delivered = self._deliver(audiences, entries[0].section, _readable_ahead(following, written))
        if self.before is None:
            await delivered
            return
        before, self.before = self.before, None
        self.faults += await side_by_side([delivered, self._write(before)])

    async def write(self) -> None:
        """Write the results of the last slice, unless they are written."""
        if self.before is not None:
            before, self.before = self.before, None
            await self._write(before)

    async def _deliver(self, audiences: Mapping[str, Audience], section: int | None, following: Sequence[str]) -> None:
        """Push the pending deliveries of one slice, or append them to backlogs; keep the results for writing."""
        world, round_at = self.world, self.world.clock.now()
        current = await self._read(audiences, section, round_at)
        for row in current.rows.values():
            if row.map.waiting:
                world.telemetry.record_wait("FirstRoundMs", round_at - row.message.accepted_at)
        works = [current.deliver_all(self.group)] if current.rounds else []
        self.ahead = None
        works += [self._read_ahead(following)] if following else []
        self.faults += await side_by_side(works)
        self.faults += current.failures
        self.has_left = self.has_left or bool(current.left)
        self.before = current

    async def _read(self, audiences: Mapping[str, Audience], section: int | None, round_at: int) -> Slice:
        """Read the messages first, in queue order; then the subscriptions, then the lanes.

        So every matched subscription is known, and the lane of a deleted subscription is read after the deletion.
        """
        world, topic, rows = self.world, self.topic, self.ahead
        run = world.executor.run
        if rows is None:
            rows = await run(stored.read_addressed, world.store, topic, tuple(audiences), section)
        try:
            directory = await run(kept_directory_of, world, topic)
        except NotFoundError:
            directory = None
        addressed = {each: row.of(audiences[each]) for each, row in rows.items()}
        current = Slice(world, topic, self.slots, rows, addressed, directory, section, round_at)
        waiting = set[int]().union(*(row.map.pending & addressed[each] for each, row in rows.items()))
        ids = {each: subscription_id(current.topic_id, each) for each in waiting}
        lanes = await run(stored.lanes, world.store, topic, ids.values())
        current.begin({each: lanes.get(sid) for each, sid in ids.items()})
        return current

    async def _read_ahead(self, message_ids: Sequence[str]) -> None:
        world = self.world
        self.ahead = await world.executor.run(stored.read_addressed, world.store, self.topic, message_ids, None)

    async def _write(self, before: Slice) -> None:
        self.faults += await before.write()


def _readable_ahead(following: Sequence[QueueEntry], written: Set[str]) -> Sequence[str]:
    """Return the ids of the messages in the queue entries *following*, or none if they cannot be read yet.

    *written* are the ids of messages whose results will still be written. A message among them is read afterwards.
    """
    ids = _audiences(following).keys()
    return () if any(entry.is_section for entry in following) or ids & written else tuple(ids)


def _audiences(entries: Iterable[QueueEntry]) -> dict[str, Audience]:
    """Return the audience of each message, combined over *entries*, in their order."""
    audiences: dict[str, Audience] = {}
    for entry in entries:
        for message_id in (entry.message_id, *entry.others):
            same = audiences.get(message_id, entry.audience) is entry.audience
            audiences[message_id] = entry.audience if same else Audience.EVERYBODY
    return audiences


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice while it is served: its messages (*rows*, as read), and the *rounds* of its subscriptions by ordinal.

    *addressed* has, for each message, the subscriptions that this slice serves. If *section* is set, these are in this
    section of one wide message. *directory* is None if the topic was deleted. *round_at* is the time at which the slice
    began. *rounds* is updated after each step, so that a fault in the next step loses no results.
    """

    world: World
    topic: str
    slots: PushSlots
    rows: Mapping[str, MessageRow]
    addressed: Mapping[str, frozenset[int]]
    directory: Directory | None
    section: int | None
    round_at: int
    rounds: dict[int, SubscriptionRound] = field(default_factory=dict)
    watches: dict[int, RunWatch] = field(default_factory=dict)
    left: dict[int, asyncio.Future[LateRun | None]] = field(default_factory=dict)
    """The late runs of subscriptions that this slice left with pushes in flight; None if leaving failed."""
    failures: list[Exception] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)
    _all_served: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def topic_id(self) -> str:
        """The id of the topic; empty after its deletion."""
        return "" if self.directory is None else self.directory.topic.topic_id

    def begin(self, lanes: Mapping[int, Lane | None]) -> None:
        """Begin a round for each subscription in *lanes*, which maps ordinals to lanes. An active lane is None."""
        for each, lane in lanes.items():
            subscription = None if self.directory is None else self.directory.by_ordinal.get(each)
            is_independent = subscription is not None and subscription.settings.is_independent
            rows = self._rows_for(each, self.rows)
            self.rounds[each] = SubscriptionRound(each, rows, lane, is_independent=is_independent)

    def _rows_for(self, ordinal: int, rows: Mapping[str, MessageRow]) -> Mapping[str, MessageRow]:
        """Return the *rows* that this slice serves for a subscription."""
        if all(ordinal in addressed for addressed in self.addressed.values()):
            return rows
        return {each: row for each, row in rows.items() if ordinal in self.addressed[each]}

    async def deliver_all(self, group: asyncio.TaskGroup) -> None:
        """Serve each subscription in a task of *group*. Return when each is served or left.

        A subscription is left if responses are late (see `InFlight`) and its pending deliveries have joined the
        backlog. Its task then goes on in *group*.
        """
        in_flight = InFlight.of(self.world.clock, len(self.rounds))
        self._open.update(self.rounds)
        for each in order_pushes(self.world, self.topic_id, self.rounds):
            group.create_task(self._serve(each, in_flight))
        leaving = group.create_task(self._leave_the_late(in_flight))
        await self._all_served.wait()
        leaving.cancel()

    async def _serve(self, ordinal: int, in_flight: InFlight) -> None:
        try:
            await self.deliver(ordinal, in_flight)
        except Exception as fault:  # noqa: BLE001  The batch is redelivered, or the lane retries.
            if ordinal in self._open:
                self.failures.append(fault)
            else:
                self.world.telemetry.record_failure("pushes that a batch left", fault)
        finally:
            self._close(ordinal)

    def _close(self, ordinal: int) -> None:
        self._open.discard(ordinal)
        if not self._open:
            self._all_served.set()

    async def _leave_the_late(self, in_flight: InFlight) -> None:
        while True:  # It ends: with the slice, which cancels it.
            late = await in_flight.late()
            await side_by_side(self._leave(each) for each in late if not self.watches[each].is_left)

    async def _leave(self, ordinal: int) -> None:
        """Continue without a subscription's late pushes: the pending deliveries join the backlog under a claim.

        If another writer was faster, or the store fails, the slice waits for the pushes instead.
        """
        self.watches[ordinal].is_left = True
        departure = self.left[ordinal] = asyncio.get_running_loop().create_future()
        late = None
        try:
            late = await self._join_under_claim(ordinal)
        finally:
            departure.set_result(late)
        if late is not None:
            self._close(ordinal)

    async def _join_under_claim(self, ordinal: int) -> LateRun | None:
        world, watch = self.world, self.watches[ordinal]
        before, in_flight = watch.result(), frozenset(watch.messages)
        now = world.clock.now()
        first_round = self.rounds[ordinal].add_result(before, math.inf, now)
        assert self.directory is not None
        subscription = self.directory.by_ordinal[ordinal]
        await self._publish_dead_letters(subscription, before)
        if not (messages := first_round.remainder()):
            return None
        attempt_s = subscription.settings.timeout_s + judging_s(subscription) + 1
        held_until = now + (attempt_s + LEASE_GRACE_S) * 1000
        first_round = replace(first_round, in_flight=in_flight, held_until=held_until)
        writes, lane = first_round.plan_join(subscription, messages, now, world.dice.unique_id(now))
        if not await _join(world, writes, lane):
            return None
        self.rounds[ordinal] = replace(first_round, is_served=True)
        dues, lease = first_round.dues(subscription, messages, now), None
        if lane is not None and lane.is_claimed:
            task = Task(self.topic, subscription.subscription_id, lane.generation)
            deadline = world.clock.monotonic() + attempt_s + LEASE_GRACE_S
            lease = LaneLease(world, task, self.slots, deadline, lane, held_until, is_held=True, attempt_s=attempt_s)
        return LateRun(lease, world, subscription, messages, dues, before)

    async def deliver(self, ordinal: int, in_flight: InFlight) -> None:
        """Deliver a subscription's messages of this slice, or append them to its backlog."""
        world, rounds, first_round = self.world, self.rounds, self.rounds[ordinal]
        subscription = None if self.directory is None else self.directory.by_ordinal.get(ordinal)
        for tries in range(TRIES_MAX):
            if subscription is None or first_round.is_removed:
                rounds[ordinal] = first_round.cancel()
                return
            if first_round.may_be_pushed(world.clock.monotonic()):
                circuit = CircuitCheck(world, subscription, host_of(subscription.settings.endpoint))
                watch = self.watches[ordinal] = RunWatch(in_flight, ordinal)
                result, until = await push_round(circuit, first_round, self.slots, len(rounds), watch)
                departure = self.left.get(ordinal)
                if departure is not None and (late := await departure) is not None:
                    await late.write(result)
                else:
                    await self._publish_dead_letters(subscription, result)
                    rounds[ordinal] = first_round = first_round.add_result(result, until, world.clock.now())
                if circuit.has_news:
                    await circuit.record()
                if rounds[ordinal].is_served:
                    return
            if await _append(world, subscription, first_round, world.clock.now()):
                rounds[ordinal] = replace(first_round, is_served=True)
                return
            await world.clock.pause(pause_s(world, tries + 1))
            rounds[ordinal] = first_round = await self._read_again(subscription, first_round)
        raise ConditionLostError

    async def _publish_dead_letters(self, subscription: Subscription, result: RunResult) -> None:
        if subscription.settings.dead_letter_topic is not None:
            messages = [row.message for row in self.rows.values()]
            await publish_dead_letter_after_run(self.world, subscription, messages, result.ended)

    async def _read_again(self, subscription: Subscription, first_round: SubscriptionRound) -> SubscriptionRound:
        """Read rows again for this subscription, because the lane changed: the messages first, then the lane."""
        run, store = self.world.executor.run, self.world.store
        rows = await run(stored.read_addressed, store, self.topic, tuple(self.rows), self.section)
        lane = await run(stored.lane, store, self.topic, subscription.subscription_id)
        # Share one copy of the content among all subscriptions that read again.
        known = {each: replace(row, message=self.rows[each].message) for each, row in rows.items()}
        return replace(first_round, rows=self._rows_for(first_round.ordinal, known), lane=lane)

    async def write(self) -> list[Exception]:
        """Close the first round of each message for the subscriptions of this slice, with their results.

        If one subscription's round failed, the ends of the other deliveries are written separately. So a repeated batch
        does not push them again. Returns the faults. After any fault, the batch must be redelivered.
        """
        world, store = self.world, self.world.store
        planned = {each: self._plan(row) for each, row in self.rows.items()}
        updates = {each: lone_update(plan.writes) for each, plan in planned.items() if not plan.may_complete}
        lone = {each: update for each, update in updates.items() if update is not None}
        left = [each for each, plan in planned.items() if (plan.writes or plan.may_complete) and each not in lone]
        if len(lone) < 2:
            return await side_by_side([self._alone(self.rows[each]) for each in (*lone, *left)])

        async def write(some: Sequence[str]) -> None:
            done = await world.executor.run(store.update_each, [lone[each] for each in some])
            left.extend(each for each, is_done in zip(some, done, strict=True) if not is_done)

        slices = fitting(list(lone), UPDATES_MAX, TOGETHER_BYTES_MAX, lambda each: self.rows[each].size)
        faults = await side_by_side([write(some) for some in slices])
        return faults + await side_by_side([self._alone(self.rows[each]) for each in left])

    async def _alone(self, row: MessageRow) -> None:
        """Write the results of one message, with retries on conflicts."""
        world, store = self.world, self.world.store
        for lost in range(1, TRIES_MAX + 1):
            plan = self._plan(row)
            try:
                for writes in plan.writes:
                    await world.executor.run(write_all, store, writes)
                if plan.may_complete:
                    await world.executor.run(complete, store, *row.names)
                return
            except ConditionLostError:
                if lost == TRIES_MAX:
                    raise
            await world.clock.pause(pause_s(world, lost))
            found = await world.executor.run(stored.read_again, store, row)
            if found is None:
                return
            row = found

    def _plan(self, row: MessageRow) -> MessagePlan:
        """Return the writes for a message whose current state is *row*."""
        message_id, pending = row.message.message_id, row.map.pending
        if not row.is_pending:  # All deliveries ended before this round was closed, and the message was completed.
            return MessagePlan((), may_complete=False)
        came = [each for each in self.rounds.values() if message_id in each.rows]
        entries = {each.ordinal: each.ended[message_id] for each in came if message_id in each.ended}
        entries = {ordinal: entry for ordinal, entry in entries.items() if ordinal in pending}
        enqueued = {each.ordinal for each in came if message_id in each.enqueued} & pending
        served = {each.ordinal for each in came if each.is_served} & self.addressed[message_id]
        unclosed = [each for each, done in row.rounds.items() if done is None]
        closing = [each for each in unclosed if row.of(each) & pending <= served]
        within = frozenset[int]().union(*map(row.of, closing))
        its = {ordinal: entry for ordinal, entry in entries.items() if ordinal in within}
        writes = [round_writes(row, self.round_at, closing, its, enqueued & within)] if closing else []
        early = sorted(entries.keys() - within)
        for some in slices_of(early, ENDS_MAX) if early else ():
            writes.append(end_writes(row, {ordinal: entries[ordinal] for ordinal in some}))
            row = replace(row, partial={each: count + 1 for each, count in row.partial.items()})
        writes += [(enqueued_put(row, ordinal),) for ordinal in sorted(enqueued - within - row.map.enqueued)]
        left = pending - entries.keys()
        only_others = bool(closing and closing == unclosed and left and not left & within)
        return MessagePlan(writes, bool(early) or only_others or _may_have_been_missed(row))


def _may_have_been_missed(row: MessageRow) -> bool:
    """Return whether a narrow message with a closed round may still have to be completed.

    The worker that closed the round may have died. The relay gets no event for a round in the message's own row, so a
    repeated batch must check.
    """
    is_closed = None not in row.rounds.values()
    return row.section is None and (not row.map.pending or (row.is_split and is_closed))


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The transactions that write a message's results. If *may_complete*, a check for completion must follow them."""

    writes: Sequence[Sequence[Write]]
    may_complete: bool


@dataclass(frozen=True, slots=True)
class SubscriptionRound:
    """A subscription's first round in a batch: its messages and its lane as read, and the results so far.

    *lane* is None if the lane is active. Pushes start before *until* (monotonic seconds). *is_served* is True if every
    pending delivery has ended in this round or joined the backlog.

    *enqueued* has the messages that this batch sent to the group's queue, and *judged* those that the filter function
    matched. If *free_at* is set, no push may begin earlier, and *reason* says why. *in_flight* has the messages whose
    push, or call of the filter function, the batch left unfinished. No other worker attempts them before *held_until*.
    """

    ordinal: int
    rows: Mapping[str, MessageRow]
    lane: Lane | None
    ended: Mapping[str, Entry] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    enqueued: frozenset[str] = frozenset()
    judged: frozenset[str] = frozenset()
    until: float = math.inf
    is_served: bool = False
    free_at: int | None = None
    reason: str | None = None
    is_independent: bool = False
    in_flight: frozenset[str] = frozenset()
    held_until: int = 0

    @property
    def is_removed(self) -> bool:
        """Whether the lane shows that the subscription was deleted."""
        return self.lane is not None and self.lane.state is LaneState.REMOVED

    def pending(self) -> list[MessageRow]:
        """Return the subscription's pending messages in queue order.

        Messages whose deliveries were handed over, or ended in this round, are left out.
        """
        return [
            row
            for message_id, row in self.rows.items()
            if self.ordinal in row.map.pending
            and self.ordinal not in row.map.enqueued
            and message_id not in self.ended
            and message_id not in self.enqueued
        ]

    def open(self) -> list[MessageRow]:
        """Return the pending messages that are not in the backlog. The lane's worker ends those in the backlog."""
        lane = self.lane
        return [row for row in self.pending() if lane is None or not lane.holds(row.message.message_id)]

    def waits(self, row: MessageRow) -> bool:
        """Return whether the first round of a message is still open for this subscription."""
        return self.ordinal in row.map.waiting

    @property
    def got_through(self) -> bool:
        """Whether a push succeeded in this round."""
        return any(entry.state is EntryState.DELIVERED for entry in self.ended.values())

    @property
    def lane_to_recover(self) -> Lane | None:
        """The lane if a push of this round succeeded, but the lane is unclaimed and has lost contact; else None."""
        lane = self.lane
        is_lost = lane is not None and lane.state is LaneState.LOST_CONTACT and not lane.is_claimed
        return lane if is_lost and self.got_through else None

    @property
    def is_open_to_pushes(self) -> bool:
        """Whether the state of the lane allows pushes of new messages."""
        return self.lane is None or (self.lane.pushes_new and self.is_independent)

    def may_be_pushed(self, now_s: float) -> bool:
        """Return whether a push may start: the lane allows it, no push failed, and time is left."""
        return self.is_open_to_pushes and not self.failures and now_s < self.until

    def pushable(self) -> list[Message]:
        """Return the messages that may be pushed now, in queue order.

        An earlier message that is still pending after its first round stops all later ones. If the deliveries are
        independent, no message stops another.
        """
        if self.is_independent:
            return self.remainder()
        pending = self.pending()
        first = next((place for place, row in enumerate(pending) if not self.waits(row)), len(pending))
        return [row.message for row in pending[:first]]

    def remainder(self) -> list[Message]:
        """Return the messages that must join the backlog.

        A pending message whose first round is over is in the backlog already.
        """
        return [row.message for row in self.open() if self.waits(row)]

    def cancel(self) -> SubscriptionRound:
        """Return the round with its pending deliveries cancelled, because the subscription was deleted."""
        ended = {row.message.message_id: Entry(EntryState.CANCELLED) for row in self.open()}
        return replace(self, ended={**self.ended, **ended}, is_served=True)

    def add_result(self, result: RunResult, until: float, now: int) -> SubscriptionRound:
        """Return the round with the *result* of its pushes added.

        The pushes had to start before *until* (monotonic seconds). If the endpoint is unverified, the lane's worker
        must check the endpoint at once, because the endpoint may have confirmed meanwhile.
        """
        first_round = replace(
            self,
            ended={**self.ended, **result.ended},
            failures=result.failures,
            enqueued=self.enqueued | result.enqueued,
            judged=self.judged | result.judged,
            until=until,
        )
        if (held := result.held) is None:
            return first_round
        return replace(first_round, free_at=now if held.reason == UNVERIFIED else held.until, reason=held.reason)

    def plan_join(
        self, subscription: Subscription, messages: Sequence[Message], now: int, generation: str
    ) -> tuple[Sequence[Write], Lane | None]:
        """Plan how *messages* join the backlog. Return the writes of one transaction, and the lane.

        The lane is None if its workflow need not change. *generation* is the generation of a newly blocked lane. If
        pushes are in flight and none succeeded, the lane is claimed, so that no workflow starts before their results.
        The writes fail if the lane changed since it was read.
        """
        dues = self.dues(subscription, messages, now)
        joining = [due_put(due) for due in dues]
        if self.is_independent:
            write, planned = self._plan_independent_join(subscription, dues, now, generation)
            return (*joining, write), planned
        names, earliest = [due.message_id for due in dues], min(due.expires_at for due in dues)
        if self.lane is not None:
            return (*joining, lane_transitions.join(self.lane, names, earliest)), None
        head = self.failures.get(names[0])
        next_attempt_at = max(now, self.free_at or 0) if head is None else head.next_attempt_at
        next_attempt_at = self.held_until or next_attempt_at
        state = lane_state_after(subscription, self.failures.values())
        asleep = state is LaneState.SUSPENDED
        blocked = Lane(
            topic=subscription.topic,
            subscription_id=subscription.subscription_id,
            state=state,
            generation=generation,
            appended=math.ceil(len(dues) / PLACES),
            claim=1 if self.held_until else 0,
            next_attempt_at=next_attempt_at,
            wake_at=earliest if asleep else next_attempt_at,
            joined=append_joined(b"", names),
            planned_for=None if head is None else names[0],
            is_claimed=bool(self.held_until),
        )
        return (*joining, lane_transitions.lane_put(blocked)), blocked

    def _plan_independent_join(
        self, subscription: Subscription, dues: Sequence[PendingDelivery], now: int, generation: str
    ) -> tuple[Write, Lane | None]:
        """Plan the write of the lane that *dues* join under INDEPENDENT_RETRY. Return the lane if it is due earlier.

        While a push is in flight and no push of this round has succeeded, no other delivery is attempted: a new lane is
        claimed. Contact stays lost until a push of the round succeeds or fails.
        """
        lane, names = self.lane, [due.message_id for due in dues]
        earliest, due_at = min(due.expires_at for due in dues), min(int(due.position) for due in dues)
        awaits = bool(self.in_flight) and not self.got_through
        has_more = awaits or any(name not in self.failures and name not in self.in_flight for name in names)
        state = independent_state_after(self.failures.values(), got_through=self.got_through, has_more=has_more)
        if lane is not None and lane.state is LaneState.LOST_CONTACT and not (self.failures or self.got_through):
            state = lane.state
        if awaits or state is LaneState.LOST_CONTACT:
            due_at = max(int(due.position) for due in dues)
        if lane is None:
            is_claimed = awaits and not state.is_asleep
            fresh = Lane(
                topic=subscription.topic,
                subscription_id=subscription.subscription_id,
                state=state,
                generation=generation,
                appended=appended_after(now),
                claim=1 if is_claimed else 0,
                next_attempt_at=due_at,
                wake_at=earliest if state.is_asleep else due_at,
                joined=append_joined(b"", names),
                is_claimed=is_claimed,
                lost_since=now if state is LaneState.LOST_CONTACT else None,
            )
            return lane_transitions.lane_put(fresh), fresh
        if not lane.pushes_new:
            return lane_transitions.join(lane, names, earliest), None
        next_at = lane.next_attempt_at or 0
        if lane.is_claimed or (lane.state is state is LaneState.RETRYING and next_at <= due_at):
            return lane_transitions.join_retrying(lane, names), None
        if state in (LaneState.RETRYING, LaneState.BLOCKED):
            due_at = min(due_at, next_at)
        planned, write = lane_transitions.join_before(lane, names, generation, state, due_at, now)
        return write, planned

    def dues(self, subscription: Subscription, messages: Sequence[Message], now: int) -> list[PendingDelivery]:
        """Return the pending deliveries of *messages* for the backlog, with their failures and next attempts."""
        lane, dues = self.lane, []
        is_blocked = lane is not None and lane.state is LaneState.BLOCKED
        waits = not self.failures and (self.is_open_to_pushes or is_blocked)
        reason = self.reason if waits else None
        if waits and reason is None and subscription.settings.rate is not None:
            reason = RATE
        for place, message in enumerate(messages):
            failure = self.failures.get(message.message_id)
            due = PendingDelivery(
                subscription_id=subscription.subscription_id,
                position=position(0 if lane is None else lane.appended, place),
                message_id=message.message_id,
                attempts=0,
                expires_at=message.expires_at,
                last_outcome=reason,
                unjudged=is_unjudged(subscription, message.accepted_at) and message.message_id not in self.judged,
            )
            due = due if failure is None else due.after_failure(failure.past, failure.not_before)
            if self.is_independent:
                if message.message_id in self.in_flight:
                    due = replace(due, not_before=self.held_until).reschedule(self.held_until)
                elif failure is None:
                    due = due.reschedule(max(now, self.free_at or 0))
                else:
                    due = due.reschedule(failure.next_attempt_at)
            dues.append(due)
        return dues


async def push_round(
    circuit: CircuitCheck, first_round: SubscriptionRound, slots: PushSlots, among: int, watch: RunWatch
) -> tuple[RunResult, float]:
    """Push the pushable messages. Return the result, and the deadline for starting pushes (monotonic).

    *among* is the number of subscriptions in the slice. The more subscriptions or messages, the later is the deadline.
    """
    world, subscription = circuit.world, circuit.subscription
    deliveries = [(message, 0) for message in first_round.pushable()]
    unjudged = {
        each.message_id for each, _ in deliveries if is_unjudged(subscription, each.accepted_at)
    } - first_round.judged
    times = math.ceil(among / SUBSCRIPTIONS_IN_TIME)
    # A rate gives permits only within its horizon. So a longer time would not help more messages.
    if len(deliveries) > MESSAGES_IN_TIME and subscription.settings.rate is None:
        times = max(times, math.ceil(len(deliveries) / MESSAGES_IN_TIME))
    seconds = min(TIME_S_MAX, TIME_S * times)
    until = world.clock.monotonic() + seconds
    run = Run(subscription, deliveries, slots, seconds, circuit, unjudged, watch=watch)
    return await attempt_run(world, run), until


async def _append(world: World, subscription: Subscription, first_round: SubscriptionRound, now: int) -> bool:
    """Append the remainder to the backlog. Return False if the lane changed since the read."""
    if not (messages := first_round.remainder()):
        if (lost := first_round.lane_to_recover) is not None:
            with suppress(ConditionLostError):  # The lane's worker decides, or the next success.
                await world.executor.run(world.store.write, lane_transitions.recover(lost))
        return True
    return await _join(world, *first_round.plan_join(subscription, messages, now, world.dice.unique_id(now)))


async def _join(world: World, writes: Sequence[Write], lane: Lane | None) -> bool:
    """Execute the *writes* of a join, and start the workflow of *lane*. Return False if the lane changed."""
    try:
        await world.executor.run(world.store.transact, writes)
    except ConditionLostError:
        return False
    if lane is not None and not lane.state.is_asleep and not lane.is_claimed:
        await world.executor.run(world.workflow.start, lane.topic, lane.subscription_id, lane.generation)
    return True
