"""Redelivery of one lane under a lease: attempt its head when it is due, drain behind it, activate when empty.

What is written is conditional on the worker's lease of the lane, however many others write the same messages.
See docs/protocol.md, Redelivery, Late entries, and Invariants, 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from itertools import takewhile

from tagcast.concurrency.contention import pause_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.ending import end_alone, end_due, enqueue_due, slices_of, write_all
from tagcast.errors import ConditionLostError, ContendedError, NotFoundError
from tagcast.filters.function_filter import is_judged_by_function, judging_s
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState, LaneState, Subscription
from tagcast.ports import GroupQueue, Received, World, Write
from tagcast.pushing.circuit import CIRCUIT, CircuitCheck
from tagcast.pushing.engine import Failure, Held, Run, RunResult, attempt_run, lane_state_after, planned_at
from tagcast.pushing.push_slots import PushSlots, host_of
from tagcast.pushing.rate_limit import RATE
from tagcast.queues import RECEIVED_MAX
from tagcast.registry.directory import subscription_at
from tagcast.rows import stored
from tagcast.rows.due import LATE_POSITION, OwedDelivery, due_change, due_delete, due_delete_as_read, due_put, last_pull
from tagcast.rows.lane import Filling, Lane, generation_update, lane_check, lane_delete, lane_update
from tagcast.rows.listed import kept_id
from tagcast.rows.log import end_writes, late_writes
from tagcast.rows.message import LATE_MAX, MessageRow
from tagcast.state_map import AddedLater

LEASE_GRACE_S = 30
TRIES_MIN = 3
"""An outcome is worth 3 tries even when the budget is over: it has a reserve for the writes behind a push."""
ROUNDS_MAX = 1_500
"""A round of the workflow writes about ten history events; 25,000 are the limit of an execution."""
CANCELLED_AT_ONCE = 33
"""At most 33 deliveries of a removed subscription are looked at together: one request reads three rows for each."""
ENDED_AT_ONCE = 33
"""At most 33 deliveries end in a transaction of 100 writes: three for each, if its round is open, and one more."""
WAIT_S, INVISIBLE_S = 1, 120
"""A wait asks all servers of a group's queue; what a worker leaves behind comes to the next one soon."""
ADDED_AT_ONCE = 8
"""A transaction adds 8 late entries: it takes 4 MB, and a row is at most a tenth of that."""


