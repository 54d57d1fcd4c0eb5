"""Actions on many lanes: retry, pause, resume or skip. A filter selects the lanes, or the request names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict
from tagcast.errors import CURSOR_FAULT, ConflictError, Fault, FaultCode, InvalidRequestError, NotFoundError
from tagcast.operating.lane_changes import (
    LaneChange,
    LaneOrder,
    LaneResult,
    NamedLane,
    change_listed,
    change_named,
)
from tagcast.operating.urgent_lanes import UrgentLane
from tagcast.ports import World
from tagcast.tables import Page
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import AnyLaneState
from tagcast_aws.api.http.authorization import ForbiddenError, may_act_on
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.paging import decode_cursor, encode_cursor
from tagcast_aws.api.http.problems import problem_json
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.subscriptions.lane import show_state

_Name = Annotated[str, StringConstraints(pattern=limits.NAME)]
_State = Literal["active", "blocked", "lost_contact", "retrying", "paused", "suspended", "unverified"]


class LaneBody(Body):
    """A lane: a subscription of a topic."""

    topic: _Name
    subscription: _Name


class LaneHeadBody(LaneBody):
    """A lane, and the message to skip. If another message is the head, nothing changes."""

    message_id: Annotated[str, StringConstraints(pattern=limits.MESSAGE_ID)]


class LanesBody(Body):
    """The lanes of an action. They match every given field of *topic*, *state*, *host*, *outcome* and *text*.

    *lanes* names the lanes to consider; without it, all lanes that are not active are considered, page by page. *text*
    is a part of the topic's or subscription's name. *outcome* is that of the head's last attempt. A dry run changes
    nothing.
    """

    topic: _Name | None = None
    state: _State | None = None
    host: Annotated[str, Field(max_length=limits.URL_LENGTH_MAX)] | None = None
    outcome: Annotated[str, Field(max_length=limits.LANE_TEXT_LENGTH_MAX)] | None = None
    text: Annotated[str, Field(max_length=limits.LANE_TEXT_LENGTH_MAX)] | None = None
    lanes: Annotated[list[LaneBody], Field(min_length=1, max_length=limits.BATCH_MAX)] | None = None
    dry_run: bool = False
    limit: Annotated[int, Field(ge=1, le=limits.PAGE_MAX)] = limits.PAGE_DEFAULT
    cursor: (
        Annotated[
            str,
            Field(max_length=limits.CURSOR_LENGTH_MAX, pattern=limits.CURSOR, json_schema_extra={"format": "cursor"}),
        ]
        | None
    ) = None

    @property
    def named(self) -> list[NamedLane] | None:
        """The lanes that the request names, or None if it has only a filter."""
        if self.lanes is None:
            return None
        return [NamedLane(each.topic, each.subscription, getattr(each, "message_id", None)) for each in self.lanes]

    def takes(self, lane: UrgentLane) -> bool:
        """Return whether *lane* matches every filter field that the request has."""
        state = show_state(lane.state, is_unverified=lane.unverified is not None)
        outcome = None if lane.head is None else lane.head.last_outcome
        criteria = ((self.topic, lane.topic), (self.state, state), (self.outcome, outcome))
        if any(wanted not in (None, value) for wanted, value in criteria):
            return False
        if self.host is not None and self.host.rstrip("/") != lane.host:
            return False
        return self.text is None or self.text.lower() in f"{lane.topic} / {lane.subscription}".lower()


_NAMED_UNLESS_DRY: JsonDict = {
    "if": {"properties": {"dry_run": {"const": True}}, "required": ["dry_run"]},
    "else": {"required": ["lanes"], "properties": {"lanes": {"not": {"type": "null"}}}},
}


class SkipLanesBody(LanesBody):
    """The heads to skip, and the reason. Only a dry run may leave out *lanes*, which names each head."""

    model_config = ConfigDict(json_schema_extra=_NAMED_UNLESS_DRY)

    lanes: Annotated[list[LaneHeadBody], Field(min_length=1, max_length=limits.BATCH_MAX)] | None = None  # type: ignore[assignment]
    reason: Annotated[str, Field(min_length=1, max_length=limits.REASON_LENGTH_MAX)]

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return a fault if a request that is not a dry run names no heads; else an empty list."""
        if value.get("dry_run") is True or value.get("lanes") is not None:
            return []
        return [Fault("is required; a dry run answers lanes with their heads", "/lanes", FaultCode.REQUIRED)]


