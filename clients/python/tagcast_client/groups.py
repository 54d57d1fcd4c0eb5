"""Groups of consumers that pull: what the API answers, as values, and the operations that ask for it."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tagcast_client.decoding import decode
from tagcast_client.models import Filter
from tagcast_client.operation import Answer, Operation, given, nothing, reads, subscription_path


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer of a group that is alive; one that does not agree with its filter is given nothing."""

    client_id: str
    client_version: str
    agrees: bool
    joined_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a member sees it: *subscription* is what it pulls from."""

    subscription: str
    group_version: int
    filter: Filter | None
    mode: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Pulled:
    """A message as a member of a group gets it; *attempt* counts its pulls.

    Deliveries may repeat: the *message_id* is the same then.
    """

    message_id: str
    topic: str
    subscription: str
    attempt: int
    receipt_handle: str
    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    ordering_key: str | None
    content_type: str | None
    accepted_at: datetime
    expires_at: datetime
    body: str | None = None
    body_base64: str | None = None
    replay_of: str | None = None

    @property
    def content(self) -> bytes:
        """The body as it was published."""
        return b64decode(self.body_base64 or "") if self.body is None else self.body.encode()

    @property
    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError."""
        return self.content.decode()

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class HandleResult:
    """What became of one receipt handle; *new_receipt_handle* stands for it since it was extended."""

    receipt_handle: str
    status: str
    new_receipt_handle: str | None = None


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


def pull(topic: str, group: str, wish: Mapping[str, Any]) -> Operation[tuple[Pulled, ...]]:
    """POST …/pull: a repetition after a lost answer gets other messages; those come again when their time is up."""

    def read(answer: Answer) -> tuple[Pulled, ...]:
        return tuple(decode(Pulled, each) for each in answer.json.get("messages", ()))

    return Operation("POST", subscription_path(topic, group, "pull"), read, given(**wish))


def answer(
    topic: str, group: str, word: str, handles: Sequence[str], **more: int
) -> Operation[tuple[HandleResult, ...]]:
    """POST …/ack, …/nack or …/extend: a repetition is told how the handles stand."""

    def read(answer: Answer) -> tuple[HandleResult, ...]:
        return tuple(decode(HandleResult, each) for each in answer.json.get("results", ()))

    body = {"receipt_handles": list(handles), **more}
    return Operation("POST", subscription_path(topic, group, word), read, body)
