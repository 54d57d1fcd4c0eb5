"""Members of consumer groups: heartbeats, leaving, and the list of members."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from tagcast.instant import rfc3339
from tagcast.membership import SILENCE_S, Client, Heartbeat, Mode
from tagcast.ports import World
from tagcast.registry.members import Membership, leave, membership, register
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.filters import FilterBody, NewFilterBody
from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.subscriptions.start_from import StartFrom, instant_of


class HeartbeatBody(NewFilterBody):
    """The heartbeat that a consumer sends every 30 seconds. The first heartbeat creates a missing group.

    ``start_from`` and ``silence_seconds`` apply only to a created group. It may be deleted after ``silence_seconds``
    without a heartbeat. The other fields describe the consumer.
    """

    member_version: Annotated[str, StringConstraints(max_length=limits.MEMBER_VERSION_LENGTH_MAX)] = ""
    mode: Literal["clustering", "broadcasting"] = "clustering"
    ordered: bool = False
    start_from: StartFrom | None = None
    silence_seconds: Annotated[int, Field(ge=limits.SILENCE_S_MIN, le=limits.SILENCE_S_MAX)] = SILENCE_S


class MemberAnswer(TypedDict):
    """A live consumer of a group. ``agrees`` is true if it has the group's filter and order.

    A consumer that does not agree gets no messages.
    """

    member_id: str
    member_version: str
    agrees: bool
    joined_at: Instant
    seen_at: Instant


class GroupAnswer(TypedDict):
    """A consumer group and its live members. Its members pull from ``subscription``."""

    subscription: str
    group_version: int
    filter: FilterBody | None
    mode: Literal["clustering", "broadcasting"]
    members: list[MemberAnswer]


class MembersAnswer(TypedDict):
    """The live members of a group, sorted by id."""

    members: list[MemberAnswer]


def beat(world: World, request: Request[HeartbeatBody]) -> Answer:
    """Send the heartbeat of a consumer."""
    body = request.body
    heartbeat = Heartbeat(
        topic=request.topic,
        group=request.subscription,
        client=Client(request.path["member_id"], body.member_version),
        filter=body.filter,
        mode=Mode(body.mode),
        silence_s=body.silence_seconds,
        is_ordered=body.ordered,
        start_from=instant_of(body.start_from),
    )
    found = register(world, heartbeat)
    group, filter = found.subscription, found.subscription.settings.filter
    answer: GroupAnswer = {
        "subscription": group.name,
        "group_version": group.version,
        "filter": None if filter is None else dict(filter),
        "mode": body.mode,
        "members": _show_members(found.membership),
    }
    return Answer(201 if found.is_new else 200, answer)


def _show_members(value: Membership) -> list[MemberAnswer]:
    return [
        {
            "member_id": member.client.member_id,
            "member_version": member.client.version,
            "agrees": value.agrees(member),
            "joined_at": rfc3339(member.joined_at),
            "seen_at": rfc3339(member.seen_at),
        }
        for member in value.members
    ]


def answer_members(world: World, request: Request[None]) -> Answer:
    """List the members of a group."""
    return Answer(200, {"members": _show_members(membership(world, request.topic, request.subscription))})


def delete(world: World, request: Request[None]) -> Answer:
    """Leave a group."""
    leave(world, request.topic, request.subscription, request.path["member_id"])
    return Answer(204)


_ALL = "/topics/{topic}/subscriptions/{subscription}/members"
_ONE = f"{_ALL}/{{member_id}}"
_BEATEN, _SCOPE = {201: GroupAnswer, 200: GroupAnswer}, TokenScope.CONSUME

ROUTES = (
    Route("heartbeat", "groups", "PUT", _ONE, beat, _BEATEN, body=HeartbeatBody, scope=_SCOPE),
    Route("leave", "groups", "DELETE", _ONE, delete, {204: None}, scope=_SCOPE),
    Route("list_members", "groups", "GET", _ALL, answer_members, {200: MembersAnswer}),
)
