"""Every operation of the API as a value: what to send, how to read the answer, whether it may be sent twice.

Nothing here does any I/O; `Client` and `AsyncClient` carry these out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from tagcast_client import models
from tagcast_client.decoding import decode
from tagcast_client.errors import UnexpectedAnswerError

T = TypeVar("T")

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 4 * 1024 * 1024
_BATCH_BYTES_AROUND = len('{"messages": []}')


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said: the status, the text as it came, and the headers in lower case."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        """The answer as an object; empty when there was no body (204). Raises UnexpectedAnswerError."""
        if not self.text.strip():
            return {}
        try:
            parsed = json.loads(self.text)
        except ValueError as fault:
            raise UnexpectedAnswerError(f"the API's answer is no JSON: {self.text[:200]!r}") from fault
        return parsed if isinstance(parsed, dict) else {"value": parsed}


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One request and what its answer means.

    *repeatable*: sending it again after a lost answer changes nothing. *gone_is_done*: a repetition that finds
    nothing any more (404) found what the first one did.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    gone_is_done: bool = False

    @property
    def content(self) -> bytes | None:
        """The body as it is sent; a lone surrogate, legal in JSON, travels escaped."""
        if self.body is None:
            return None
        try:
            return json.dumps(self.body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list and where the next one begins (None: this was the last)."""

    items: tuple[T, ...]
    next_cursor: str | None


def path_of(*segments: str) -> str:
    """Join path segments, each quoted by itself.

    >>> path_of("topics", "a b", "messages")
    '/topics/a%20b/messages'
    """
    return "".join("/" + quote(segment, safe="") for segment in segments)


