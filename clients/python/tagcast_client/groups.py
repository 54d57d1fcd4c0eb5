"""Groups of consumers that pull: what the API answers, as values, and the operations that ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tagcast_client.filters import AnyFilter
from tagcast_client.operation import Operation, given, nothing, reads, reads_list, subscription_path
from tagcast_client.received import Received

Mode = Literal["clustering", "broadcasting"]
"""Whether members of a group share its messages, or each gets all of them."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live member of a group. A member with another filter receives nothing."""

    member_id: str
    member_version: str
    agrees: bool
    joined_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Group:
    """A group as seen by a member, which pulls from *subscription*."""

    subscription: str
    group_version: int
    filter: AnyFilter | None
    mode: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Pulled(Received):
    """A pulled message: the fields of a push, and the *receipt_handle* of this pull.

    Code that handles a `Received` handles it, too.
    """

    content_type: str | None
    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    ordering_key: str | None
    accepted_at: datetime
    expires_at: datetime
    receipt_handle: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Handle:
    """Outcome of a request for one receipt handle.

    *status*: acknowledged, returned or extended; already_acknowledged, over (it ended otherwise), expired (its time was
    over) or unknown (no handle of this group) if nothing was changed. Once extended, *new_receipt_handle* stands for
    the pull.
    """

    receipt_handle: str
    status: str
    new_receipt_handle: str | None = None


def heartbeat(topic: str, group: str, member_id: str, said: Mapping[str, Any]) -> Operation[Group]:
    """PUT /topics/{topic}/subscriptions/{subscription}/members/{member_id}."""
    body = {"filter": None, **given(**said)}
    return Operation("PUT", subscription_path(topic, group, "members", member_id), reads(Group), body)


def leave(topic: str, group: str, member_id: str) -> Operation[None]:
    """DELETE /topics/{topic}/subscriptions/{subscription}/members/{member_id}."""
    return Operation("DELETE", subscription_path(topic, group, "members", member_id), nothing, gone_is_done=True)


def list_members(topic: str, group: str) -> Operation[tuple[Member, ...]]:
    """GET /topics/{topic}/subscriptions/{subscription}/members."""
    return Operation("GET", subscription_path(topic, group, "members"), reads_list(Member, "members"))


def pull(
    topic: str,
    group: str,
    max_messages: int | None,
    wait_seconds: int | None,
    visibility_timeout_seconds: int | None,
    member_id: str | None,
) -> Operation[tuple[Pulled, ...]]:
    """POST …/pull: messages of a lost answer become visible again when their visibility timeout ends."""
    body = given(
        max_messages=max_messages,
        wait_seconds=wait_seconds,
        visibility_timeout_seconds=visibility_timeout_seconds,
        member_id=member_id,
    )
    return Operation("POST", subscription_path(topic, group, "pull"), reads_list(Pulled, "messages"), body)


def ack(topic: str, group: str, handles: Sequence[str]) -> Operation[tuple[Handle, ...]]:
    """POST …/ack."""
    return _said(topic, group, "ack", handles)


def nack(topic: str, group: str, handles: Sequence[str], delay: int | None) -> Operation[tuple[Handle, ...]]:
    """POST …/nack."""
    return _said(topic, group, "nack", handles, delay_seconds=delay)


def extend(topic: str, group: str, handles: Sequence[str], invisible: int | None) -> Operation[tuple[Handle, ...]]:
    """POST …/extend."""
    return _said(topic, group, "extend", handles, visibility_timeout_seconds=invisible)


def _said(
    topic: str, group: str, verb: str, handles: Sequence[str], **more: int | None
) -> Operation[tuple[Handle, ...]]:
    body = given(receipt_handles=list(handles), **more)
    return Operation("POST", subscription_path(topic, group, verb), reads_list(Handle, "results"), body)