@dataclass(frozen=True, slots=True)
class Task:
    """The input and memory of one workflow execution."""

    topic: str
    subscription_id: str
    generation: str
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the workflow does next: wait until an instant and come back, or end (None)."""

    task: Task
    wait_until: int | None = None


class StaleWorkerError(Exception):
    """The lane belongs to somebody else now; nothing outside redelivery sees this."""


@dataclass(slots=True)
class LaneLease:
    """One worker's lease of the lane of a task, as it was last *seen*; its head is claimed until *held_until*.

    The worker pushes in *slots*; *deadline* is when it has to come to its end, on the monotonic clock. *is_held* is
    False once the next attempt is planned: then the claim must not be prolonged. *attempt_s* is how long an attempt
    takes at most.
    """

    world: World
    task: Task
    slots: PushSlots
    deadline: float
    seen: Lane | None = None
    held_until: int = 0
    is_held: bool = False
    attempt_s: int = 0

    @property
    def lane(self) -> Lane:
        """Return the lane as it was last read or written."""
        assert self.seen is not None
        return self.seen

    def left_s(self) -> float:
        """Return how much of the budget is left."""
        return self.deadline - self.world.clock.monotonic()

    async def look(self) -> Lane | None:
        """Read the lane."""
        read = partial(stored.lane, self.world.store, self.task.topic, self.task.subscription_id)
        return await self.world.executor.run(read)

    async def verify(self) -> int:
        """Read how long the backlog grew, before it is looked at; or raise StaleWorkerError."""
        lane = await self.look()
        if lane is None or lane.generation != self.lane.generation or lane.claim != self.lane.claim:
            raise StaleWorkerError
        self.seen = replace(self.lane, state=lane.state)
        return lane.appended

    def check(self) -> Write:
        """Return the part of a transaction that lets it fail for a worker that lost the lane."""
        return lane_check(self.lane)

    def move(self, lane: Lane) -> Write:
        """Return the write that brings the lane's row to *lane*, unless this worker lost it."""
        return lane_update(lane, self.lane.as_held(), claims=True)

    async def write(self, *writes: Write) -> None:
        """Carry out one write or transaction; while others keep it out, wait and try again as long as the budget lasts.

        Raises ConditionLostError, and ContendedError in the end.
        """
        lost = 0
        while True:  # It ends: with the budget, if nothing else ends it.
            try:
                await self.world.executor.run(partial(write_all, self.world.store, writes))
            except ContendedError:
                lost += 1
                if not await self.wait(lost):
                    raise
                continue
            return

    def end_at(self) -> int:
        """Return when the budget is over, on the clock of instants: the next worker may go on then."""
        return self.world.clock.now() + math.ceil(max(0.0, self.left_s()) * 1000)

    async def wait(self, lost: int) -> bool:
        """Wait after *lost* tries, as :func:`pause_s` says; return False instead when the budget is over."""
        seconds = pause_s(self.world, lost)
        if lost >= TRIES_MIN and self.left_s() <= seconds:
            return False
        await self.world.clock.pause(seconds)
        return True

    async def renew(self, seconds: float) -> None:
        """Keep the claim for *seconds* more, unless the next attempt is planned already."""
        until = self.world.clock.now() + (seconds + LEASE_GRACE_S / 2) * 1000
        if self.is_held and self.held_until < until:
            await self.acquire(round(seconds))

    async def acquire(self, attempt_s: int) -> None:
        """Take the head, or keep it: nobody else attempts it while an attempt of *attempt_s* may be under way."""
        until = self.world.clock.now() + (attempt_s + LEASE_GRACE_S) * 1000
        taken = replace(self.lane, claim=self.lane.claim + 1, next_attempt_at=until, wake_at=until)
        # The worker before may have planned the next attempt since the lane was read.
        update = lane_update(taken, self.lane.as_planned(), claims=True)
        await self.world.executor.run(partial(self.world.store.write, update))
        self.seen, self.held_until, self.is_held = taken, until, True

    async def finish(self, appended: int) -> None:
        """Activate the empty lane, or leave the tombstone of a removed one; ConditionLostError if it grew meanwhile."""
        if self.lane.state is LaneState.REMOVED:
            await self.write(self.move(replace(self.lane, wake_at=None)))
            return
        await self.write(lane_delete(replace(self.lane, appended=appended)))

    async def reschedule(self, due_at: int, *beside: Write) -> None:
        """Give the claim back while the backlog is not empty; it goes on at *due_at*."""
        await self.write(*beside, self.move(self.planned(due_at)))

    def planned(self, due_at: int, message_id: str | None = None) -> Lane:
        """Return the lane that goes on at *due_at*: with a message that failed, or with whichever stands first."""
        return replace(self.lane, next_attempt_at=due_at, wake_at=due_at, planned_for=message_id)


async def redeliver(world: World, task: Task, budget_s: float, slots: PushSlots) -> Answer:
    """Attempt what the lane owes and is due, for at most about *budget_s* seconds, and say when to come back.

    A worker of another generation or claim writes nothing. Short waits happen in here.
    """
    lease = LaneLease(world, task, slots, world.clock.monotonic() + budget_s)
    wait_until = await _work(lease)
    if wait_until is None:
        return Answer(task)
    if task.rounds >= ROUNDS_MAX:
        await world.executor.run(partial(continue_as_new, world, task))
        return Answer(task)
    return Answer(replace(task, rounds=task.rounds + 1), wait_until)


