"""The routes of a group's members: pulls, acknowledgements, nacks and extensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired, cast

from pydantic import Field, StringConstraints
from tagcast.ports import World
from tagcast.pulling.acknowledge import HandleResult, acknowledge, extend, release
from tagcast.pulling.pull import PulledMessage, PullRequest, pull
from tagcast.pushing.content_formats import envelope
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.paging import encoded_size
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.http.webhooks import PushBody
from tagcast_aws.api.limits import PULL_BYTES_ENOUGH, PULL_BYTES_MAX, PULLED_AROUND_BYTES_MAX

VisibilityTimeoutS = Annotated[int, Field(ge=limits.VISIBILITY_TIMEOUT_S_MIN, le=limits.VISIBILITY_TIMEOUT_S_MAX)]
ReceiptHandle = Annotated[str, StringConstraints(min_length=1, max_length=limits.HANDLE_LENGTH_MAX)]
ReceiptHandles = Annotated[list[ReceiptHandle], Field(min_length=1, max_length=limits.HANDLES_MAX)]


class PullBody(Body):
    """How many messages to pull, how long to wait for them, and their visibility timeout.

    A pull is refused if the member ``member_id`` relies on another filter or order than the group's.
    """

    max_messages: Annotated[int, Field(ge=1, le=limits.PULLED_MAX)] = limits.PULLED_MAX
    wait_seconds: Annotated[int, Field(ge=0, le=limits.PULL_WAIT_S_MAX)] = 0
    visibility_timeout_seconds: VisibilityTimeoutS = limits.VISIBILITY_TIMEOUT_S_DEFAULT
    member_id: Annotated[str, StringConstraints(pattern=limits.MEMBER_ID)] | None = None


class AckBody(Body):
    """The messages to acknowledge."""

    receipt_handles: ReceiptHandles


class NackBody(AckBody):
    """The messages to nack, and the delay until they are visible again."""

    delay_seconds: Annotated[int, Field(ge=0, le=limits.VISIBILITY_TIMEOUT_S_MAX)] = 0


class ExtendBody(AckBody):
    """The messages whose visibility timeout to extend, and the new timeout, counted from now."""

    visibility_timeout_seconds: VisibilityTimeoutS = limits.VISIBILITY_TIMEOUT_S_DEFAULT


class PulledAnswer(PushBody):
    """A pulled message: the fields of a push with content format ``json``, and the receipt handle of this pull."""

    receipt_handle: str


class PullAnswer(TypedDict):
    """The messages of a pull, in the order of the queue. The list is empty if none came within the waiting time."""

    messages: list[PulledAnswer]


class HandleAnswer(TypedDict):
    """The result for one receipt handle. An extension returns a new handle.

    The last four statuses mean that nothing changed: the delivery was acknowledged before, it has ended in another way
    (``over``), its visibility timeout has ended, or the group has no such handle.
    """

    receipt_handle: str
    status: Literal["acknowledged", "returned", "extended", "already_acknowledged", "over", "expired", "unknown"]
    new_receipt_handle: NotRequired[str]


class HandlesAnswer(TypedDict):
    """The result for each receipt handle, in the order of the request."""

    results: list[HandleAnswer]


def pull_messages(world: World, request: Request[PullBody]) -> Answer:
    """Pull messages of a group."""
    body = request.body
    wish = PullRequest(
        messages_max=body.max_messages,
        wait_s=body.wait_seconds,
        visibility_timeout_s=body.visibility_timeout_seconds,
        size_of=lambda handed: encoded_size(_show_pulled(handed)) + 1,
        size_enough=PULL_BYTES_ENOUGH,
        size_max=PULL_BYTES_MAX,
        around_max=PULLED_AROUND_BYTES_MAX,
        member_id=body.member_id,
    )
    handed = pull(world, request.topic, request.subscription, wish)
    return Answer(200, {"messages": [_show_pulled(each) for each in handed]})


def ack(world: World, request: Request[AckBody]) -> Answer:
    """Acknowledge messages."""
    return _results(acknowledge(world, request.topic, request.subscription, request.body.receipt_handles))


def nack(world: World, request: Request[NackBody]) -> Answer:
    """Nack messages."""
    body = request.body
    return _results(release(world, request.topic, request.subscription, body.receipt_handles, body.delay_seconds))


def extend_pulls(world: World, request: Request[ExtendBody]) -> Answer:
    """Extend the visibility timeout of messages."""
    body = request.body
    return _results(
        extend(world, request.topic, request.subscription, body.receipt_handles, body.visibility_timeout_seconds)
    )


def _show_pulled(handed: PulledMessage) -> PulledAnswer:
    return cast("PulledAnswer", envelope(handed.attempt) | {"receipt_handle": handed.receipt_handle})


def _results(answered: Sequence[HandleResult]) -> Answer:
    results = [
        {"receipt_handle": each.receipt_handle, "status": each.status.value}
        | ({} if each.new is None else {"new_receipt_handle": each.new})
        for each in answered
    ]
    return Answer(200, {"results": results})


_GROUP = "/topics/{topic}/subscriptions/{subscription}"

ROUTES = tuple(
    Route(name, "groups", "POST", f"{_GROUP}/{name}", serve, {200: answer}, body=body, scope=TokenScope.CONSUME)
    for name, serve, answer, body in (
        ("pull", pull_messages, PullAnswer, PullBody),
        ("ack", ack, HandlesAnswer, AckBody),
        ("nack", nack, HandlesAnswer, NackBody),
        ("extend", extend_pulls, HandlesAnswer, ExtendBody),
    )
)
