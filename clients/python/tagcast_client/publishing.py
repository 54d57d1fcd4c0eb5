"""The operations that publish, and how a batch is split by the API's limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tagcast_client import models
from tagcast_client.instants import json_default
from tagcast_client.operation import Answer, Operation, reads, reads_results, subscription_path, topic_path

T = TypeVar("T")

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 4 * 1024 * 1024
_BATCH_BYTES_AROUND = len('{"subscriptions": []}')


Result = models.Accepted | models.Refused


def publish(
    topic: str, message: models.NewMessage, idempotency_key: str | None, trace: Mapping[str, str]
) -> Operation[models.Accepted]:
    """POST /topics/{topic}/messages; *trace* are headers."""
    return _post(topic_path(topic, "messages"), reads(models.Accepted), message.as_json(), idempotency_key, trace)


def publish_batch(
    topic: str, messages: Sequence[Mapping[str, Any]], idempotency_key: str | None, trace: Mapping[str, str]
) -> Operation[tuple[Result, ...]]:
    """POST /topics/{topic}/messages/batch; *trace* are headers."""
    path, body = topic_path(topic, "messages", "batch"), {"messages": list(messages)}
    return _post(path, reads_results(models.Accepted), body, idempotency_key, trace)


def replay(
    topic: str, name: str, messages: Sequence[Mapping[str, Any]], idempotency_key: str | None
) -> Operation[tuple[Result, ...]]:
    """POST /topics/{topic}/subscriptions/{subscription}/replay."""
    path, body = subscription_path(topic, name, "replay"), {"messages": list(messages)}
    return _post(path, reads_results(models.Accepted), body, idempotency_key, {})


def _post(
    path: str, read: Callable[[Answer], T], body: Mapping[str, Any], key: str | None, headers: Mapping[str, str]
) -> Operation[T]:
    """Return a request that may be repeated if it has an idempotency key."""
    named = {} if key is None else {"Idempotency-Key": key}
    return Operation("POST", path, read, body, headers={**named, **headers}, repeatable=key is not None)


def parts(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Sequence[Mapping[str, Any]]]]:
    """Split a batch by the API's limits; each part comes with the place of its first item.

    An item that is too large alone is a part of its own, which the API refuses.

    >>> [(place, len(part)) for place, part in parts([{"body": "x"}] * 250)]
    [(0, 100), (100, 100), (200, 50)]
    """
    start, size = 0, _BATCH_BYTES_AROUND
    for place, item in enumerate(items):
        # What `Operation.content` may write at most: everything escaped.
        more = len(json.dumps(item, default=json_default)) + len(", ")
        if place > start and (place - start == BATCH_MESSAGES_MAX or size + more > BATCH_BYTES_MAX):
            yield start, items[start:place]
            start, size = place, _BATCH_BYTES_AROUND
        size += more
    if start < len(items):
        yield start, items[start:]


def named_again(items: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the places of items whose name an earlier one has: in two parts, the later would replace the earlier.

    >>> named_again([{"name": "a"}, {"name": "b"}, {"name": "a"}, {}, {}])
    (2,)
    """
    names, first = [item.get("name") for item in items], dict[str, int]()
    return tuple(p for p, name in enumerate(names) if isinstance(name, str) and first.setdefault(name, p) != p)