def continue_as_new(world: World, task: Task) -> None:
    """Hand the lane of *task* to a new execution; do nothing if it is somebody else's by now."""
    lane = stored.lane(world.store, task.topic, task.subscription_id)
    if lane is None or lane.generation != task.generation:
        return
    generation = world.dice.unique_id(world.clock.now())
    try:
        world.store.write(generation_update(lane, generation, lane.as_handed_on()))
    except ConditionLostError:
        return
    world.workflow.start(task.topic, task.subscription_id, generation)


class Drained(Enum):
    """What came of a look into the backlog under one claim."""

    DONE = auto()
    """The lane is empty, or a tombstone: nobody has to come back."""
    WAITING = auto()
    """Its next attempt is planned."""
    GOING_ON = auto()
    """There is more to do under this claim."""
    OVERTAKEN = auto()
    """Somebody else wrote what this claim was about to write."""


@dataclass(frozen=True, slots=True)
class Streak:
    """How the receiver did under the present claim.

    *answering* is False once the claimed head went without a success: what failed before keeps to its own schedule,
    as does a head that is another than the one the claim was planned for.
    *answered* is True once a push got through: until then only the head is tried. *got_through* is how many did
    together the last time that any were attempted.
    """

    answering: bool = True
    answered: bool = False
    got_through: int = 0


async def _work(lease: LaneLease) -> int | None:
    """Work until a wait is needed (return its end), the lane is done, or it belongs to somebody else (None)."""
    world, lost = lease.world, 0
    while True:  # It ends: with the budget, if nothing else ends it.
        lease.seen = lane = await lease.look()
        if lane is None or lane.generation != lease.task.generation:
            return None
        if lane.state.is_asleep:
            return None
        due_at = lane.next_attempt_at or 0
        wait_s = (due_at - world.clock.now()) / 1000
        if wait_s > 0:
            if wait_s >= world.short_wait_s or wait_s >= lease.left_s():
                return due_at
            await world.clock.pause(wait_s)
            continue
        if lease.left_s() <= 0 or (lost and not await lease.wait(lost)):
            return world.clock.now()
        try:
            if await _drain(lease) is Drained.DONE:
                return None
        except ConditionLostError:
            lost += 1
        except StaleWorkerError:
            continue


async def _drain(lease: LaneLease) -> Drained:
    """Work through the backlog under one claim."""
    subscription = await _subscription(lease)
    await lease.acquire(0 if subscription is None else subscription.settings.timeout_s)
    streak, lost = Streak(), 0
    while lease.left_s() > 0:
        try:
            drained, streak = await _step(lease, subscription, streak)
        except ConditionLostError:
            drained = Drained.OVERTAKEN
        if drained is Drained.OVERTAKEN:
            await lease.verify()
            lost += 1
            await lease.wait(lost)
        elif drained is Drained.GOING_ON:
            lost = 0
        else:
            return drained
    await lease.reschedule(lease.world.clock.now())
    return Drained.WAITING


async def _step(lease: LaneLease, subscription: Subscription | None, streak: Streak) -> tuple[Drained, Streak]:
    """Serve what stands first in the backlog."""
    if lease.lane.is_filling and lease.lane.state is not LaneState.REMOVED:
        return await _fill(lease), streak
    appended = await lease.verify()
    dues = await _front(lease, subscription, streak)
    if not dues:
        if not await empty_queue(lease):
            return Drained.GOING_ON, streak
        await lease.finish(appended)
        return Drained.DONE, streak
    if subscription is not None and any(due.unjudged for due in dues) and not judging_s(subscription):
        subscription = await _subscription(lease)  # It was given a filter function since this claim.
    if subscription is None or lease.lane.state is LaneState.REMOVED:
        await cancel(lease, dues)
        return Drained.GOING_ON, streak
    due_at = head_due_at(lease.world, lease.lane, subscription, dues[0], streak)
    if due_at is not None:
        await lease.write(lease.move(lease.planned(due_at, dues[0].message_id)))
        return Drained.WAITING, streak
    return await retry(lease, subscription, dues, streak)


