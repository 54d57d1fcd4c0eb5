"""The acts of a person on lanes: on one, on those that a preview named, and on all that a filter takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from tagcast.errors import ConflictError, Fault, FaultCode, InvalidRequestError, NotFoundError, TagcastError
from tagcast.ids import accepted_at_of
from tagcast.model import LaneState
from tagcast.operating.lanes import LaneView, pause, resume, retry_now, skip_head
from tagcast.operating.urgency import UrgentLane, find_lane, urgent_lanes
from tagcast.ports import World
from tagcast.registry.subscribing import check_time
from tagcast.registry.subscriptions import get_subscription

CHANGED_WITHIN_S = 10.0
"""No further lane of a request is begun 10 s after it came, because one may take seconds when others change it."""
READ_MAX = 25
"""Lanes are read from the list in parts of at most 25, so that a request ends soon after its time is over."""
UNVERIFIED = "the endpoint is unverified; verify it first (POST .../verify)"


class LaneChange(StrEnum):
    """What a person may do to a lane."""

    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class NamedLane:
    """A lane that a request names; a skip is of *message_id* alone."""

    topic: str
    subscription: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """An act with the reason of a skip; a plan changes nothing."""

    change: LaneChange
    reason: str = ""
    is_plan: bool = False


@dataclass(frozen=True, slots=True)
class LaneResult:
    """A lane, what was found of it, and its state behind the act; or why the act was not carried out."""

    named: NamedLane
    state: LaneState | None
    error: TagcastError | None = None
    found: UrgentLane | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an act on many lanes, and the cursor of the next part."""

    lanes: tuple[LaneResult, ...]
    cursor: str | None


def change_lane(
    world: World, act: LaneChange, topic: str, name: str, *, reason: str = "", message_id: str | None = None
) -> LaneView:
    """Carry out one act on one lane; a skip needs a *reason*, and cancels *message_id* alone if it is given.

    Raises NotFoundError, ConflictError where the state of the lane forbids it, UnavailableError.
    """
    match act:
        case LaneChange.RETRY:
            if get_subscription(world, topic, name).settings.unverified is not None:
                raise ConflictError(UNVERIFIED)
            return retry_now(world, topic, name)
        case LaneChange.PAUSE:
            return pause(world, topic, name)
        case LaneChange.RESUME:
            return resume(world, topic, name)
        case LaneChange.SKIP:
            return skip_head(world, topic, name, reason, message_id)


def lane_error(act: LaneChange, lane: UrgentLane) -> str | None:
    """Return why an act would change nothing of a lane; None if it fits.

    >>> lane_error(LaneChange.RETRY, UrgentLane("t", "s", LaneState.PAUSED, None))
    'the lane is paused; resume it first'
    >>> lane_error(LaneChange.RESUME, UrgentLane("t", "s", LaneState.PAUSED, None)) is None
    True
    """
    state = lane.state
    match act:
        case LaneChange.RETRY if state.is_asleep:
            return f"the lane is {state}; resume it first"
        case LaneChange.RETRY if lane.unverified is not None:
            return UNVERIFIED
        case LaneChange.RETRY if state is LaneState.ACTIVE:
            return "the lane is active; it has nothing to retry"
        case LaneChange.PAUSE if state.is_asleep:
            return f"the lane is already {state}"
        case LaneChange.RESUME if not state.is_asleep:
            return f"the lane is {state}; it needs no resume"
        case LaneChange.SKIP if lane.head is None:
            return "the lane has nothing to skip in its backlog"
    return None


def change_named(
    world: World, order: Order, lanes: Iterable[NamedLane], takes: Callable[[UrgentLane], bool]
) -> tuple[LaneResult, ...]:
    """Carry out an act on the lanes that a request names, as far as *takes* takes them, each on its own."""
    until_s = world.clock.monotonic() + CHANGED_WITHIN_S
    done = []
    for named in lanes:
        try:
            lane = find_lane(world, named.topic, named.subscription)
        except NotFoundError as refusal:
            done.append(LaneResult(named, None, refusal))
            continue
        if takes(lane):
            done.append(_attempted(world, order, named, lane, until_s))
    return tuple(done)


def change_listed(
    world: World, order: Order, takes: Callable[[UrgentLane], bool], limit: int, cursor: str | None
) -> Part:
    """Carry out an act on at most *limit* lanes that are not active and that *takes* takes, from *cursor* on.

    An act moves a lane in the list that is read. So no lane comes twice in a part, and a lane with a new generation
    since the first part began is left out of later parts: no lane is acted on twice.

    Raises InvalidRequestError when *cursor* is none of this list.
    """
    until_s = world.clock.monotonic() + CHANGED_WITHIN_S
    began_at, after = _read(cursor)
    started_at = world.clock.now() if began_at is None else began_at
    done: list[LaneResult] = []
    names: set[tuple[str, str]] = set()
    while True:  # It ends: each page has a later cursor, and time runs out.
        page = urgent_lanes(world, min(READ_MAX, limit - len(done)), after)
        for lane in page.items:
            is_new = began_at is not None and accepted_at_of(lane.generation) >= began_at
            if takes(lane) and not is_new and (lane.topic, lane.subscription) not in names:
                names.add((lane.topic, lane.subscription))
                named = NamedLane(lane.topic, lane.subscription, lane.head.message_id if lane.head else None)
                done.append(_attempted(world, order, named, lane, until_s))
        after = page.cursor
        if after is None or len(done) >= limit or world.clock.monotonic() >= until_s:
            return Part(tuple(done), None if after is None else f"{started_at} {after}")


def _attempted(world: World, order: Order, named: NamedLane, lane: UrgentLane, until_s: float) -> LaneResult:
    try:
        check_time(world, until_s)
        if (reason := lane_error(order.change, lane)) is not None:
            raise ConflictError(reason)
        if order.is_plan:
            return LaneResult(named, lane.state, found=lane)
        view = change_lane(
            world, order.change, named.topic, named.subscription, reason=order.reason, message_id=named.message_id
        )
    except TagcastError as refusal:
        return LaneResult(named, lane.state, refusal, lane)
    return LaneResult(named, view.state, found=lane)


def _read(cursor: str | None) -> tuple[int | None, str | None]:
    """Return when the first part began, and the cursor of the list; both None without a cursor."""
    if cursor is None:
        return None, None
    began_at, _, after = cursor.partition(" ")
    if not began_at.isdecimal() or not began_at.isascii() or not after:
        raise InvalidRequestError((Fault("is not a cursor of this list", "/cursor", FaultCode.WRONG_FORMAT),))
    return int(began_at), after
