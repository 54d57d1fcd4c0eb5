"""Attempts the front of a backlog in a run, and writes the results (docs/protocol.md, Redelivery, 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.dead_letter import publish_dead_letter_after_run
from tagcast.delivery.ending import slices_of
from tagcast.delivery.lease import ENDED_AT_ONCE, Drained, LaneLease, StaleWorkerError, continue_as_new
from tagcast.errors import ConditionLostError, ContendedError
from tagcast.filters.function_filter import FILTER_ERROR
from tagcast.ids import ordinal_of
from tagcast.model import LaneState, Subscription
from tagcast.ports import Write
from tagcast.pushing.circuit import CIRCUIT, NEW_UNTIL_CLAIM, CircuitCheck
from tagcast.pushing.engine import (
    Failure,
    Hold,
    Run,
    RunResult,
    attempt_run,
    independent_state_after,
    lane_state_after,
    planned_at,
)
from tagcast.pushing.rate_limit import RATE
from tagcast.pushing.retry_delay import probe_delay_s
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PendingDelivery, due_change, due_delete, due_delete_as_read, due_reschedule
from tagcast.rows.host import host_of
from tagcast.rows.message import MessageRow
from tagcast.rows.message_transitions import enqueued_put


@dataclass(frozen=True, slots=True)
class Streak:
    """The successes and failures of the pushes since the worker claimed the lane.

    - *answering*: False if the last run ended deliveries but no push succeeded, or if it found only stale due rows.
      Then a head that failed before waits for its own next attempt. Such a head also waits if the lane's next attempt
      was planned for another message.
    - *answered*: True after a push succeeded. Until then, only the head is attempted.
    - *got_through*: the number of successes in the last run.
    - *in_contact*: True after the receiver accepted a message, or after a failure that concerns only one message.
    """

    answering: bool = True
    answered: bool = False
    got_through: int = 0
    in_contact: bool = False


@dataclass(frozen=True, slots=True)
class _Pending:
    """A pending delivery, and its message as read."""

    due: PendingDelivery
    row: MessageRow


async def attempt_dues(
    lease: LaneLease, subscription: Subscription, dues: Sequence[PendingDelivery], streak: Streak
) -> tuple[Drained, Streak]:
    """Attempt the pending deliveries among *dues* under the current claim. Return the result, and the new *streak*.

    Due rows that are stale are not attempted.
    """
    world = lease.world
    if lease.held_until - world.clock.now() < lease.attempt_s * 1000:
        await lease.acquire(subscription.settings.timeout_s)
    elif not lease.is_independent and (dues[0].last_attempt_at or 0) > lease.claimed_at:
        await lease.verify()  # Another worker attempted the head under a later claim.
    pending = await _read_pending(lease, dues)
    if not pending:
        return Drained.GOING_ON, replace(streak, answering=False)
    run = _run(lease, subscription, list(pending.values()), streak)
    result = await attempt_run(world, run)
    head = next(iter(pending.values())).due
    if result.held is not None and result.is_empty:
        await lease.reschedule(result.held.until, *_reason(head, result.held))
        if run.circuit.has_news:
            await run.circuit.record()
        return Drained.WAITING, streak
    drained = await _Outcomes(lease, subscription, pending, result).write()
    if run.circuit.has_news:
        await run.circuit.record()
    got_through = result.got_through
    answered = streak.answered or bool(got_through)
    refused = any(failure.outcome.refused for failure in result.failures.values())
    in_contact = streak.in_contact or answered or refused
    return drained, Streak(bool(got_through) or not result.ended, answered, got_through, in_contact)


def _run(lease: LaneLease, subscription: Subscription, pending: Sequence[_Pending], streak: Streak) -> Run:
    """Return the run of the *pending* deliveries. Its attempts end before the claim, and none starts after the budget.

    The run checks the circuit if the head's last attempt got no response, or if the circuit held the head. It also
    checks the circuit if the last run under this claim ended deliveries without a success. If deliveries are
    independent, it checks the circuit before the head's first attempt while contact is lost.
    """
    head = pending[0].due
    is_new = lease.lane.claim <= NEW_UNTIL_CLAIM
    circuit = CircuitCheck(lease.world, subscription, host_of(subscription.settings.endpoint), is_new)
    has_lost = lease.is_independent and lease.lane.state is LaneState.LOST_CONTACT
    if is_in_doubt := _is_in_doubt(head) or (has_lost and not streak.answered and not head.attempts):
        circuit.doubt()
    claim_s = (lease.held_until - lease.world.clock.now()) / 1000
    return Run(
        subscription,
        [(each.row.message, each.due.attempts) for each in pending],
        lease.slots,
        min(lease.left_s(), claim_s - lease.attempt_s),
        circuit,
        unjudged={each.due.message_id for each in pending if each.due.unjudged},
        answered=streak.answered,
        asks_circuit=is_in_doubt or not streak.answering,
        attempted_at=head.last_attempt_at,
        may_continue=lease.is_valid,
    )


def _is_in_doubt(due: PendingDelivery) -> bool:
    """Return whether a delivery waits for its circuit, or its last push got no HTTP response."""
    pushed = [past for past in due.history if past.outcome != FILTER_ERROR]
    return due.last_outcome == CIRCUIT or (bool(pushed) and pushed[-1].status is None)


def _reason(head: PendingDelivery, held: Hold) -> tuple[Write, ...]:
    """Return the write that records why *head* waits; none for a rate, or if the row of *head* has this reason."""
    if held.reason in (RATE, head.last_outcome):
        return ()
    return (due_change(head, replace(head, last_outcome=held.reason)),)


async def _read_pending(lease: LaneLease, dues: Sequence[PendingDelivery]) -> dict[str, _Pending]:
    """Return the *dues* that are still pending, with their messages, by message id; delete the stale ones."""
    rows: dict[str, MessageRow] = {}

    async def look(due: PendingDelivery) -> None:
        world, ordinal = lease.world, ordinal_of(due.subscription_id)
        row = await world.executor.run(stored.message_with, world.store, lease.task.topic, due.message_id, ordinal)
        if row is None or not row.map.is_with_lane(ordinal):
            await lease.write(due_delete(due))
        else:
            rows[due.message_id] = row

    if len(dues) == 1:
        await look(dues[0])
    elif faults := await side_by_side([look(due) for due in dues]):
        raise faults[0]
    return {due.message_id: _Pending(due, rows[due.message_id]) for due in dues if due.message_id in rows}


@dataclass(slots=True)
class _Outcomes:
    """The results of a run to write. *unwritten* are the ids of messages with an attempt that no row records yet."""

    lease: LaneLease
    subscription: Subscription
    pending: Mapping[str, _Pending]
    result: RunResult
    unwritten: set[str] = field(init=False)

    def __post_init__(self) -> None:
        ended = self.result.ended.items()
        attempted = {each for each, entry in ended if entry.attempts > self.pending[each].due.attempts}
        self.unwritten = attempted | self.result.failures.keys()

    async def write(self) -> Drained:
        """Write the results of the attempts: first the ends of deliveries, then the failures."""
        try:
            await self._publish_dead_letters()
            standing = await self._write_ends()
            await self._write_unattempted()
            goes_on = await self._write_failures()
            if standing and not self.result.failures:
                await self.lease.reschedule(self.lease.end_at())
                return Drained.WAITING
        except ConditionLostError:
            return Drained.OVERTAKEN
        finally:
            if self.unwritten:  # The next worker repeats these attempts.
                self.lease.world.telemetry.count("OutcomesLost", len(self.unwritten))
        return Drained.GOING_ON if goes_on else Drained.WAITING

    async def _publish_dead_letters(self) -> None:
        """Publish the dead letters of ended deliveries, before their ends are written."""
        if self.subscription.settings.dead_letter_topic is None:
            return
        messages = [each.row.message for each in self.pending.values()]
        ended = {each: self.pending[each].due.as_last_seen(entry) for each, entry in self.result.ended.items()}
        await publish_dead_letter_after_run(self.lease.world, self.subscription, messages, ended)

    async def _write_ends(self) -> bool:
        """Write ends: several in one transaction if the subscription has batches, otherwise one by one.

        Return whether some deliveries stay in the backlog, because other writers were faster until the budget ended.
        """
        named = [(self.pending[each], entry) for each, entry in self.result.ended.items()]
        ends = [(one.due, one.due.as_last_seen(entry), one.row) for one, entry in named]
        done = set[str]()
        if self.subscription.settings.batching is not None:
            for some in slices_of(ends, ENDED_AT_ONCE):
                if await self.lease.end_deliveries(some):
                    done |= {due.message_id for due, _, _ in some}
        self.unwritten -= done
        for due, entry, row in ends:
            if due.message_id in done:
                continue
            with suppress(ContendedError):  # The next worker repeats the attempt.
                await self.lease.end_delivery(due, entry, known=row)
                done.add(due.message_id)
                self.unwritten.discard(due.message_id)
        return len(done) < len(ends)

    async def _write_unattempted(self) -> None:
        """Write results without an attempt: deliveries in the group's queue, and verdicts on deliveries not started."""
        result, lease = self.result, self.lease
        for message_id, each in self.pending.items():
            if message_id in result.enqueued:
                handed = enqueued_put(each.row, ordinal_of(each.due.subscription_id))
                await lease.write(due_delete_as_read(each.due), lease.check(), handed)
        waiting = result.judged - result.ended.keys() - result.failures.keys() - result.enqueued
        for message_id, each in self.pending.items():
            if message_id in waiting:
                judged = replace(each.due, unjudged=False)
                await self.lease.write(due_change(judged, judged), self.lease.check())

    async def _write_failures(self) -> bool:
        """Write failed attempts to their due rows, the first one together with the lane. Return whether to go on."""
        failures, judged = self.result.failures, self.result.judged
        pending = [each.due for message_id, each in self.pending.items() if message_id in failures]
        failed = [replace(due, unjudged=due.unjudged and due.message_id not in judged) for due in pending]
        if self.lease.is_independent:
            return await self._move_failures(failed)
        for due in failed[1:]:
            await self._write_failure(due, failures[due.message_id], self.lease.check())
        for head in failed[:1]:
            failure = failures[head.message_id]
            await self._write_failure(head, failure, self._plan_retry(failure, head))
            self.lease.is_held = False
        return not failures

    async def _move_failures(self, failed: Sequence[PendingDelivery]) -> bool:
        """Give each failed delivery its own next attempt. Return False if contact is lost, or a 410 came; else True."""
        failures, lease = self.result.failures, self.lease
        state = independent_state_after(failures.values(), got_through=bool(self.result.got_through), has_more=False)
        stops = state in (LaneState.SUSPENDED, LaneState.LOST_CONTACT)
        for due in failed:
            failure = failures[due.message_id]
            moved = due.after_failure(failure.past, failure.not_before).reschedule(failure.next_attempt_at)
            is_last = stops and due is failed[-1]
            await lease.write(*due_reschedule(due, moved), self._plan_stop(state, due) if is_last else lease.check())
            self.unwritten.discard(due.message_id)
        if stops:
            lease.is_held = False
        return not stops

    def _plan_stop(self, state: LaneState, due: PendingDelivery) -> Write:
        """Return the write of a lane that stops: it is suspended after a 410, or waits for the next probe.

        If the service could attempt no delivery, the lane waits as long as the deliveries do.
        """
        world, lane, failures = self.lease.world, self.lease.lane, self.result.failures.values()
        now = world.clock.now()
        if state is LaneState.SUSPENDED:
            generation, due_at = world.dice.unique_id(now), max(failure.next_attempt_at for failure in failures)
            return lane_transitions.suspend(lane, generation, due_at, due.message_id, now)
        attempts_before = {each: self.pending[each].due.attempts for each in self.result.failures}
        if all(failure.past.number == attempts_before[each] for each, failure in self.result.failures.items()):
            return lane_transitions.wait_for_contact(lane, max(each.next_attempt_at for each in failures), now)
        since = lane.lost_since if lane.state is LaneState.LOST_CONTACT else None
        lost_s = (now - (since or now)) / 1000 * world.time_scale
        wait_s = probe_delay_s(self.subscription.settings.retry, lost_s) / world.time_scale
        instants = [failure.not_before or 0 for failure in failures]
        return lane_transitions.wait_for_contact(lane, max(now + round(wait_s * 1000), *instants), now)

    async def _write_failure(self, due: PendingDelivery, failure: Failure, lane: Write) -> None:
        await self.lease.write(due_change(due, due.after_failure(failure.past, failure.not_before)), lane)
        self.unwritten.discard(due.message_id)

    def _plan_retry(self, failure: Failure, head: PendingDelivery) -> Write:
        """Return the write of the lane after its head failed: it plans the next attempt, or suspends after a 410."""
        lease, state = self.lease, lane_state_after(self.subscription, self.result.failures.values())
        plan = partial(lane_transitions.plan, lease.lane, failure.next_attempt_at, head.message_id)
        if state is not LaneState.SUSPENDED:
            return plan(state)
        now = lease.world.clock.now()
        generation = lease.world.dice.unique_id(now)
        return lane_transitions.suspend(lease.lane, generation, failure.next_attempt_at, head.message_id, now)