async def _subscription(lease: LaneLease) -> Subscription | None:
    """Return the subscription of the lane as it is now; None when it is gone, even if another has its name.

    The lease knows then how long an attempt takes.
    """
    sid = lease.task.subscription_id
    try:
        found = await lease.world.executor.run(partial(subscription_at, lease.world, lease.task.topic, ordinal_of(sid)))
    except NotFoundError:
        return None
    if found is None or found.subscription_id != sid:
        return None
    lease.attempt_s = found.settings.timeout_s + judging_s(found) + 1
    return found


async def _front(lease: LaneLease, subscription: Subscription | None, streak: Streak) -> list[OwedDelivery]:
    """Return the head alone, or a window of the backlog once the receiver answered well, or is gone."""
    window = CANCELLED_AT_ONCE if subscription is None else 1
    if subscription is not None and streak.answered:
        window = subscription.settings.drained_at_once(streak.got_through)
    read = partial(stored.dues, lease.world.store, lease.task.subscription_id, limit=window)
    dues = await lease.world.executor.run(read)
    return dues if subscription is None else front(dues, lease.world.clock.now())


def front(dues: Sequence[OwedDelivery], now: int) -> list[OwedDelivery]:
    """Return what of the beginning of a backlog may be in flight together: a head that failed before is alone.

    A message stands in it once, where it stands first. It ends before what its receiver does not want yet.
    """
    if dues and dues[0].attempts:
        return list(dues[:1])
    wanted = list(takewhile(lambda due: now >= (due.not_before or 0), dues))
    return list({due.message_id: due for due in reversed(wanted)}.values())[::-1]


def head_due_at(world: World, lane: Lane, subscription: Subscription, head: OwedDelivery, streak: Streak) -> int | None:
    """Return when the head may be attempted if that is not now: by its schedule, or because its receiver asked so."""
    now = world.clock.now()
    if now < (not_before := min(head.not_before or 0, head.expires_at)):
        return not_before
    is_its_turn = streak.answered or lane.planned_for in (None, head.message_id)
    if head.attempts and not (streak.answering and is_its_turn):
        due_at = min(planned_at(world, subscription, head.attempts, head.last_attempt_at or 0), head.expires_at)
        return due_at if now < due_at else None
    return None


async def empty_queue(lease: LaneLease) -> bool:
    """Cancel some of what lies in the queue of a removed group; say whether that was all, and the queue is gone.

    What members lease just now goes with the queue: the search ends it when its life is over.
    """
    queue = lease.lane.queue
    if queue is None:
        return True
    run, queues = lease.world.executor.run, lease.world.group_queues
    received = await run(partial(queues.receive, queue, limit=RECEIVED_MAX, wait_s=WAIT_S, invisible_s=INVISIBLE_S))
    for each in received:
        await _cancel(lease, queue, each)
    if received:
        await run(partial(queues.delete, queue, [each.receipt for each in received]))
        return False
    await run(partial(queues.remove, queue))
    return True


async def _cancel(lease: LaneLease, queue: GroupQueue, received: Received) -> None:
    """End one entry as cancelled, after the pulls that it had before this look."""
    ordinal, pulls = ordinal_of(queue.subscription_id), received.times - 1
    world, state, entry = lease.world, EntryState.CANCELLED, Entry(EntryState.CANCELLED)
    if pulls:
        look = partial(stored.pulled, world.store, lease.task.topic, received.message_id)
        known = (await world.executor.run(look)).get(ordinal)
        entry = last_pull(known, pulls, world.clock.now()).ending(state)
    row = await world.executor.run(partial(stored.entry, world.store, lease.task.topic, received.message_id, ordinal))
    lost = 0
    while row is not None and ordinal in row.map.owed:
        if await world.executor.run(partial(end_alone, world.store, row, ordinal, entry)):
            return
        lost += 1
        if not await lease.wait(lost):
            raise ConditionLostError
        row = await world.executor.run(partial(stored.again, world.store, row))


