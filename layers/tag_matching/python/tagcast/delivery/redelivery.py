"""Redelivery of a lane under a lease (docs/protocol.md): attempts its head, drains its backlog, activates it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tagcast.delivery.cancelling import CANCELLED_AT_ONCE, cancel, empty_queue
from tagcast.delivery.filling import fill
from tagcast.delivery.lane_run import Streak, attempt_dues
from tagcast.delivery.lease import Drained, LaneLease, StaleWorkerError, Task, continue_as_new, read_lane
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.filters.function_filter import judging_s
from tagcast.model import LaneState, Subscription
from tagcast.ports import World
from tagcast.pushing.engine import planned_at
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.retry_delay import is_retry_now, retry_at
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PendingDelivery, due_reschedule
from tagcast.rows.lane import Lane

ROUNDS_MAX = 1_500
"""The maximum rounds of an execution. A round writes about ten history events; AWS allows 25,000 per execution."""
SETTINGS_S = 5.0
"""A worker with a backlog reads its subscription again after 5 s."""
RETRY_NOW_PAGE = 100
"""A worker reads 100 rows of a backlog at once when it looks for deliveries of a *retry now*."""
LOST_ROWS_S = 60
"""A lane waits a minute if its subscription is absent but was not deleted. The rows may be restored meanwhile."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step of the workflow: call the function with *task* at *wait_until*, or end if *wait_until* is None."""

    task: Task
    wait_until: int | None = None


async def redeliver(world: World, task: Task, budget_s: float, slots: PushSlots) -> NextStep:
    """Attempt the due deliveries of the task's lane, for about *budget_s* seconds, and return when to continue.

    After another worker took over the lane, this worker writes nothing. Short waits happen inside this function.
    """
    wait_until = await _work(world, task, slots, world.clock.monotonic() + budget_s)
    if wait_until is None:
        return NextStep(task)
    if task.rounds >= ROUNDS_MAX:
        await world.executor.run(continue_as_new, world, task)
        return NextStep(task)
    return NextStep(replace(task, rounds=task.rounds + 1), wait_until)


async def _work(world: World, task: Task, slots: PushSlots, deadline: float) -> int | None:
    """Work until a wait is needed, and return the end of this wait; None if the lane is done, asleep or taken over."""
    lost = 0
    while True:  # It ends: with the budget, if nothing else ends it.
        lane = await read_lane(world, task)
        if lane is None or lane.generation != task.generation or lane.state.is_asleep:
            return None
        lease = LaneLease(world, task, slots, deadline, lane)
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
    """Work through the backlog under one claim; return DONE or WAITING. Raises StaleWorkerError."""
    subscription = await lease.read_subscription()
    await lease.acquire(0 if subscription is None else subscription.settings.timeout_s)
    streak, lost, reads_again_s = Streak(), 0, -math.inf
    while (left_s := lease.left_s()) > 0:
        if left_s <= reads_again_s:
            subscription, reads_again_s = await lease.read_subscription(), -math.inf
        reads_again_s = max(reads_again_s, left_s - SETTINGS_S)
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
    """Serve the first deliveries of the backlog. Return the result, and the new *streak*."""
    if lease.lane.is_filling and lease.lane.state is not LaneState.REMOVED:
        return await fill(lease), streak
    appended = await lease.verify()
    dues = await _read_window(lease, subscription, streak)
    if not dues:
        emptied = Drained.DONE if lease.lane.queue is None else await empty_queue(lease, lease.lane.queue)
        if emptied is not Drained.DONE:
            return emptied, streak
        await lease.finish(appended)
        return Drained.DONE, streak
    if subscription is not None and any(due.unjudged for due in dues) and not judging_s(subscription):
        subscription = await lease.read_subscription()  # The subscription got a filter function after this claim.
    if lease.lane.state is LaneState.REMOVED:
        await cancel(lease, dues)
        return Drained.GOING_ON, streak
    if subscription is None:
        return await _wait_for_rows(lease), streak
    if lease.is_independent:
        return await _independent_step(lease, subscription, dues, appended, streak)
    due_at = head_due_at(lease.world, lease.lane, subscription, dues[0], streak)
    if due_at is not None:
        await lease.write(lease.plan(due_at, dues[0].message_id))
        return Drained.WAITING, streak
    return await attempt_dues(lease, subscription, dues, streak)


async def _wait_for_rows(lease: LaneLease) -> Drained:
    """Make a lane wait whose subscription has no rows. Raises StaleWorkerError if the subscription was deleted."""
    world = lease.world
    await lease.verify()
    world.telemetry.record_failure("a lane", NotFoundError("subscription", lease.task.subscription_id))
    await lease.reschedule(world.clock.now() + round(LOST_ROWS_S * 1000 / world.time_scale))
    return Drained.WAITING