async def write_late(
    lease: LaneLease, subscription: Subscription, dues: Sequence[PendingDelivery], result: RunResult
) -> None:
    """Write the late results of the pushes of *dues*. Then activate the lane, or start an execution for its backlog.

    The batch did not wait for these results. If another worker has claimed the lane meanwhile, that worker decides, and
    this function writes no more.
    """
    world = lease.world
    try:
        pending = await _read_pending(lease, dues)
        result.ended = {each: entry for each, entry in result.ended.items() if each in pending}
        result.failures = {each: failure for each, failure in result.failures.items() if each in pending}
        drained = await _Outcomes(lease, subscription, pending, result).write()
        if drained is Drained.OVERTAKEN:
            await lease.verify()
        if drained is not Drained.WAITING and not lease.lane.state.is_asleep:
            if await _activate_if_empty(lease):
                return
            await lease.write(_plan_behind(lease, subscription, dues, result))
    except (ConditionLostError, StaleWorkerError):
        return
    await world.executor.run(continue_as_new, world, lease.task)


async def _activate_if_empty(lease: LaneLease) -> bool:
    """Activate the lane if its backlog is empty. Return False if deliveries are left, or if a batch joins meanwhile."""
    appended = await lease.verify()
    if await lease.world.executor.run(stored.dues, lease.world.store, lease.task.subscription_id, limit=1):
        return False
    with suppress(ConditionLostError):
        await lease.finish(appended)
        return True
    return False


def _plan_behind(
    lease: LaneLease, subscription: Subscription, dues: Sequence[PendingDelivery], result: RunResult
) -> Write:
    """Return the lane's write after late successes: it plans the attempt of a failed delivery, or of the next delivery.

    A delivery that failed before the batch continued without the run keeps its own schedule.
    """
    now = lease.world.clock.now()
    failed = next((due for due in dues if due.attempts and due.message_id not in result.ended), None)
    if failed is None:
        return lease.plan(now if result.held is None else max(now, result.held.until), dues[0].message_id)
    due_at = planned_at(lease.world, subscription, failed.attempts, failed.last_attempt_at or now)
    return lease.plan(max(now, due_at, failed.not_before or 0), failed.message_id)