@dataclass(frozen=True, slots=True)
class _Owed:
    """A delivery that is still owed, and its message as it was read."""

    due: OwedDelivery
    row: MessageRow


async def retry(
    lease: LaneLease, subscription: Subscription, dues: Sequence[OwedDelivery], streak: Streak
) -> tuple[Drained, Streak]:
    """Attempt *dues* under a claim that lasts, and say how the receiver does; what is not owed any more is dropped."""
    world = lease.world
    if lease.held_until - world.clock.now() < lease.attempt_s * 1000:
        await lease.acquire(subscription.settings.timeout_s)
    owed = await _still_owed(lease, dues)
    if not owed:
        return Drained.GOING_ON, replace(streak, answering=False)
    run = _run(lease, subscription, list(owed.values()), streak)
    result = await attempt_run(world, run)
    head = next(iter(owed.values())).due
    if result.held is not None and result.is_empty:
        await lease.reschedule(result.held.until, *_reason(head, result.held))
        if run.circuit.has_news:
            await run.circuit.tell()
        return Drained.WAITING, streak
    came = await _Outcomes(lease, subscription, owed, result).write()
    if run.circuit.has_news:
        await run.circuit.tell()
    got_through = len(result.enqueued)
    got_through += sum(entry.state is EntryState.DELIVERED for entry in result.ended.values())
    return came, Streak(bool(got_through) or not result.ended, streak.answered or bool(got_through), got_through)


def _run(lease: LaneLease, subscription: Subscription, owed: Sequence[_Owed], streak: Streak) -> Run:
    """Return the run of what is owed; its attempts end before this claim does, and none starts after the budget.

    It asks the circuit if the head got no answer the last time or was kept from an attempt by the circuit, or if the
    head before it failed under this claim. No other lane asks.
    """
    head = owed[0].due
    circuit = CircuitCheck(lease.world, subscription, host_of(subscription.settings.endpoint))
    if is_in_doubt := _is_in_doubt(head):
        circuit.doubt()
    claim_s = (lease.held_until - lease.world.clock.now()) / 1000
    return Run(
        subscription,
        [(each.row.message, each.due.attempts) for each in owed],
        lease.slots,
        min(lease.left_s(), claim_s - lease.attempt_s),
        circuit,
        unjudged={each.due.message_id for each in owed if each.due.unjudged},
        answered=streak.answered,
        asks_circuit=is_in_doubt or not streak.answering,
        attempted_at=head.last_attempt_at,
    )


def _is_in_doubt(due: OwedDelivery) -> bool:
    """Say whether a delivery waits for its host to answer, or has no answer of HTTP to its last attempt."""
    answered = bool(due.history) and due.history[-1].status is not None
    return due.last_outcome == CIRCUIT or (due.attempts > 0 and not answered)


def _reason(head: OwedDelivery, held: Held) -> tuple[Write, ...]:
    """Return the write that says why *head* waits, unless its row says so already; a rate is not told."""
    if held.reason in (RATE, head.last_outcome):
        return ()
    return (due_change(head, replace(head, last_outcome=held.reason)),)


async def _still_owed(lease: LaneLease, dues: Sequence[OwedDelivery]) -> dict[str, _Owed]:
    """Return those of *dues* that are still owed, with their messages, by these; drop the others, which are stale."""
    rows: dict[str, MessageRow] = {}

    async def look(due: OwedDelivery) -> None:
        world, ordinal = lease.world, ordinal_of(due.subscription_id)
        read = partial(stored.entry, world.store, lease.task.topic, due.message_id, ordinal)
        row = await world.executor.run(read)
        if row is None or not row.map.is_with_lane(ordinal):
            await lease.write(due_delete(due))
        else:
            rows[due.message_id] = row

    if len(dues) == 1:
        await look(dues[0])
    elif faults := await side_by_side([look(due) for due in dues]):
        raise faults[0]
    return {due.message_id: _Owed(due, rows[due.message_id]) for due in dues if due.message_id in rows}


