"""The operations that publish, and how a batch is split by the API's limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tagcast_client import models
from tagcast_client.decoding import decode
from tagcast_client.operation import Answer, Operation, key_header, reads, subscription_path, topic_path

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 4 * 1024 * 1024
_BATCH_BYTES_AROUND = len('{"messages": []}')


def publish(
    topic: str, message: models.NewMessage, idempotency_key: str | None, trace: Mapping[str, str]
) -> Operation[models.Accepted]:
    """POST /topics/{topic}/messages; *trace* are headers."""
    return Operation(
        "POST",
        topic_path(topic, "messages"),
        reads(models.Accepted),
        message.as_json(),
        headers={**key_header(idempotency_key), **trace},
        repeatable=idempotency_key is not None,
    )


Result = models.Accepted | models.Refused


def _results(answer: Answer) -> tuple[Result, ...]:
    return tuple(
        decode(models.Refused, each) if "error" in each else decode(models.Accepted, each)
        for each in answer.json.get("results", ())
    )


def publish_batch(
    topic: str, messages: Sequence[Mapping[str, Any]], idempotency_key: str | None, trace: Mapping[str, str]
) -> Operation[tuple[Result, ...]]:
    """POST /topics/{topic}/messages/batch; *trace* are headers."""
    return Operation(
        "POST",
        topic_path(topic, "messages", "batch"),
        _results,
        {"messages": list(messages)},
        headers={**key_header(idempotency_key), **trace},
        repeatable=idempotency_key is not None,
    )


def replay(
    topic: str, name: str, messages: Sequence[Mapping[str, Any]], idempotency_key: str | None
) -> Operation[tuple[Result, ...]]:
    """POST /topics/{topic}/subscriptions/{subscription}/replay."""
    return Operation(
        "POST",
        subscription_path(topic, name, "replay"),
        _results,
        {"messages": list(messages)},
        headers=key_header(idempotency_key),
        repeatable=idempotency_key is not None,
    )


def parts(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Sequence[Mapping[str, Any]]]]:
    """Split a batch by the API's limits; each part comes with the place of its first message.

    A message that is too large alone is a part of its own, which the API refuses.

    >>> [(place, len(part)) for place, part in parts([{"body": "x"}] * 250)]
    [(0, 100), (100, 100), (200, 50)]
    """
    start, size = 0, _BATCH_BYTES_AROUND
    for place, message in enumerate(messages):
        # What `Operation.content` may write at most: everything escaped.
        more = len(json.dumps(message)) + len(", ")
        if place > start and (place - start == BATCH_MESSAGES_MAX or size + more > BATCH_BYTES_MAX):
            yield start, messages[start:place]
            start, size = place, _BATCH_BYTES_AROUND
        size += more
    if start < len(messages):
        yield start, messages[start:]


def key_of_part(idempotency_key: str, place: int) -> str:
    """Return the idempotency key of a part of a batch: the batch's own for the first one.

    >>> key_of_part("k", 0), key_of_part("k", 100)
    ('k', 'k+100')
    """
    return f"{idempotency_key}+{place}" if place else idempotency_key
