"""Redelivery of one lane: attempt its head when it is due, drain behind it, activate when empty.

See docs/protocol.md, Redelivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from itertools import takewhile

from tagcast.delivery.emptying import empty_queue
from tagcast.delivery.filling import fill
from tagcast.delivery.lane_lease import Answer, LaneLease, StaleWorkerError, Task
from tagcast.delivery.retrying import Retried, Streak, cancel, retry
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.filters.function_filter import judging_s
from tagcast.ids import ordinal_of
from tagcast.model import LaneState, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import planned_at
from tagcast.registry.directory import subscription_at
from tagcast.rows import stored
from tagcast.rows.due import OwedDelivery
from tagcast.rows.lane import Lane, generation_update

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
