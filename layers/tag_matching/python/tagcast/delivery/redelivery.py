"""Redelivery of one lane: attempt its head when it is due, drain behind it, activate when empty.

See docs/architecture.md, Redelivery.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from functools import partial

from tagcast.delivery.backlog import Attempt, End, Leave, Streak, Wait, front, next_step
from tagcast.delivery.continuing import continue_as_new
from tagcast.delivery.emptying import empty_queue
from tagcast.delivery.filling import fill
from tagcast.delivery.lane_hold import LaneHold, StaleWorkerError
from tagcast.delivery.outcomes import Outcomes
from tagcast.delivery.retrying import Retried, retry
from tagcast.delivery.workflow_task import Answer, Task
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.ids import ordinal_of
from tagcast.model import LaneState, Subscription
from tagcast.ports import World
from tagcast.pushing.verdicts import judging_s
from tagcast.registry.directory import subscription_at
from tagcast.rows import stored
from tagcast.rows.due import OwedDelivery

SHORT_WAIT_S = 10.0
CANCELLED_AT_ONCE = 99
"""So many deliveries of a removed subscription are looked at together: one request reads their messages."""
ROUNDS_MAX = 1_500
"""A round of the workflow writes about ten history events; 25,000 are the limit of an execution."""


async def redeliver(world: World, task: Task, budget_s: float) -> Answer:
    """Attempt what the lane owes and is due, for at most about *budget_s* seconds, and say when to come back.

    A worker of another generation or claim writes nothing. Waits under ten seconds happen in here.
    """
    hold = LaneHold(world, task, world.clock.monotonic() + budget_s)
    wait_until = await _work(hold)
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


async def _work(hold: LaneHold) -> int | None:
    """Work until a wait is needed (return its end), the lane is done, or it belongs to somebody else (None)."""
    world, lost = hold.world, 0
    while True:  # It ends: with the budget, if nothing else ends it.
        hold.seen = lane = await hold.look()
        if lane is None or lane.generation != hold.task.generation:
            return None
        if lane.state.is_asleep:
            return None
        due_at = lane.next_attempt_at or 0
        wait_s = (due_at - world.clock.now()) / 1000
        if wait_s > 0:
            if wait_s >= SHORT_WAIT_S or wait_s >= hold.left_s():
                return due_at
            await world.clock.pause(wait_s)
            continue
        if hold.left_s() <= 0 or (lost and not await hold.wait(lost)):
            return world.clock.now()
        try:
            if await _drain(hold) is _Drained.DONE:
                return None
        except ConditionLostError:
            lost += 1
        except StaleWorkerError:
            continue


async def _drain(hold: LaneHold) -> _Drained:
    """Work through the backlog under one claim."""
    subscription = await _subscription(hold)
    await hold.claim(0 if subscription is None else subscription.settings.timeout_s)
    streak, lost = Streak(), 0
    while hold.left_s() > 0:
        try:
            drained, streak = await _step(hold, subscription, streak)
        except ConditionLostError:
            drained = _Drained.OVERTAKEN
        if drained is _Drained.OVERTAKEN:
            await hold.appended()
            lost += 1
            await hold.wait(lost)
        elif drained is _Drained.GOING_ON:
            lost = 0
        else:
            return drained
    await hold.release(hold.world.clock.now())
    return _Drained.WAITING


async def _step(hold: LaneHold, subscription: Subscription | None, streak: Streak) -> tuple[_Drained, Streak]:
    """Serve what stands first: look, plan, carry out."""
    lane = hold.seen
    if lane and lane.filling and not lane.filling.is_over and lane.state is not LaneState.REMOVED:
        return await _fill(hold), streak
    appended = await hold.appended()
    dues = await _front(hold, subscription, streak)
    if subscription is not None and not judging_s(subscription) and any(due.unjudged for due in dues):
        subscription = await _subscription(hold)  # It was given a filter function since this claim.
    match next_step(hold.world, hold.lane, subscription, dues, streak):
        case Leave():
            if not await empty_queue(hold):
                return _Drained.GOING_ON, streak
            await hold.finish(appended)
            return _Drained.DONE, streak
        case End(ending):
            await Outcomes(hold).cancel(ending)
            return _Drained.GOING_ON, streak
        case Wait(until, message_id):
            await hold.write(hold.move(hold.planned(until, message_id)))
            return _Drained.WAITING, streak
        case Attempt(receiver, attempted):
            came, streak = await retry(hold, receiver, attempted, streak)
            return _AFTER[came], streak


async def _fill(hold: LaneHold) -> _Drained:
    """Add a part of what was kept when the group was made, by the filter that it has now."""
    group = await _subscription(hold)
    if group is None:
        raise StaleWorkerError
    begins_at = await fill(hold, group)
    if begins_at is None:
        return _Drained.GOING_ON
    await hold.release(begins_at)
    return _Drained.WAITING


async def _subscription(hold: LaneHold) -> Subscription | None:
    """Return the subscription of the lane as it is now; None when it is gone, even if another has its name."""
    sid = hold.task.subscription_id
    try:
        found = await hold.world.executor.run(partial(subscription_at, hold.world, hold.task.topic, ordinal_of(sid)))
    except NotFoundError:
        return None
    return found if found is not None and found.subscription_id == sid else None


async def _front(hold: LaneHold, subscription: Subscription | None, streak: Streak) -> list[OwedDelivery]:
    """Return the head alone, or a window of the backlog once the receiver answered well, or is gone."""
    window = CANCELLED_AT_ONCE if subscription is None else 1
    if subscription is not None and streak.answered:
        window = subscription.settings.drained_at_once(streak.got_through)
    read = partial(stored.dues, hold.world.store, hold.task.subscription_id, limit=window)
    dues = await hold.world.executor.run(read)
    return dues if subscription is None else front(dues, hold.world.clock.now())
