"""Redelivery of one lane: attempt its head when it is due, drain behind it, activate when empty.

See docs/protocol.md, Redelivery.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from itertools import takewhile

from tagcast.concurrency.contention import window_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.ending import (
    TOGETHER_BYTES_MAX,
    Conflict,
    EntryEnd,
    end_entry_beside,
    end_together,
    size_of,
)
from tagcast.delivery.filling import fill
from tagcast.delivery.lane_lease import Answer, LaneLease, StaleWorkerError, Task
from tagcast.errors import ConditionLostError, ContendedError, NotFoundError
from tagcast.filters.function_filter import judging_s
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState, LaneState, Subscription
from tagcast.ports import GroupQueue, Received, World, Write
from tagcast.pushing.circuit import CIRCUIT, CircuitCheck
from tagcast.pushing.engine import Failure, Held, Run, RunResult, attempt_run, lane_state_after, planned_at
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.rate_limit import RATE
from tagcast.queues import RECEIVED_MAX
from tagcast.registry.directory import subscription_at
from tagcast.rows import stored
from tagcast.rows.due import OwedDelivery, due_change, due_delete, due_failure, last_pull
from tagcast.rows.lane import Lane, generation_update
from tagcast.rows.message import MessageRow
from tagcast.tables import fitting

WAIT_S, INVISIBLE_S = 1, 120
"""A wait asks all servers of the queue; what a worker leaves behind comes to the next one soon."""


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
    """Settle one entry as cancelled, after the pulls that it had before this look."""
    ordinal, pulls = ordinal_of(queue.subscription_id), received.times - 1
    world, state = lease.world, EntryState.CANCELLED
    entry = Entry(state)
    if pulls:
        look = partial(stored.pulled, world.store, lease.task.topic, received.message_id)
        known = (await world.executor.run(look)).get(ordinal)
        entry = last_pull(known, pulls, world.clock.now()).ending(state)

    end = EntryEnd(lease.task.topic, received.message_id, ordinal, entry)
    came = await end_entry_beside(world.store, world.executor, end, lambda conflict: lease.wait(conflict.times))
    if isinstance(came, Conflict):
        raise came.error


TOGETHER_MAX = 33
"""At most 33 messages end in a transaction, because it has 100 writes: three for each message and one for the lane."""
MARKED_AFTER = 3
"""After 3 conflicts the end that a push brought is kept in the due row."""


class Retried(Enum):
    """What came of attempts on the front of a backlog."""

    WRITTEN = auto()
    """Whatever was attempted has ended; more may stand behind it."""
    PLANNED = auto()
    """The head failed, and its next attempt is planned."""
    OVERTAKEN = auto()
    """They were made, but a condition of what was to be written of them was lost."""


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


@dataclass(frozen=True, slots=True)
class _Owed:
    """A delivery that is still owed, and its message as it was read."""

    due: OwedDelivery
    row: MessageRow


async def retry(
    lease: LaneLease, subscription: Subscription, dues: Sequence[OwedDelivery], streak: Streak
) -> tuple[Retried, Streak]:
    """Attempt *dues* under a claim that lasts, and say how the receiver does; what is not owed any more is dropped."""
    world = lease.world
    await _renew_for_attempt(lease, subscription)
    owed = await _still_owed(lease, dues)
    if not owed:
        return Retried.WRITTEN, replace(streak, answering=False)
    async with PushSlots(world.clock) as slots:
        run = _run(lease, subscription, list(owed.values()), streak, slots)
        result = await attempt_run(world, run)
    head = next(iter(owed.values())).due
    if result.held is not None and result.is_empty:
        await lease.reschedule(result.held.until, *_reason(head, result.held))
        await run.circuit.tell()
        return Retried.PLANNED, streak
    came = await _Outcomes(lease, subscription, owed, result).write()
    await run.circuit.tell()
    return came, _streak_after(streak, result)


def _run(lease: LaneLease, subscription: Subscription, owed: Sequence[_Owed], streak: Streak, slots: PushSlots) -> Run:
    """Return the run of what is owed.

    It asks the circuit if the head got no answer the last time or was kept from an attempt by the circuit, or if the
    head before it failed under this claim. No other lane asks.
    """
    circuit, head = CircuitCheck(lease.world, subscription), owed[0].due
    if is_in_doubt := _is_in_doubt(head):
        circuit.doubt()
    return Run(
        subscription,
        [(each.row.message, each.due.attempts) for each in owed],
        slots,
        _seconds(lease, subscription),
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


async def _renew_for_attempt(lease: LaneLease, subscription: Subscription) -> None:
    """Prolong the claim if it might end before an attempt does."""
    attempt_s = subscription.settings.timeout_s + judging_s(subscription) + 1
    if lease.held_until - lease.world.clock.now() < attempt_s * 1000:
        await lease.acquire(subscription.settings.timeout_s)


def _seconds(lease: LaneLease, subscription: Subscription) -> float:
    """Return for how long attempts may start: they end before this claim does, and none starts after the budget."""
    claim_s = (lease.held_until - lease.world.clock.now()) / 1000
    return min(lease.left_s(), claim_s - subscription.settings.timeout_s - judging_s(subscription) - 1)


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


def _streak_after(streak: Streak, result: RunResult) -> Streak:
    got_through = len(result.enqueued)
    got_through += sum(entry.state is EntryState.DELIVERED for entry in result.ended.values())
    return Streak(bool(got_through) or not result.ended, streak.answered or bool(got_through), got_through)


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

    async def write(self) -> Retried:
        """Write what came of the attempts, ends before failures."""
        try:
            together = await self._write_together()
            standing = await self._write_ends(self.result.ended.keys() - together)
            await self._write_unattempted()
            await self._write_failures()
            for due in standing:
                if due.ended is not None:
                    await end(self.lease, due, due.ending(due.ended), patient=True)
            if not self.result.failures and any(due.ended is None for due in standing):
                await self.lease.reschedule(self.lease.end_at())
                return Retried.PLANNED
        except ConditionLostError:
            return Retried.OVERTAKEN
        finally:
            if self.unwritten:  # Whoever comes next makes these attempts once more.
                self.lease.world.telemetry.count("OutcomesLost", len(self.unwritten))
        return Retried.PLANNED if self.result.failures else Retried.WRITTEN

    async def _write_together(self) -> set[str]:
        """Write the ends of a batch, several at once where nobody is in the way; return of which that was done."""
        if self.subscription.settings.batching is None or len(self.result.ended) < 2:
            return set()
        ends = [(self.owed[each], entry) for each, entry in self.result.ended.items()]
        done = await end_several(self.lease, [(one.due, one.due.as_last_seen(entry), one.row) for one, entry in ends])
        self.unwritten -= done
        return done

    async def _write_ends(self, message_ids: Collection[str]) -> list[OwedDelivery]:
        """Write ends one by one; return the due rows that stay, because others kept writing their messages.

        Some are marked with their end. The budget is over for the others: the next worker decides anew how they end.
        """
        standing: list[OwedDelivery] = []
        for message_id, entry in self.result.ended.items():
            if message_id not in message_ids:
                continue
            due, row = self.owed[message_id].due, self.owed[message_id].row
            left = await end(self.lease, due, due.as_last_seen(entry), patient=False, known=row)
            if left is None or left.ended:
                self.unwritten.discard(message_id)
            if left is not None:
                standing.append(left)
        return standing

    async def _write_unattempted(self) -> None:
        """Write what was enqueued for a group, and the verdicts on deliveries that were not started."""
        result = self.result
        for message_id, each in self.owed.items():
            if message_id in result.enqueued:
                await end(self.lease, each.due, Entry(EntryState.PENDING), patient=True, known=each.row)
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
        await self.lease.write(due_failure(due, failure.past, failure.not_before), lane)
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


async def end(
    lease: LaneLease, due: OwedDelivery, entry: Entry, *, patient: bool, known: MessageRow | None = None
) -> OwedDelivery | None:
    """Bring a delivery to its end and remove its due row in one transaction; return None when done.

    *known* is its message as it was read. One that is pending was enqueued for its group.

    A thousand lanes may want to write the same message. Each waits longer after every conflict. After some it keeps
    what a push brought in its own due row, which nobody else writes, so that no push is repeated for that. It returns
    that row then, or goes on as long as the budget lasts if it is *patient*.
    """
    world, topic, conflicts = lease.world, lease.task.topic, 0
    while True:  # It ends: with the budget, if nothing else ends it.
        this = EntryEnd.of_due(topic, due, entry, lease.check())
        came = await end_entry_beside(world.store, world.executor, this, known=known)
        if not isinstance(came, Conflict):
            return None
        known, conflicts = None, conflicts + 1
        if not isinstance(came.error, ContendedError):
            await lease.verify()
        if conflicts >= MARKED_AFTER:
            if due.ended is None and entry.attempts > due.attempts:
                due = await _marked(lease, due, entry)
            if due.ended and not patient:
                return due
            await lease.renew(window_s(conflicts, came.all_s))
        if not await lease.wait(conflicts, came.all_s):
            return due


async def _marked(lease: LaneLease, due: OwedDelivery, entry: Entry) -> OwedDelivery:
    """Keep the end that a push brought in the due row; return the row as it stands now."""
    marked = due.marked(entry)
    try:
        await lease.write(due_change(due, marked), lease.check())
    except ConditionLostError:
        await lease.verify()
        return due
    return marked


async def end_several(lease: LaneLease, ends: Sequence[tuple[OwedDelivery, Entry, MessageRow]]) -> set[str]:
    """Bring deliveries of messages that were just read to their ends, as many in a transaction as it takes.

    Returns the messages of which that was done; the others have to end one by one, as wide ones always do.
    """
    world, topic, done = lease.world, lease.task.topic, set[str]()
    narrow = [each for each in ends if each[2].section is None]
    for some in fitting(narrow, TOGETHER_MAX, TOGETHER_BYTES_MAX, lambda each: size_of(each[2])):
        together = [(EntryEnd.of_due(topic, due, entry), row) for due, entry, row in some]
        if await end_together(world.store, world.executor, together, lease.check()):
            done |= {due.message_id for due, _, _ in some}
    return done


async def cancel(lease: LaneLease, dues: Sequence[OwedDelivery]) -> None:
    """End deliveries without another push: nobody is subscribed any more, or an earlier push ended them.

    Hundreds of lanes that owe the same messages may be removed at once. Many end in a transaction; if others kept all
    of them out, one ends alone. The rest comes with the next look.
    """
    world, ordinal = lease.world, ordinal_of(lease.task.subscription_id)
    first = {due.message_id: due for due in reversed(dues)}
    read = partial(stored.entries, world.store, lease.task.topic, tuple(first), ordinal)
    rows = await world.executor.run(read) if len(first) > 1 else {}
    together = [
        (due, due.ending(EntryState.CANCELLED), rows[each])
        for each, due in first.items()
        if each in rows and rows[each].section is None and rows[each].map.is_with_lane(ordinal)
    ]
    done = await end_several(lease, together)
    kept = {id(due) for due, _, _ in together}
    alone = [due for due in dues if id(due) not in kept]
    for due in alone if alone or done else dues[:1]:
        await end(lease, due, due.ending(EntryState.CANCELLED), patient=True)


SHORT_WAIT_S = 10.0
CANCELLED_AT_ONCE = 99
"""At most 99 deliveries of a removed subscription are looked at together, because one request reads their messages."""
ROUNDS_MAX = 1_500
"""A round of the workflow writes about ten history events; 25,000 are the limit of an execution."""


async def redeliver(world: World, task: Task, budget_s: float) -> Answer:
    """Attempt what the lane owes and is due, for at most about *budget_s* seconds, and say when to come back.

    A worker of another generation or claim writes nothing. Waits under ten seconds happen in here.
    """
    lease = LaneLease(world, task, world.clock.monotonic() + budget_s)
    wait_until = await _work(lease)
    if wait_until is None:
        return Answer(task)
    if task.rounds >= ROUNDS_MAX:
        await world.executor.run(partial(continue_as_new, world, task))
        return Answer(task)
    return Answer(replace(task, rounds=task.rounds + 1), wait_until)


class _Drained(Enum):
    """How a look into the backlog under one claim ends."""

    DONE = auto()
    """The lane is empty, or a tombstone: nobody has to come back."""
    WAITING = auto()
    """Its next attempt is planned."""
    GOING_ON = auto()
    """There is more to do under this claim."""
    OVERTAKEN = auto()
    """Somebody else wrote what this claim was about to write."""


_AFTER = {
    Retried.WRITTEN: _Drained.GOING_ON,
    Retried.PLANNED: _Drained.WAITING,
    Retried.OVERTAKEN: _Drained.OVERTAKEN,
}


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
            if wait_s >= SHORT_WAIT_S or wait_s >= lease.left_s():
                return due_at
            await world.clock.pause(wait_s)
            continue
        if lease.left_s() <= 0 or (lost and not await lease.wait(lost)):
            return world.clock.now()
        try:
            if await _drain(lease) is _Drained.DONE:
                return None
        except ConditionLostError:
            lost += 1
        except StaleWorkerError:
            continue


async def _drain(lease: LaneLease) -> _Drained:
    """Work through the backlog under one claim."""
    subscription = await _subscription(lease)
    await lease.acquire(0 if subscription is None else subscription.settings.timeout_s)
    streak, lost = Streak(), 0
    while lease.left_s() > 0:
        try:
            drained, streak = await _step(lease, subscription, streak)
        except ConditionLostError:
            drained = _Drained.OVERTAKEN
        if drained is _Drained.OVERTAKEN:
            await lease.verify()
            lost += 1
            await lease.wait(lost)
        elif drained is _Drained.GOING_ON:
            lost = 0
        else:
            return drained
    await lease.reschedule(lease.world.clock.now())
    return _Drained.WAITING


async def _step(lease: LaneLease, subscription: Subscription | None, streak: Streak) -> tuple[_Drained, Streak]:
    """Serve what stands first: look, plan, carry out."""
    lane = lease.seen
    if lane and lane.filling and not lane.filling.is_over and lane.state is not LaneState.REMOVED:
        return await _fill(lease), streak
    appended = await lease.verify()
    dues = await _front(lease, subscription, streak)
    if subscription is not None and not judging_s(subscription) and any(due.unjudged for due in dues):
        subscription = await _subscription(lease)  # It was given a filter function since this claim.
    match next_step(lease.world, lease.lane, subscription, dues, streak):
        case Activate():
            if not await empty_queue(lease):
                return _Drained.GOING_ON, streak
            await lease.finish(appended)
            return _Drained.DONE, streak
        case EndUnpushed(ending):
            await cancel(lease, ending)
            return _Drained.GOING_ON, streak
        case Wait(until, message_id):
            await lease.write(lease.move(lease.planned(until, message_id)))
            return _Drained.WAITING, streak
        case Attempt(receiver, attempted):
            came, streak = await retry(lease, receiver, attempted, streak)
            return _AFTER[came], streak


async def _fill(lease: LaneLease) -> _Drained:
    """Add a part of what was kept when the group was made, by the filter that it has now."""
    group = await _subscription(lease)
    if group is None:
        raise StaleWorkerError
    begins_at = await fill(lease, group)
    if begins_at is None:
        return _Drained.GOING_ON
    await lease.reschedule(begins_at)
    return _Drained.WAITING


async def _subscription(lease: LaneLease) -> Subscription | None:
    """Return the subscription of the lane as it is now; None when it is gone, even if another has its name."""
    sid = lease.task.subscription_id
    try:
        found = await lease.world.executor.run(partial(subscription_at, lease.world, lease.task.topic, ordinal_of(sid)))
    except NotFoundError:
        return None
    return found if found is not None and found.subscription_id == sid else None


async def _front(lease: LaneLease, subscription: Subscription | None, streak: Streak) -> list[OwedDelivery]:
    """Return the head alone, or a window of the backlog once the receiver answered well, or is gone."""
    window = CANCELLED_AT_ONCE if subscription is None else 1
    if subscription is not None and streak.answered:
        window = subscription.settings.drained_at_once(streak.got_through)
    read = partial(stored.dues, lease.world.store, lease.task.subscription_id, limit=window)
    dues = await lease.world.executor.run(read)
    return dues if subscription is None else front(dues, lease.world.clock.now())


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


@dataclass(frozen=True, slots=True)
class Activate:
    """Nothing is owed: the lane becomes active, or its tombstone is left alone."""


@dataclass(frozen=True, slots=True)
class EndUnpushed:
    """These end without another push: nobody is subscribed any more, or an earlier push ended them."""

    dues: Sequence[OwedDelivery]


@dataclass(frozen=True, slots=True)
class Wait:
    """The head failed before, and is due at *until*: by its schedule, or because its receiver asked for that."""

    until: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """These are attempted for *subscription*, the head first."""

    subscription: Subscription
    dues: Sequence[OwedDelivery]


def front(dues: Sequence[OwedDelivery], now: int) -> list[OwedDelivery]:
    """Return what of the beginning of a backlog may be in flight together: a head that failed before is alone.

    A message stands in it once, where it stands first. It ends before what its receiver does not want yet.
    """
    if dues and dues[0].attempts:
        return list(dues[:1])
    wanted = list(takewhile(lambda due: now >= (due.not_before or 0), dues))
    return list({due.message_id: due for due in reversed(wanted)}.values())[::-1]


def next_step(
    world: World, lane: Lane, subscription: Subscription | None, dues: Sequence[OwedDelivery], streak: Streak
) -> Activate | EndUnpushed | Wait | Attempt:
    """Return what to do with *dues*, the front of the backlog of *lane* (None: nobody is subscribed any more)."""
    if not dues:
        return Activate()
    if subscription is None or lane.state is LaneState.REMOVED:
        return EndUnpushed(dues)
    ended = [due for due in dues if due.ended]
    if ended:
        return EndUnpushed(ended)
    head, now = dues[0], world.clock.now()
    if now < (not_before := min(head.not_before or 0, head.expires_at)):
        return Wait(not_before, head.message_id)
    is_its_turn = streak.answered or lane.planned_for in (None, head.message_id)
    if head.attempts and not (streak.answering and is_its_turn):
        due_at = min(planned_at(world, subscription, head.attempts, head.last_attempt_at or 0), head.expires_at)
        if now < due_at:
            return Wait(due_at, head.message_id)
    return Attempt(subscription, dues)