@dataclass(slots=True)
class _Outcomes:
    """What came of a run, to be written; *unwritten* are attempts that were made and that no row says yet."""

    lease: LaneLease
    subscription: Subscription
    owed: Mapping[str, _Owed]
    result: RunResult
    unwritten: set[str] = field(init=False)

    def __post_init__(self) -> None:
        ended = self.result.ended.items()
        attempted = {each for each, entry in ended if entry.attempts > self.owed[each].due.attempts}
        self.unwritten = attempted | self.result.failures.keys()

    async def write(self) -> Drained:
        """Write what came of the attempts, ends before failures."""
        try:
            standing = await self._write_ends()
            await self._write_unattempted()
            await self._write_failures()
            if standing and not self.result.failures:
                await self.lease.reschedule(self.lease.end_at())
                return Drained.WAITING
        except ConditionLostError:
            return Drained.OVERTAKEN
        finally:
            if self.unwritten:  # The next worker makes these attempts once more.
                self.lease.world.telemetry.count("OutcomesLost", len(self.unwritten))
        return Drained.WAITING if self.result.failures else Drained.GOING_ON

    async def _write_ends(self) -> bool:
        """Write ends: of a batch as many in a transaction as it takes, otherwise one by one.

        Say whether some stand in the backlog, because others held their rows until the budget was over.
        """
        named = [(self.owed[each], entry) for each, entry in self.result.ended.items()]
        ends = [(one.due, one.due.as_last_seen(entry), one.row) for one, entry in named]
        done = set[str]()
        if self.subscription.settings.batching is not None:
            for some in slices_of(ends, ENDED_AT_ONCE):
                if await end_together(self.lease, some):
                    done |= {due.message_id for due, _, _ in some}
        self.unwritten -= done
        for due, entry, row in ends:
            if due.message_id in done:
                continue
            with suppress(ContendedError):  # The next worker attempts it once more.
                await end(self.lease, due, entry, known=row)
                done.add(due.message_id)
                self.unwritten.discard(due.message_id)
        return len(done) < len(ends)

    async def _write_unattempted(self) -> None:
        """Write what was enqueued for a group, and the verdicts on deliveries that were not started."""
        result, lease = self.result, self.lease
        for message_id, each in self.owed.items():
            if message_id in result.enqueued:
                enqueue = partial(enqueue_due, lease.world.store, each.row, each.due, lease.check())
                await lease.world.executor.run(enqueue)
        waiting = result.judged - result.ended.keys() - result.failures.keys() - result.enqueued
        for message_id, each in self.owed.items():
            if message_id in waiting:
                judged = replace(each.due, unjudged=False)
                await self.lease.write(due_change(judged, judged), self.lease.check())

    async def _write_failures(self) -> None:
        """Write failed attempts into their due rows; that of the head together with what it means for the lane."""
        failures = self.result.failures
        failed = [self._judged(each.due) for message_id, each in self.owed.items() if message_id in failures]
        for due in failed[1:]:
            await self._write_failure(due, failures[due.message_id], self.lease.check())
        for head in failed[:1]:
            failure = failures[head.message_id]
            await self._write_failure(head, failure, self._rescheduled(failure, head))
            self.lease.is_held = False

    async def _write_failure(self, due: OwedDelivery, failure: Failure, lane: Write) -> None:
        await self.lease.write(due_change(due, due.failed(failure.past, failure.not_before)), lane)
        self.unwritten.discard(due.message_id)

    def _judged(self, due: OwedDelivery) -> OwedDelivery:
        return replace(due, unjudged=False) if due.message_id in self.result.judged else due

    def _rescheduled(self, failure: Failure, head: OwedDelivery) -> Write:
        """Return the lane's write after its head failed: the next attempt, or suspension after a 410."""
        lease, state = self.lease, lane_state_after(self.subscription, self.result.failures.values())
        planned = replace(lease.planned(failure.next_attempt_at, head.message_id), state=state)
        if state is LaneState.SUSPENDED:
            generation = lease.world.dice.unique_id(lease.world.clock.now())
            planned = replace(planned, generation=generation, wake_at=head.expires_at)
        return lease.move(planned)


