"""Manual changes of one lane, of the lanes that a preview listed, and of all lanes that match a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from tagcast.errors import CURSOR_FAULT, ConflictError, InvalidRequestError, NotFoundError, TagcastError
from tagcast.ids import accepted_at_of
from tagcast.model import LaneState
from tagcast.operating.lanes import CHANGED_WITHIN_S, VERIFY_FIRST, LaneView, pause, resume, retry_now, skip_head
from tagcast.operating.urgent_lanes import UrgentLane, find_lane, urgent_lanes, without_names
from tagcast.ports import World
from tagcast.registry.subscribing import check_time
from tagcast.tables import Page

READ_MAX = 25
"""Lanes are listed in parts of at most 25, so that a request ends soon after its time is over."""


class LaneChange(StrEnum):
    """The manual changes of a lane."""

    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class NamedLane:
    """A lane named in a request. A skip cancels the delivery of *message_id*, or the head if *message_id* is None."""

    topic: str
    subscription: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """A command for lanes: pause, resume, retry or skip. A skip needs a *reason*. With *is_plan*, nothing changes."""

    change: LaneChange
    reason: str = ""
    is_plan: bool = False


@dataclass(frozen=True, slots=True)
class LaneResult:
    """The result of a command for one lane: its *state* afterwards, and the *error* if the change failed.

    *error* is None after a success. *found* is the lane before the change. If the lane does not exist, *state* and
    *found* are None.
    """

    named: NamedLane
    state: LaneState | None
    error: TagcastError | None = None
    found: UrgentLane | None = None


def change_lane(
    world: World, act: LaneChange, topic: str, name: str, *, reason: str = "", message_id: str | None = None
) -> LaneView:
    """Change one lane, and return it.

    A skip needs a *reason*. It cancels only *message_id*, or the head if *message_id* is None.

    Raises NotFoundError, ConflictError if the state of the lane forbids the change, and UnavailableError.
    """
    match act:
        case LaneChange.RETRY:
            return retry_now(world, topic, name)
        case LaneChange.PAUSE:
            return pause(world, topic, name)
        case LaneChange.RESUME:
            return resume(world, topic, name)
        case LaneChange.SKIP:
            return skip_head(world, topic, name, reason, message_id)


def lane_error(act: LaneChange, lane: UrgentLane) -> str | None:
    """Return the reason why the change *act* does not apply to a lane; None if it applies.

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
            return VERIFY_FIRST
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
    world: World, order: LaneOrder, lanes: Iterable[NamedLane], takes: Callable[[UrgentLane], bool]
) -> tuple[LaneResult, ...]:
    """Change each lane in *lanes* for which *takes* returns True, and return the results of these lanes.

    A missing lane also has a result. An error of one lane does not stop the changes of others.
    """
    until_s = world.clock.monotonic() + CHANGED_WITHIN_S
    done = []
    for named in lanes:
        try:
            lane = find_lane(world, named.topic, named.subscription)
        except NotFoundError as refusal:
            done.append(LaneResult(named, None, refusal))
            continue
        if takes(lane):
            done.append(_try_change(world, order, named, lane, until_s))
    return tuple(done)


def change_listed(
    world: World,
    order: LaneOrder,
    is_open: Callable[[str], bool],
    takes: Callable[[UrgentLane], bool],
    limit: int,
    cursor: str | None,
) -> Page[LaneResult]:
    """Change the next lanes of the list of inactive lanes, at most *limit*, and return a page of their results.

    *cursor* is that of the page before; None at the first page. A lane changes only if *takes* returns True for it, and
    *is_open* for its topic. A change moves a lane within the list, but no lane changes twice. A call skips lanes that
    it has changed already. Later pages skip lanes whose generation is newer than the start of the first page.

    Raises InvalidRequestError for an invalid *cursor*.
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
            if is_open(lane.topic) and takes(lane) and not is_new and (lane.topic, lane.subscription) not in names:
                names.add((lane.topic, lane.subscription))
                named = NamedLane(lane.topic, lane.subscription, lane.head.message_id if lane.head else None)
                done.append(_try_change(world, order, named, lane, until_s))
        after = page.cursor
        if after is None or len(done) >= limit or world.clock.monotonic() >= until_s:
            following = None if after is None else f"{started_at} {without_names(after, is_open)}"
            return Page(tuple(done), following)


def _try_change(world: World, order: LaneOrder, named: NamedLane, lane: UrgentLane, until_s: float) -> LaneResult:
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
    """Return the start time of the first part, and the cursor of the list; both are None if *cursor* is None."""
    if cursor is None:
        return None, None
    began_at, _, after = cursor.partition(" ")
    if not began_at.isdecimal() or not began_at.isascii() or not after:
        raise InvalidRequestError((CURSOR_FAULT,))
    return int(began_at), after
