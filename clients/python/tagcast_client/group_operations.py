"""The operations of members of pull groups."""

from __future__ import annotations

from collections.abc import Sequence

from tagcast_client import group_models
from tagcast_client.decoding import decode
from tagcast_client.operation import Answer, Operation, given, subscription_path


def pull(
    topic: str,
    group: str,
    max_messages: int | None,
    wait_seconds: int | None,
    invisible_seconds: int | None,
    client_id: str | None,
) -> Operation[tuple[group_models.Pulled, ...]]:
    """POST …/pull: messages of a lost answer become visible again when their visibility timeout ends."""

    def read(answer: Answer) -> tuple[group_models.Pulled, ...]:
        return tuple(decode(group_models.Pulled, each) for each in answer.json.get("messages", ()))

    body = given(
        max_messages=max_messages,
        wait_seconds=wait_seconds,
        invisible_seconds=invisible_seconds,
        client_id=client_id,
    )
    return Operation("POST", subscription_path(topic, group, "pull"), read, body)


def ack(topic: str, group: str, handles: Sequence[str]) -> Operation[tuple[group_models.Handle, ...]]:
    """POST …/ack."""
    return _said(topic, group, "ack", handles)


def nack(
    topic: str, group: str, handles: Sequence[str], delay: int | None
) -> Operation[tuple[group_models.Handle, ...]]:
    """POST …/nack."""
    return _said(topic, group, "nack", handles, delay_seconds=delay)


def extend(
    topic: str, group: str, handles: Sequence[str], invisible: int | None
) -> Operation[tuple[group_models.Handle, ...]]:
    """POST …/extend."""
    return _said(topic, group, "extend", handles, invisible_seconds=invisible)


def _said(
    topic: str, group: str, verb: str, handles: Sequence[str], **more: int | None
) -> Operation[tuple[group_models.Handle, ...]]:
    def read(answer: Answer) -> tuple[group_models.Handle, ...]:
        return tuple(decode(group_models.Handle, each) for each in answer.json.get("results", ()))

    body = given(receipt_handles=list(handles), **more)
    return Operation("POST", subscription_path(topic, group, verb), read, body)