class ActedLaneAnswer(TypedDict):
    """The result for one lane. ``message_id`` is the head before the action, and ``state`` the state afterwards.

    ``planned`` means that a dry run would change the lane. ``unchanged`` means that the action does not apply to the
    lane's state, that the head is another message, or that the lane does not exist. ``error`` says why nothing changed.
    """

    topic: str
    subscription: str
    result: Literal["planned", "changed", "unchanged", "failed"]
    state: NotRequired[AnyLaneState]
    message_id: NotRequired[str]
    error: NotRequired[dict[str, Any]]


class ActedLanesAnswer(TypedDict):
    """One page of the results of an action on many lanes. ``next_cursor`` is null on the last page.

    ``matched`` is the number of lanes on this page. The other numbers count these lanes by result.
    """

    matched: int
    planned: int
    changed: int
    unchanged: int
    failed: int
    lanes: list[ActedLaneAnswer]
    next_cursor: str | None


def _act(change: LaneChange, world: World, request: Request[Any]) -> Answer:
    """Act on the lanes whose topics the caller's token covers.

    A filter selects no other lanes. Another lane that the request names gets an error as its result.
    """
    body, rights = request.body, request.rights
    order = LaneOrder(change, getattr(body, "reason", ""), body.dry_run)
    if (named := body.named) is not None:
        mine = [each for each in named if may_act_on(rights, each.topic)]
        done = Page(change_named(world, order, mine, body.takes))
        others = [_show_refusal(each) for each in named if not may_act_on(rights, each.topic)]
    else:
        may, cursor = partial(may_act_on, rights), _cursor(body.cursor)
        done = change_listed(world, order, may, body.takes, body.limit, cursor)
        others = []
    lanes = [_show_result(each, is_dry_run=order.is_plan) for each in done.items] + others
    results = Counter(each["result"] for each in lanes)
    answer: ActedLanesAnswer = {
        "matched": len(lanes),
        "planned": results["planned"],
        "changed": results["changed"],
        "unchanged": results["unchanged"],
        "failed": results["failed"],
        "lanes": lanes,
        "next_cursor": encode_cursor(done.cursor),
    }
    return Answer(200, answer)


def _cursor(text: str | None) -> str | None:
    if text is None:
        return None
    if (cursor := decode_cursor(text)) is None:
        raise InvalidRequestError((CURSOR_FAULT,))
    return cursor


def _show_refusal(named: NamedLane) -> ActedLaneAnswer:
    return {
        "topic": named.topic,
        "subscription": named.subscription,
        "result": "failed",
        "error": problem_json(ForbiddenError("the token does not name this topic")),
    }


def _show_result(value: LaneResult, *, is_dry_run: bool) -> ActedLaneAnswer:
    named = value.named
    answer: ActedLaneAnswer = {
        "topic": named.topic,
        "subscription": named.subscription,
        "result": "planned" if is_dry_run else "changed",
    }
    if value.found is not None and value.state is not None:
        answer["state"] = show_state(value.state, is_unverified=value.found.unverified is not None)
        if value.found.head is not None:
            answer["message_id"] = value.found.head.message_id
    if value.error is not None:
        answer["result"] = "unchanged" if isinstance(value.error, (ConflictError, NotFoundError)) else "failed"
        answer["error"] = problem_json(value.error)
    return answer


_ACTED = {200: ActedLanesAnswer}

ROUTES = tuple(
    Route(
        f"{act}_lanes",
        "lanes",
        "POST",
        f"/lanes/{act}",
        partial(_act, act),
        _ACTED,
        body=body,
        names_no_topic=True,
        summary=summary,
    )
    for act, summary, body in (
        (LaneChange.RETRY, "Retry the heads of many lanes now", LanesBody),
        (LaneChange.PAUSE, "Pause many lanes", LanesBody),
        (LaneChange.RESUME, "Resume many lanes", LanesBody),
        (LaneChange.SKIP, "Cancel the heads of many lanes", SkipLanesBody),
    )
)
