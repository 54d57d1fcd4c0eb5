"""Use cases of lanes: view, pause, resume, retry now, skip the head, retry a topic (docs/semantics.md, Lanes)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tagcast.concurrency.contention import until_won
from tagcast.delivery.ending import end_due
from tagcast.errors import ConflictError, NotFoundError
from tagcast.ids import ordinal_of
from tagcast.model import EntryState, LaneState, Strategy, Subscription
from tagcast.ports import World
from tagcast.pushing.circuit import as_waiting
from tagcast.pushing.retry_delay import retry_at
from tagcast.registry.directory import read_topic, subscription_at
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PendingDelivery
from tagcast.rows.lane import LANES, Lane
from tagcast.subscription_settings import UNVERIFIED
from tagcast.tables import Page

VERIFY_FIRST = "the endpoint is unverified; verify it first (POST .../verify)"
CHANGED_WITHIN_S = 10.0
"""A request changes no further lane after 10 s, because one change may take seconds under contention."""
COUNTED_MAX, LIST_COUNTED_MAX = 1_000, 100
"""Backlogs are counted up to these numbers: in the view of one lane; in a list, and after a change of a lane.

Counting reads rows of up to 4 KB, and a request may change many lanes.
"""


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """One pending delivery of a backlog, for display. *next_attempt_at* is None if no attempt is planned."""

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
    """One subscription's lane: its state, the length of its backlog, and its head (None if the backlog is empty).

    *has_more*: the count ended at *backlog*, but the backlog is longer. *is_filling*: messages older than the group may
    still join.
    """

    state: LaneState
    backlog: int
    head: DueDelivery | None
    has_more: bool = False
    is_filling: bool = False


def _lane(world: World, subscription: Subscription) -> Lane | None:
    return stored.lane(world.store, subscription.topic, subscription.subscription_id)


def _head(world: World, subscription: Subscription) -> PendingDelivery | None:
    return next(iter(stored.dues(world.store, subscription.subscription_id, limit=1)), None)


def due_delivery(
    world: World, subscription: Subscription | None, due: PendingDelivery, lane: Lane, *, is_head: bool
) -> DueDelivery:
    """Return the delivery *due* of a backlog for display, with the time of its next attempt if one is planned.

    *subscription* is None if it was deleted.
    """
    now, next_attempt_at = world.clock.now(), lane.next_attempt_at if is_head else None
    waits = subscription is not None and subscription.settings.unverified is not None
    if subscription is not None and subscription.settings.is_independent and lane.pushes_new:
        retry, retry_all_at = subscription.settings.retry, lane.retry_all_at or 0
        next_attempt_at = max(now, retry_at(retry, due, retry_all_at, world.time_scale))
    return DueDelivery(
        message_id=due.message_id,
        state=due.entry(EntryState.EXPIRED if now >= due.expires_at else EntryState.BLOCKED).state,
        attempts=due.attempts,
        next_attempt_at=None if waits or lane.state.is_asleep or lane.is_claimed else next_attempt_at,
        expires_at=due.expires_at,
        last_attempt_at=due.last_attempt_at,
        last_outcome=due.last_outcome,
        position=due.position,
    )


def lane_view(world: World, subscription: Subscription, counted_max: int = COUNTED_MAX) -> LaneView:
    """Return the current lane of *subscription*. At most *counted_max* deliveries of its backlog are counted."""
    return _view(world, subscription, _lane(world, subscription), counted_max)


def lane_views(world: World, topic: str, subscriptions: Sequence[Subscription]) -> tuple[LaneView, ...]:
    """Return the lanes of *subscriptions* of a topic."""
    known = stored.lanes_of(world.store, topic, (each.subscription_id for each in subscriptions))
    return tuple(_view(world, each, known.get(each.subscription_id), LIST_COUNTED_MAX) for each in subscriptions)


def _view(world: World, subscription: Subscription, lane: Lane | None, counted_max: int) -> LaneView:
    if lane is None:
        return LaneView(LaneState.ACTIVE, 0, None)
    dues = stored.dues(world.store, subscription.subscription_id, limit=counted_max + 1)
    head = due_delivery(world, subscription, dues[0], lane, is_head=True) if dues else None
    counted = len({due.message_id for due in dues[:counted_max]})
    return LaneView(lane.state, counted, head, len(dues) > counted_max, lane.is_filling)


def backlog(world: World, topic: str, name: str, limit: int, cursor: str | None) -> Page[DueDelivery]:
    """Return at most *limit* pending deliveries of a backlog in their order, after *cursor*."""
    subscription = get_subscription(world, topic, name)
    lane = _lane(world, subscription)
    if lane is None:
        return Page(())
    dues = stored.dues(world.store, subscription.subscription_id, after=cursor or "", limit=limit + 1)
    dues = as_waiting(dues, _head(world, subscription))
    shown = tuple(
        due_delivery(world, subscription, due, lane, is_head=cursor is None and place == 0)
        for place, due in enumerate(dues[:limit])
    )
    return Page(shown, dues[limit - 1].place if len(dues) > limit else None)


def _start(world: World, lane: Lane) -> None:
    """Start the workflow of a lane that has a new generation, unless the lane sleeps."""
    if not lane.state.is_asleep:
        world.workflow.start(lane.topic, lane.subscription_id, lane.generation)


def _unless_removed(lane: Lane | None, name: str) -> Lane | None:
    """Return the lane, or None if active. Raise NotFoundError if the subscription was deleted since the read."""
    if lane is not None and lane.state is LaneState.REMOVED:
        raise NotFoundError("subscription", name)
    return lane


def pause(world: World, topic: str, name: str) -> LaneView:
    """Stop all attempts of the subscription, unless its lane is paused or suspended. Deliveries wait, and still expire.

    The next sweep finds the earliest expiry in the backlog. A long backlog could change while this call read it.
    """

    def attempt() -> LaneView:
        subscription = get_subscription(world, topic, name)
        lane, now = _unless_removed(_lane(world, subscription), name), world.clock.now()
        generation = world.dice.unique_id(now)
        if lane is None:
            sid = subscription.subscription_id
            paused = Lane(topic, sid, LaneState.PAUSED, generation, 0, 0, None, None)
            # A plain write repeated by the SDK could undo a resume. A repeated transaction executes only once.
            world.store.transact((lane_transitions.lane_put(paused),))
        elif not lane.state.is_asleep:
            world.store.write(lane_transitions.pause(lane, generation, now))
        return lane_view(world, subscription, LIST_COUNTED_MAX)

    return until_won(world, f"the lane of {name}", attempt)


def resume(world: World, topic: str, name: str) -> LaneView:
    """End a pause or a suspension; the lane becomes blocked, retrying, lost contact or active.

    Do nothing if the lane is neither paused nor suspended.
    """

    def attempt() -> LaneView:
        subscription = get_subscription(world, topic, name)
        lane = _lane(world, subscription)
        if lane is not None and lane.state.is_asleep:
            head = _head(world, subscription)
            if head or lane.is_filling:
                _resume(world, subscription, lane, head)
            else:
                world.store.write(lane_transitions.activate(lane))
        return lane_view(world, subscription, LIST_COUNTED_MAX)

    return until_won(world, f"the lane of {name}", attempt)


def _resume(world: World, subscription: Subscription, lane: Lane, head: PendingDelivery | None) -> None:
    now = world.clock.now()
    lost = head and head.attempts and subscription.settings.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
    state, planned_at = LaneState.LOST_CONTACT if lost else LaneState.BLOCKED, lane.next_attempt_at
    is_held = head is not None and head.last_outcome == UNVERIFIED
    if subscription.settings.is_independent:
        state = LaneState.RETRYING
    if (is_held or subscription.settings.is_independent) and not lane.is_claimed:
        planned_at = None  # The worker plans deliveries that are due later or held.
    due_at = max(now, planned_at or 0)
    resumed, write = lane_transitions.resume(lane, world.dice.unique_id(now), state, due_at)
    world.store.write(write)
    _start(world, resumed)


def retry_now(world: World, topic: str, name: str) -> LaneView:
    """Let the head be attempted now, regardless of schedule and Retry-After; under INDEPENDENT_RETRY, all deliveries.

    An active lane stays unchanged. Raises ConflictError while the lane sleeps or the endpoint is unverified.
    """
    return lane_view(world, _retry(world, topic, name), LIST_COUNTED_MAX)


def _retry(world: World, topic: str, name: str) -> Subscription:
    def attempt() -> Subscription:
        subscription = get_subscription(world, topic, name)
        if subscription.settings.unverified is not None:
            raise ConflictError(VERIFY_FIRST)
        lane = _unless_removed(_lane(world, subscription), name)
        if lane is None:
            return subscription
        if lane.state.is_asleep:
            raise ConflictError(f"subscription {name} is {lane.state}; resume it first")
        now = world.clock.now()
        planned, write = lane_transitions.retry_now(lane, world.dice.unique_id(now), now)
        world.store.write(write)
        _start(world, planned)
        return subscription

    return until_won(world, f"the lane of {name}", attempt)


def retry_topic(world: World, topic: str) -> tuple[str, ...]:
    """Retry now all subscriptions that are blocked under BACKOFF_RETRY; return their names.

    The call ends after :data:`CHANGED_WITHIN_S`. A repeated call begins with the lanes that this call did not reach.
    """
    read_topic(world, topic)
    until_s = world.clock.monotonic() + CHANGED_WITHIN_S
    lanes = map(LANES.value_of, stored.lane_rows(world.store, topic))
    retried = []
    for lane in sorted((each for each in lanes if each.state is LaneState.BLOCKED), key=lambda lane: lane.generation):
        if world.clock.monotonic() >= until_s:
            break
        found = subscription_at(world, topic, ordinal_of(lane.subscription_id))
        if found is None or found.settings.retry.strategy is not Strategy.BACKOFF_RETRY:
            continue
        with suppress(ConflictError, NotFoundError):  # It is unverified, or was paused or removed meanwhile.
            retried.append(_retry(world, topic, found.name).name)
    return tuple(sorted(retried))


def skip_head(world: World, topic: str, name: str, reason: str, message_id: str | None = None) -> LaneView:
    """Cancel the head with *reason*; the next delivery becomes the head.

    Raises ConflictError if the backlog is empty, or if *message_id* is not the head's message. Under INDEPENDENT_RETRY,
    any of the first 1,000 deliveries can be cancelled by *message_id*, which is required if several deliveries wait.
    """

    def attempt() -> LaneView:
        subscription = get_subscription(world, topic, name)
        lane = _unless_removed(_lane(world, subscription), name)
        head = _head(world, subscription)
        if subscription.settings.is_independent:
            pending = stored.dues(world.store, subscription.subscription_id, limit=COUNTED_MAX)
            if message_id is None and len(pending) > 1:
                raise ConflictError(f"{len(pending)} deliveries of subscription {name} wait; name the message to skip")
            head = next((due for due in pending if due.message_id == message_id), head)
        if lane is None or head is None:
            besides = "; its members handle the messages in its queue" if subscription.settings.is_group else ""
            raise ConflictError(f"subscription {name} has nothing to skip in its backlog{besides}")
        if message_id not in (None, head.message_id):
            raise ConflictError(f"the head of subscription {name} is {head.message_id}, not {message_id}")
        _skip(world, subscription, lane, head, reason)
        return lane_view(world, subscription, LIST_COUNTED_MAX)

    return until_won(world, f"the lane of {name}", attempt)


def _skip(world: World, subscription: Subscription, lane: Lane, head: PendingDelivery, reason: str) -> None:
    now = world.clock.now()
    skipped, write = lane_transitions.skip(lane, world.dice.unique_id(now), now)
    cancelled = head.entry(EntryState.CANCELLED, f"skipped: {reason}")
    end_due(world.store, lane.topic, head, cancelled, write)
    _start(world, skipped)
