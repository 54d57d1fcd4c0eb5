"""Groups of consumers that pull: what the API answers, as values, and the operations that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tagcast_client.decoding import decode
from tagcast_client.filters import AnyFilter
from tagcast_client.operation import Answer, Operation, given, nothing, reads, subscription_path

Mode = Literal["clustering", "broadcasting"]
"""Whether members of a group share its messages, or each gets all of them."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live member of a group. A member with another filter receives nothing."""

    client_id: str
    client_version: str
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


def heartbeat(topic: str, group: str, client_id: str, said: Mapping[str, Any]) -> Operation[Group]:
    """PUT /topics/{topic}/subscriptions/{subscription}/clients/{client_id}."""
    body = {"filter": None, **given(**said)}
    return Operation("PUT", subscription_path(topic, group, "clients", client_id), reads(Group), body)


def leave(topic: str, group: str, client_id: str) -> Operation[None]:
    """DELETE /topics/{topic}/subscriptions/{subscription}/clients/{client_id}."""
    return Operation("DELETE", subscription_path(topic, group, "clients", client_id), nothing, gone_is_done=True)


def list_members(topic: str, group: str) -> Operation[tuple[Member, ...]]:
    """GET /topics/{topic}/subscriptions/{subscription}/clients."""

    def read(answer: Answer) -> tuple[Member, ...]:
        return tuple(decode(Member, each) for each in answer.json.get("members", ()))

    return Operation("GET", subscription_path(topic, group, "clients"), read)