async def _independent_step(
    lease: LaneLease, subscription: Subscription, dues: Sequence[PendingDelivery], appended: int, streak: Streak
) -> tuple[Drained, Streak]:
    """Attempt the deliveries in *dues* that are due now. If none is due, plan the next attempt.

    If the schedule changed, some deliveries are due later than planned. These first move to positions after the
    deliveries due earlier. The plan's write fails if messages joined since the read, because they may be due earlier.
    Contact stays lost until the receiver accepts or refuses a message.
    """
    world, lane = lease.world, lease.lane
    at = [retry_at(subscription.settings.retry, due, lane.retry_all_at or 0, world.time_scale) for due in dues]
    now = world.clock.now()
    pending = [due for due, instant in zip(dues, at, strict=True) if instant <= now]
    if pending:
        return await attempt_dues(lease, subscription, pending, streak)
    moves = [(due, due.reschedule(instant)) for due, instant in zip(dues, at, strict=True)]
    if late := [(due, moved) for due, moved in moves if due.position < moved.position]:
        for due, moved in late:
            await lease.write(*due_reschedule(due, moved), lease.check())
        return Drained.GOING_ON, streak
    is_lost = lane.state is LaneState.LOST_CONTACT and not streak.in_contact
    state = LaneState.LOST_CONTACT if is_lost else LaneState.RETRYING
    await lease.write(lane_transitions.wait(replace(lane, appended=appended), min(at), state))
    return Drained.WAITING, streak


async def _read_window(lease: LaneLease, subscription: Subscription | None, streak: Streak) -> list[PendingDelivery]:
    """Return the head alone, or a window of the backlog if the receiver answered well or the subscription was deleted.

    Independent deliveries get a window before the first answer, because a run ends when the receiver stops answering.
    This does not hold while contact is lost. After a *retry now*, deliveries without an attempt since then come first.
    """
    window = CANCELLED_AT_ONCE if subscription is None else 1
    is_answering = streak.answered or (lease.is_independent and lease.lane.state is not LaneState.LOST_CONTACT)
    if subscription is not None and is_answering:
        window = subscription.settings.drained_at_once(streak.got_through)
    if subscription is not None and lease.is_independent and (retried := await _retry_now(lease)):
        return retried[:window]
    dues = await lease.world.executor.run(stored.dues, lease.world.store, lease.task.subscription_id, limit=window)
    if lease.is_independent:
        return _once_each(dues)
    return dues if subscription is None else front(dues, lease.world.clock.now())


async def _retry_now(lease: LaneLease) -> list[PendingDelivery]:
    """Return the next deliveries that a *retry now* made due, wherever they are in the backlog.

    No such delivery is before the lease's *retry_now_after*. If none is left, the next plan ends the *retry now*.
    """
    world, sid = lease.world, lease.task.subscription_id
    while (retry_all_at := lease.lane.retry_all_at) is not None and lease.left_s() > 0:
        await lease.renew(lease.attempt_s)
        page = await world.executor.run(
            stored.dues, world.store, sid, after=lease.retry_now_after, limit=RETRY_NOW_PAGE
        )
        if retried := _once_each([due for due in page if is_retry_now(due, retry_all_at)]):
            return retried
        if page:
            lease.retry_now_after = page[-1].place
        else:
            lease.lane = replace(lease.lane, retry_all_at=None)
    return []


def front(dues: Sequence[PendingDelivery], now: int) -> list[PendingDelivery]:
    """Return the deliveries at the front of the backlog that may be in flight together.

    A head that failed before is returned alone. A message that is in the backlog twice is returned once. The front ends
    before a delivery that must wait for a Retry-After or for a push in flight. The head is always returned.
    """
    if dues and dues[0].attempts:
        return list(dues[:1])
    wanted = list(takewhile(lambda due: now >= (due.not_before or 0), dues))
    return _once_each(wanted or dues[:1])


def _once_each(dues: Sequence[PendingDelivery]) -> list[PendingDelivery]:
    return list({due.message_id: due for due in reversed(dues)}.values())[::-1]


def head_due_at(
    world: World, lane: Lane, subscription: Subscription, head: PendingDelivery, streak: Streak
) -> int | None:
    """Return when the head may be attempted, by its schedule or its Retry-After; None if it may be attempted now."""
    now = world.clock.now()
    is_retried_now = (head.last_attempt_at or 0) < (lane.retry_all_at or 0)
    if not is_retried_now and now < (not_before := min(head.not_before or 0, head.expires_at)):
        return not_before
    is_its_turn = streak.answered or lane.planned_for in (None, head.message_id)
    if head.attempts and not (streak.answering and is_its_turn):
        due_at = min(planned_at(world, subscription, head.attempts, head.last_attempt_at or 0), head.expires_at)
        return due_at if now < due_at else None
    return None