async def end_late(
    lease: LaneLease, subscription: Subscription, dues: Sequence[OwedDelivery], result: RunResult
) -> None:
    """Write what came of attempts at *dues* that their batch did not wait for; hand the lane on to an execution.

    Whoever took the lane since then decides alone: then nothing more is written.
    """
    world = lease.world
    try:
        owed = await _still_owed(lease, dues)
        result.ended = {each: entry for each, entry in result.ended.items() if each in owed}
        result.failures = {each: failure for each, failure in result.failures.items() if each in owed}
        came = await _Outcomes(lease, subscription, owed, result).write()
        if came is Drained.OVERTAKEN:
            await lease.verify()
        if came is not Drained.WAITING and not lease.lane.state.is_asleep:
            await lease.write(lease.move(_plan_behind(lease, subscription, dues, result)))
    except (ConditionLostError, StaleWorkerError):
        return
    await world.executor.run(partial(continue_as_new, world, lease.task))


def _plan_behind(lease: LaneLease, subscription: Subscription, dues: Sequence[OwedDelivery], result: RunResult) -> Lane:
    """Return the lane that goes on behind what got through: with what had failed before, or with what stands next.

    What another batch let join meanwhile, and failed before, keeps to its own schedule: the plan is for none of it.
    """
    now = lease.world.clock.now()
    failed = next((due for due in dues if due.attempts and due.message_id not in result.ended), None)
    if failed is None:
        return lease.planned(now if result.held is None else max(now, result.held.until), dues[0].message_id)
    due_at = planned_at(lease.world, subscription, failed.attempts, failed.last_attempt_at or now)
    return lease.planned(max(now, due_at, failed.not_before or 0), failed.message_id)


async def end(lease: LaneLease, due: OwedDelivery, entry: Entry, known: MessageRow | None = None) -> None:
    """Bring a delivery to its end and remove its due row in one transaction; *known* is its message as it was read.

    The condition is lost if the worker lost the lane, which ends it, or if somebody closed the round meanwhile.
    """
    world, topic, lost = lease.world, lease.task.topic, 0
    while True:  # It ends: with the budget, if nothing else ends it.
        try:
            await world.executor.run(partial(end_due, world.store, topic, due, entry, lease.check(), known=known))
        except ConditionLostError as error:
            known, lost = None, lost + 1
            if not isinstance(error, ContendedError):
                await lease.verify()
            if not await lease.wait(lost):
                raise
            continue
        return


async def end_together(lease: LaneLease, ends: Sequence[tuple[OwedDelivery, Entry, MessageRow]]) -> bool:
    """Bring deliveries to their ends in one transaction; say whether that was done, or has to be one by one."""
    ordinal = ordinal_of(lease.task.subscription_id)
    writes: list[Write] = [lease.check()]
    for due, entry, row in ends:
        writes += [due_delete_as_read(due), *end_writes(row, {ordinal: entry})]
    try:
        await lease.world.executor.run(partial(write_all, lease.world.store, writes))
    except ConditionLostError:
        return False
    return True


async def cancel(lease: LaneLease, dues: Sequence[OwedDelivery]) -> None:
    """End deliveries without another push, because the subscription is gone: many in a transaction."""
    world, ordinal = lease.world, ordinal_of(lease.task.subscription_id)
    first = {due.message_id: due for due in reversed(dues)}
    read = partial(stored.entries, world.store, lease.task.topic, tuple(first), ordinal)
    rows = await world.executor.run(read)
    owed = [(due, due.ending(EntryState.CANCELLED), rows[each]) for each, due in first.items()
            if each in rows and rows[each].map.is_with_lane(ordinal)]  # fmt: skip
    for some in slices_of(owed, ENDED_AT_ONCE):
        if not await end_together(lease, some):
            for due, entry, row in some:
                await end(lease, due, entry, known=row)
    ended = {id(due) for due, _, _ in owed}
    for due in dues:
        if id(due) not in ended:
            await end(lease, due, due.ending(EntryState.CANCELLED))


