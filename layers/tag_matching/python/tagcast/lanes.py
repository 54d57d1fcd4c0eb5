"""Use cases of lanes: look, pause, resume, retry now, skip the head, re-push a topic (semantics §7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tagcast.directory import snapshot
from tagcast.errors import ConditionLostError, ConflictError, NotFoundError
from tagcast.keys import due_key, lane_key, message_key
from tagcast.lane_rows import Due, Lane, due_of, lane_of, lane_row
from tagcast.model import Entry, EntryState, LaneState, Strategy, Subscription
from tagcast.paging import Page
from tagcast.ports import ABSENT, Delete, Expectation, Put, Table, World
from tagcast.rows import message_row_of
from tagcast.settling import map_writes
from tagcast.subscriptions import get_subscription

COUNTED_MAX = 1_000
ASLEEP = (LaneState.PAUSED, LaneState.SUSPENDED)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """One owed delivery of a backlog, as people see it."""

    message_id: str
    state: EntryState
    attempts: int
    next_attempt_at: int | None
    expires_at: int
    last_attempt_at: int | None
    last_outcome: str | None
    position: str


@dataclass(frozen=True, slots=True)
class LaneView:
    """One subscription's side of a topic: its state, how much it owes, and its head.

    *has_more* says that the backlog was counted only as far as *backlog*.
    """

    state: LaneState
    backlog: int
    head: DueDelivery | None
    has_more: bool = False


def _read(world: World, subscription: Subscription) -> Lane | None:
    row = world.store.get(lane_key(subscription.topic, subscription.subscription_id))
    return None if row is None else lane_of(row)


def _dues(world: World, subscription: Subscription, *, after: str = "", limit: int | None = None) -> list[Due]:
    pk = due_key(subscription.subscription_id, "", "").pk
    return [due_of(row) for row in world.store.query(Table.MESSAGES, pk, sk_from=after, limit=limit)]


def _delivery(due: Due, lane: Lane, now: int, *, is_head: bool) -> DueDelivery:
    scheduled = is_head and lane.state not in ASLEEP
    return DueDelivery(
        message_id=due.message_id,
        state=EntryState.EXPIRED if now >= due.expires_at else EntryState.BLOCKED,
        attempts=due.attempts,
        next_attempt_at=lane.next_attempt_at if scheduled else None,
        expires_at=due.expires_at,
        last_attempt_at=due.last_attempt_at,
        last_outcome=due.last_outcome,
        position=due.position,
    )


def lane_view(world: World, subscription: Subscription) -> LaneView:
    """Return the lane as it stands; a lane without a row is active and owes nothing."""
    return _view(world, subscription, _read(world, subscription), None)


def lane_views(world: World, topic: str, subscriptions: Sequence[Subscription]) -> tuple[LaneView, ...]:
    """Return the lanes of *subscriptions*, read by one query, and their backlogs up to :data:`COUNTED_MAX` each."""
    rows = world.store.query(Table.MESSAGES, lane_key(topic, "").pk)
    known = {lane.subscription_id: lane for lane in map(lane_of, rows)}
    return tuple(_view(world, each, known.get(each.subscription_id), COUNTED_MAX) for each in subscriptions)


def _view(world: World, subscription: Subscription, lane: Lane | None, counted_max: int | None) -> LaneView:
    if lane is None:
        return LaneView(LaneState.ACTIVE, 0, None)
    dues = _dues(world, subscription, limit=None if counted_max is None else counted_max + 1)
    head = _delivery(dues[0], lane, world.clock.now(), is_head=True) if dues else None
    counted = len({due.message_id for due in dues[:counted_max]})
    return LaneView(lane.state, counted, head, counted_max is not None and len(dues) > counted_max)


def backlog(world: World, topic: str, name: str, limit: int, cursor: str | None) -> Page[DueDelivery]:
    """Return owed deliveries in their order, after *cursor*."""
    subscription = get_subscription(world, topic, name)
    lane = _read(world, subscription)
    if lane is None:
        return Page(())
    after = "" if cursor is None else cursor + "\x00"
    dues = _dues(world, subscription, after=after, limit=limit + 1)
    now = world.clock.now()
    shown = tuple(
        _delivery(due, lane, now, is_head=cursor is None and place == 0) for place, due in enumerate(dues[:limit])
    )
    more = f"{dues[limit - 1].position}#{dues[limit - 1].message_id}" if len(dues) > limit else None
    return Page(shown, more)


def _change(
    world: World, topic: str, name: str, change: Callable[[Subscription, Lane | None], Lane | None]
) -> LaneView:
    """Write the lane that *change* returns (None: nothing to do) under a new generation, and start its workflow."""
    while True:
        subscription = get_subscription(world, topic, name)
        lane = _unless_removed(_read(world, subscription), name)
        changed = change(subscription, lane)
        if changed is None:
            return lane_view(world, subscription)
        changed = replace(changed, generation=world.dice.unique_id(world.clock.now()))
        expect: Expectation = {"pk": ABSENT} if lane is None else lane.as_read()
        try:
            world.store.write(Put(changed.key, lane_row(changed), expect))
        except ConditionLostError:
            continue
        if changed.state not in ASLEEP:
            world.workflow.start(topic, changed.subscription_id, changed.generation)
        return lane_view(world, subscription)


def _unless_removed(lane: Lane | None, name: str) -> Lane | None:
    """Return the lane, or raise NotFoundError if the subscription was removed since it was read."""
    if lane is not None and lane.state is LaneState.REMOVED:
        raise NotFoundError("subscription", name)
    return lane


def pause(world: World, topic: str, name: str) -> LaneView:
    """Stop all attempts of the subscription; what it is owed waits and still expires."""

    def paused(subscription: Subscription, lane: Lane | None) -> Lane | None:
        if lane is not None and lane.state is LaneState.PAUSED:
            return None
        dues = _dues(world, subscription)
        return Lane(
            topic=topic,
            subscription_id=subscription.subscription_id,
            state=LaneState.PAUSED,
            generation="",
            appended=0 if lane is None else lane.appended,
            claim=0 if lane is None else lane.claim,
            next_attempt_at=None if lane is None else lane.next_attempt_at,
            wake_at=min((due.expires_at for due in dues), default=None),
        )

    return _change(world, topic, name, paused)


def resume(world: World, topic: str, name: str) -> LaneView:
    """End a pause or a suspension and go on as blocked, lost contact or active; an awake lane stays as it is."""
    while True:
        subscription = get_subscription(world, topic, name)
        lane = _read(world, subscription)
        if lane is None or lane.state not in ASLEEP:
            return lane_view(world, subscription)
        if _dues(world, subscription, limit=1):
            return _change(world, topic, name, lambda owner, present: _awake(world, owner, present))
        try:
            world.store.write(Delete(lane.key, lane.as_read()))
        except ConditionLostError:
            continue
        return lane_view(world, subscription)


def _awake(world: World, subscription: Subscription, lane: Lane | None) -> Lane | None:
    if lane is None or lane.state not in ASLEEP:
        return None
    head = next(iter(_dues(world, subscription, limit=1)), None)
    lost = head is not None and head.attempts and subscription.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
    due_at = max(world.clock.now(), lane.next_attempt_at or 0)
    state = LaneState.LOST_CONTACT if lost else LaneState.BLOCKED
    return replace(lane, state=state, next_attempt_at=due_at, wake_at=due_at)


def retry_now(world: World, topic: str, name: str) -> LaneView:
    """Attempt the head at once, whatever its schedule; ConflictError while the lane is paused or suspended."""

    def due_now(subscription: Subscription, lane: Lane | None) -> Lane | None:
        if lane is None:
            return None
        if lane.state in ASLEEP:
            raise ConflictError(f"subscription {subscription.name} is {lane.state}; resume it first")
        now = world.clock.now()
        return replace(lane, next_attempt_at=now, wake_at=now)

    return _change(world, topic, name, due_now)


def repush(world: World, topic: str) -> tuple[str, ...]:
    """Attempt now what is owed to every subscription blocked under BACKOFF_RETRY; return their names."""
    present = snapshot(world, topic).by_ordinal.values()
    rows = world.store.query(Table.MESSAGES, lane_key(topic, "").pk)
    blocked = {lane.subscription_id for lane in map(lane_of, rows) if lane.state is LaneState.BLOCKED}
    pushed = []
    for subscription in present:
        if subscription.subscription_id in blocked and subscription.retry.strategy is Strategy.BACKOFF_RETRY:
            with suppress(ConflictError, NotFoundError):  # It was paused or removed since the lanes were read.
                retry_now(world, topic, subscription.name)
                pushed.append(subscription.name)
    return tuple(sorted(pushed))


def skip_head(world: World, topic: str, name: str, reason: str) -> LaneView:
    """Cancel the head with *reason* and let the next delivery become the head; ConflictError if nothing is owed."""
    while True:
        subscription = get_subscription(world, topic, name)
        lane = _unless_removed(_read(world, subscription), name)
        head = next(iter(_dues(world, subscription, limit=1)), None)
        if lane is None or head is None:
            raise ConflictError(f"subscription {name} owes nothing that could be skipped")
        try:
            _skip(world, subscription, lane, head, reason)
        except ConditionLostError:
            continue
        return lane_view(world, subscription)


def _skip(world: World, subscription: Subscription, lane: Lane, head: Due, reason: str) -> None:
    now = world.clock.now()
    moved = replace(lane, generation=world.dice.unique_id(now))
    if lane.state not in ASLEEP:
        moved = replace(moved, next_attempt_at=now, wake_at=now)
    stored = world.store.get(message_key(subscription.topic, head.message_id))
    before = None if stored is None else message_row_of(stored)
    writes: tuple[Delete | Put, ...] = (
        Delete(head.key, {"attempts": head.attempts}),
        Put(lane.key, lane_row(moved), lane.as_read()),
    )
    if before is None or subscription.ordinal not in before.map.owed:
        world.store.transact(writes)
    else:
        entry = Entry(EntryState.CANCELLED, head.attempts, head.last_attempt_at, f"skipped: {reason}")
        world.store.transact((*writes, *map_writes(before, before.settled({subscription.ordinal: entry}))))
    if moved.state not in ASLEEP:
        world.workflow.start(subscription.topic, subscription.subscription_id, moved.generation)