def raw(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    query: Mapping[str, str | int | None] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Operation[Answer]:
    """Any request, for what has no method of its own; query values that are None are left out."""
    given = _query(query or {})
    return Operation(method, path, lambda answer: answer, body, given, headers or {}, repeatable=method != "POST")


def _query(values: Mapping[str, str | int | bool | None]) -> dict[str, str]:
    words = {True: "true", False: "false"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _reads(kind: type[T]) -> Callable[[Answer], T]:
    return lambda answer: decode(kind, answer.json)


def _nothing(answer: Answer) -> None:
    return None


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _topic(topic: str, *more: str) -> str:
    return path_of("topics", topic, *more)


def _subscription(topic: str, name: str, *more: str) -> str:
    return path_of("topics", topic, "subscriptions", name, *more)


def _listing(kind: type[T], key: str, path: str, query: Mapping[str, str | int | bool | None]) -> Operation[Page[T]]:
    def read(answer: Answer) -> Page[T]:
        found = answer.json
        return Page(tuple(decode(kind, each) for each in found.get(key, ())), found.get("next_cursor"))

    return Operation("GET", path, read, query=_query(query))


def _key(idempotency_key: str | None) -> dict[str, str]:
    return {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def health() -> Operation[models.Health]:
    """GET /health."""
    return Operation("GET", "/health", _reads(models.Health))


def put_topic(topic: str, settings: Mapping[str, Any]) -> Operation[models.Topic]:
    """PUT /topics/{topic}."""
    return Operation("PUT", _topic(topic), _reads(models.Topic), _given(**settings))


def get_topic(topic: str) -> Operation[models.Topic]:
    """GET /topics/{topic}."""
    return Operation("GET", _topic(topic), _reads(models.Topic))


def delete_topic(topic: str) -> Operation[None]:
    """DELETE /topics/{topic}."""
    return Operation("DELETE", _topic(topic), _nothing, gone_is_done=True)


def list_topics(limit: int | None, cursor: str | None) -> Operation[Page[models.Topic]]:
    """GET /topics."""
    return _listing(models.Topic, "topics", "/topics", {"limit": limit, "cursor": cursor})


def put_subscription(
    topic: str, name: str, settings: Mapping[str, Any], if_version: int | None
) -> Operation[models.Subscription]:
    """PUT /topics/{topic}/subscriptions/{subscription}."""
    return Operation(
        "PUT",
        _subscription(topic, name),
        _reads(models.Subscription),
        _given(**settings),
        headers=_if_match(if_version),
        repeatable=if_version is None,
    )


def get_subscription(topic: str, name: str) -> Operation[models.Subscription]:
    """GET /topics/{topic}/subscriptions/{subscription}."""
    return Operation("GET", _subscription(topic, name), _reads(models.Subscription))


def delete_subscription(topic: str, name: str, if_version: int | None) -> Operation[None]:
    """DELETE /topics/{topic}/subscriptions/{subscription}."""
    return Operation("DELETE", _subscription(topic, name), _nothing, headers=_if_match(if_version), gone_is_done=True)


def list_subscriptions(topic: str, limit: int | None, cursor: str | None) -> Operation[Page[models.Subscription]]:
    """GET /topics/{topic}/subscriptions."""
    query = {"limit": limit, "cursor": cursor}
    return _listing(models.Subscription, "subscriptions", _topic(topic, "subscriptions"), query)


def list_versions(topic: str, name: str) -> Operation[tuple[models.Version, ...]]:
    """GET /topics/{topic}/subscriptions/{subscription}/versions."""

    def read(answer: Answer) -> tuple[models.Version, ...]:
        return tuple(decode(models.Version, each) for each in answer.json.get("versions", ()))

    return Operation("GET", _subscription(topic, name, "versions"), read)


def publish(topic: str, message: models.NewMessage, idempotency_key: str | None) -> Operation[models.Accepted]:
    """POST /topics/{topic}/messages."""
    return Operation(
        "POST",
        _topic(topic, "messages"),
        _reads(models.Accepted),
        message.as_json(),
        headers=_key(idempotency_key),
        repeatable=idempotency_key is not None,
    )


Result = models.Accepted | models.Refused


def _results(answer: Answer) -> tuple[Result, ...]:
    return tuple(
        decode(models.Refused, each) if "error" in each else decode(models.Accepted, each)
        for each in answer.json.get("results", ())
    )


def publish_batch(
    topic: str, messages: Sequence[Mapping[str, Any]], idempotency_key: str | None
) -> Operation[tuple[Result, ...]]:
    """POST /topics/{topic}/messages/batch."""
    return Operation(
        "POST",
        _topic(topic, "messages", "batch"),
        _results,
        {"messages": list(messages)},
        headers=_key(idempotency_key),
        repeatable=idempotency_key is not None,
    )


def replay(
    topic: str, name: str, messages: Sequence[Mapping[str, Any]], idempotency_key: str | None
) -> Operation[tuple[Result, ...]]:
    """POST /topics/{topic}/subscriptions/{subscription}/replay."""
    return Operation(
        "POST",
        _subscription(topic, name, "replay"),
        _results,
        {"messages": list(messages)},
        headers=_key(idempotency_key),
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


def get_message(topic: str, message_id: str) -> Operation[models.Message]:
    """GET /topics/{topic}/messages/{message_id}."""
    return Operation("GET", _topic(topic, "messages", message_id), _reads(models.Message))


def list_messages(topic: str, bodies: bool, limit: int | None, cursor: str | None) -> Operation[Page[models.Message]]:
    """GET /topics/{topic}/messages."""
    query = {"limit": limit, "cursor": cursor, "bodies": True if bodies else None}
    return _listing(models.Message, "messages", _topic(topic, "messages"), query)


def explain(topic: str, message_id: str, name: str) -> Operation[Mapping[str, Any]]:
    """GET /topics/{topic}/messages/{message_id}/explain."""
    path = _topic(topic, "messages", message_id, "explain")
    return Operation("GET", path, lambda answer: answer.json, query={"subscription": name})


def change_lane(topic: str, name: str, change: str) -> Operation[models.Lane]:
    """POST …/pause, …/resume or …/retry: a repetition finds the lane as it should be."""
    return Operation("POST", _subscription(topic, name, change), _reads(models.Lane))


def skip(topic: str, name: str, reason: str) -> Operation[models.Lane]:
    """POST …/skip: never repeated after a lost answer, since that might skip one more."""
    return Operation(
        "POST", _subscription(topic, name, "skip"), _reads(models.Lane), {"reason": reason}, repeatable=False
    )


def backlog(topic: str, name: str, limit: int | None, cursor: str | None) -> Operation[Page[models.Delivery]]:
    """GET /topics/{topic}/subscriptions/{subscription}/backlog."""
    query = {"limit": limit, "cursor": cursor}
    return _listing(models.Delivery, "deliveries", _subscription(topic, name, "backlog"), query)


def push(topic: str) -> Operation[tuple[str, ...]]:
    """POST /topics/{topic}/push."""
    return Operation("POST", _topic(topic, "push"), lambda answer: tuple(answer.json.get("lanes", ())))


def set_shadow(topic: str, name: str, filter: models.Filter | None) -> Operation[models.Shadow]:
    """PUT /topics/{topic}/subscriptions/{subscription}/shadow."""
    return Operation("PUT", _subscription(topic, name, "shadow"), _reads(models.Shadow), {"filter": filter})


def get_shadow(topic: str, name: str) -> Operation[models.Shadow]:
    """GET /topics/{topic}/subscriptions/{subscription}/shadow."""
    return Operation("GET", _subscription(topic, name, "shadow"), _reads(models.Shadow))


def delete_shadow(topic: str, name: str) -> Operation[None]:
    """DELETE /topics/{topic}/subscriptions/{subscription}/shadow."""
    return Operation("DELETE", _subscription(topic, name, "shadow"), _nothing, gone_is_done=True)


def promote_shadow(topic: str, name: str, shadow_version: int | None) -> Operation[models.Subscription]:
    """POST …/shadow/promote: never repeated after a lost answer, since the shadow is gone once it was promoted."""
    path = _subscription(topic, name, "shadow", "promote")
    body = _given(shadow_version=shadow_version)
    return Operation("POST", path, _reads(models.Subscription), body, repeatable=False)


def test_filter(filter: models.Filter | None, message: models.NewMessage) -> Operation[models.FilterTest]:
    """POST /filters/test."""
    body = {"filter": filter, "message": message.as_json()}
    return Operation("POST", "/filters/test", _reads(models.FilterTest), body)