async def _fill(lease: LaneLease) -> Drained:
    """Add the next part of what was kept when the group was made, by the filter that it has now.

    A part that was added before, wholly or not, is added no second time.
    """
    world, group, filling = lease.world, await _subscription(lease), lease.lane.filling
    if group is None:
        raise StaleWorkerError
    assert filling is not None
    now = world.clock.now()
    if now < filling.begins_at:
        await lease.reschedule(filling.begins_at)
        return Drained.WAITING
    read = partial(
        world.store.kept,
        group.topic,
        accepted_from=filling.accepted_from,
        before_version=filling.since,
        alive_at=now,
        cursor=filling.cursor,
    )
    found = await world.executor.run(read)
    ids = [kept_id(row) for row in found.rows]
    index = TopicIndex.build({group.ordinal: group.settings.filter})
    for start in range(0, len(ids), ADDED_AT_ONCE):
        await _add(lease, group, index, ids[start : start + ADDED_AT_ONCE])
        await lease.renew(0)
    is_over = found.cursor is None
    lease.seen = replace(lease.lane, filling=replace(filling, cursor=found.cursor, is_over=is_over))
    if is_over:
        await lease.acquire(0)
    else:
        await lease.renew(0)
    return Drained.GOING_ON


async def _add(lease: LaneLease, group: Subscription, index: TopicIndex, ids: Sequence[str]) -> None:
    """Add these messages in one transaction; one by one, with patience, where others write them just now."""
    lost = 0
    while True:  # It ends: with the budget, if nothing else ends it.
        try:
            await _add_together(lease, group, index, ids)
        except ConditionLostError:
            await lease.verify()
            lost += 1
            if len(ids) == 1 and not await lease.wait(lost):
                raise
        else:
            return
        if len(ids) > 1:
            break
    for message_id in ids:
        await _add(lease, group, index, (message_id,))


async def _add_together(lease: LaneLease, group: Subscription, index: TopicIndex, ids: Sequence[str]) -> None:
    world, filling = lease.world, lease.lane.filling
    assert filling is not None
    rows = await world.executor.run(partial(stored.entries, world.store, group.topic, ids, group.ordinal))
    late = [row for row in rows.values() if _is_kept(world, group, filling, row) and _matches(world, group, index, row)]
    if not late:
        return
    added = AddedLater(world.clock.now(), group.version)
    writes: list[Write] = [lease.check()]
    for row in late:
        due = OwedDelivery(
            subscription_id=group.subscription_id,
            position=LATE_POSITION,
            message_id=row.message.message_id,
            attempts=0,
            expires_at=row.message.expires_at,
            unjudged=is_judged_by_function(group),
        )
        writes += [*late_writes(row, group.ordinal, added), due_put(due)]
    await world.executor.run(partial(world.store.transact, writes))
    world.telemetry.count("LateEntries", len(late))


def _is_kept(world: World, group: Subscription, filling: Filling, row: MessageRow) -> bool:
    """Say whether a message was accepted without *group*, which may still get it.

    One that a publish at *since* or later accepted was matched by that: it is the group's already, or not for it.
    """
    message = row.message
    if row.subscriptions_version >= filling.since or message.accepted_at < filling.accepted_from:
        return False
    if not row.has_body or message.is_expired(world.clock.now()) or message.replay_of is not None:
        return False
    return group.ordinal not in row.map.matched and row.late < LATE_MAX


def _matches(world: World, group: Subscription, index: TopicIndex, row: MessageRow) -> bool:
    matched = index.match(row.message)
    if matched.errors:
        world.telemetry.filter_failed(group.topic, (group.name,))
    return group.ordinal in matched.ordinals
