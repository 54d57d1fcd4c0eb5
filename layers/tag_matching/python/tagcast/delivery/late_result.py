"""Writes late results under INDEPENDENT_RETRY, i.e. results of pushes for which the batch did not wait.

No worker claims the lane. Until the response arrives, other workers do not attempt the delivery, because its due time
is later. See docs/protocol.md, The first round, 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.delivery.ending import end_due
from tagcast.errors import ConditionLostError
from tagcast.model import LaneState, Subscription
from tagcast.ports import World, Write
from tagcast.pushing.engine import Failure, RunResult, independent_state_after
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PendingDelivery, due_reschedule
from tagcast.rows.lane import Lane


async def write_late_result(
    world: World, subscription: Subscription, dues: Sequence[PendingDelivery], result: RunResult, *, got_through: bool
) -> None:
    """Write the results of pushes of *dues* for which the batch did not wait, and let the lane continue.

    Deliveries that another worker attempted or ended since are skipped. *got_through*: a push of this run succeeded.
    """
    for due in dues:
        if due.message_id in result.ended:
            entry = due.as_last_seen(result.ended[due.message_id])
            end = partial(end_due, world.store, subscription.topic, due, entry)
            await _until_written(world, end)
    failed = [due for due in dues if due.message_id in result.failures]
    for due in failed:
        await _move(world, subscription, due, result.failures[due.message_id], got_through=got_through)
    held = [due for due in dues if due.not_before and not due.attempts]
    freed = [due for due in held if due.message_id not in result.ended and due.message_id not in result.failures]
    for due in freed:
        await _free(world, subscription, due, is_judged=due.message_id in result.judged)
    if freed or not failed:
        await _go_on(world, subscription, got_through=got_through)


async def _until_written(world: World, write: Callable[[], object]) -> None:
    """Retry a write on conflicts. If the last try fails, the next worker repeats the attempt."""
    for lost in range(1, TRIES_MAX + 1):
        try:
            await world.executor.run(write)
        except ConditionLostError:
            await world.clock.pause(pause_s(world, lost))
        else:
            return
    world.telemetry.count("OutcomesLost", 1)


async def _move(
    world: World, subscription: Subscription, due: PendingDelivery, failure: Failure, *, got_through: bool
) -> None:
    """Give a failed delivery its own next attempt."""
    moved = due.failed(failure.past, failure.not_before).planned(failure.next_attempt_at)
    state = independent_state_after((failure,), got_through=got_through, has_more=False)
    plan = partial(_plan_lane, world, due, state, failure.next_attempt_at)
    await _until_written(world, partial(_write_beside, world, subscription, due_reschedule(due, moved), plan))


async def _free(world: World, subscription: Subscription, due: PendingDelivery, *, is_judged: bool) -> None:
    """Let other workers attempt a delivery that was in flight and got no result of its own."""
    now = world.clock.now()
    free = replace(due, not_before=None, unjudged=due.unjudged and not is_judged).planned(now)
    writes = due_reschedule(due, free)
    await _until_written(world, partial(_write_beside, world, subscription, writes, partial(_keep_plan, due)))


def _keep_plan(due: PendingDelivery, lane: Lane) -> tuple[Write, None]:
    """Return the lane's write if *due* moves within its backlog. The lane's next attempt stays as planned."""
    return lane_transitions.join(lane, (), due.expires_at), None


async def _go_on(world: World, subscription: Subscription, *, got_through: bool) -> None:
    """Let a lane that waited for responses continue."""
    now, after = world.clock.now(), LaneState.RETRYING if got_through else None
    await _until_written(
        world, partial(_write_beside, world, subscription, (), partial(_plan_lane, world, None, after, now))
    )


def _write_beside(
    world: World,
    subscription: Subscription,
    writes: Sequence[Write],
    plan: Callable[[Lane], tuple[Write, Lane | None]],
) -> None:
    """Execute *writes* with the planned write of the lane; start the lane's workflow if the lane is now due earlier."""
    lane = stored.lane(world.store, subscription.topic, subscription.subscription_id)
    if lane is None or lane.state is LaneState.REMOVED:
        return
    write, sooner = plan(lane)
    world.store.transact((*writes, write))
    if sooner is not None and not sooner.state.is_asleep:
        world.workflow.start(sooner.topic, sooner.subscription_id, sooner.generation)


def _plan_lane(
    world: World, due: PendingDelivery | None, after: LaneState | None, due_at: int, lane: Lane
) -> tuple[Write, Lane | None]:
    """Return the lane's write, and the lane if it continues earlier.

    A lane keeps its plan if a worker has claimed it, or if contact is lost and the receiver did not answer now.
    """
    now, names = world.clock.now(), () if due is None else (due.message_id,)
    is_lost = lane.state is LaneState.LOST_CONTACT
    state = lane.state if after is None or (after is LaneState.RETRYING and not is_lost) else after
    is_answered = is_lost and state is not LaneState.LOST_CONTACT
    if lane.is_claimed or not (lane.state is LaneState.BLOCKED or lane.pushes_new or is_answered):
        expires_at = now if due is None else due.expires_at
        return lane_transitions.join(lane, names, expires_at), None
    if state is LaneState.BLOCKED:
        due_at = now
    elif state is LaneState.RETRYING:
        due_at = min(due_at, lane.next_attempt_at or 0)
    generation = world.dice.unique_id(now)
    planned, write = lane_transitions.join_before(lane, (), generation, state, due_at, now)
    return write, planned
