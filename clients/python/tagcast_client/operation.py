"""One request to the API as a value: what to send, how to read the answer, whether it may be sent twice.

Nothing here does any I/O; `Client` and `AsyncClient` carry operations out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from tagcast_client import models
from tagcast_client.decoding import decode
from tagcast_client.errors import UnexpectedAnswerError
from tagcast_client.instants import json_default

T = TypeVar("T")
Json = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API: the status, the unchanged text, and the headers in lower case."""

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
            raise UnexpectedAnswerError(f"the API's answer is not JSON: {self.text[:200]!r}") from fault
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
            return json.dumps(self.body, ensure_ascii=False, default=json_default).encode()
        except UnicodeEncodeError:
            return json.dumps(self.body, default=json_default).encode()

    @property
    def creates(self) -> bool:
        """Whether the request is refused if what it makes exists."""
        return "If-None-Match" in self.headers


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
    """Any request, for routes without a method; query values of None are left out."""
    given = query_of(query or {})
    return Operation(method, path, lambda answer: answer, body, given, headers or {}, repeatable=method != "POST")


def query_of(values: Mapping[str, str | int | bool | None]) -> dict[str, str]:
    """Return query parameters as they are sent; None is left out."""
    words = {True: "true", False: "false"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def reads(kind: type[T]) -> Callable[[Answer], T]:
    """Return a reader of answers that are a *kind*."""
    return lambda answer: decode(kind, answer.json)


def reads_list(kind: type[T], key: str) -> Callable[[Answer], tuple[T, ...]]:
    """Return a reader of answers that have a list of a *kind* under *key*."""
    return lambda answer: tuple(decode(kind, each) for each in answer.json.get(key, ()))


def reads_results(kind: type[T]) -> Callable[[Answer], tuple[T | models.Refused, ...]]:
    """Return a reader of answers that hold a *kind*, or why it was refused, for each item of a batch."""
    return lambda answer: tuple(
        decode(models.Refused, each) if "error" in each else decode(kind, each)
        for each in answer.json.get("results", ())
    )


def nothing(answer: Answer) -> None:
    """Read an answer that says nothing."""
    return


def given(**fields: Any) -> dict[str, Any]:
    """Return what is not None."""
    return {name: value for name, value in fields.items() if value is not None}


def topic_path(topic: str, *more: str) -> str:
    """Return a path below a topic."""
    return path_of("topics", topic, *more)


def subscription_path(topic: str, name: str, *more: str) -> str:
    """Return a path below a subscription."""
    return path_of("topics", topic, "subscriptions", name, *more)


def listing(kind: type[T], key: str, path: str, query: Mapping[str, str | int | bool | None]) -> Operation[Page[T]]:
    """Return the operation of one page of a list, whose items stand under *key*."""

    def read(answer: Answer) -> Page[T]:
        found = answer.json
        return Page(tuple(decode(kind, each) for each in found.get(key, ())), found.get("next_cursor"))

    return Operation("GET", path, read, query=query_of(query))


def condition(version: int | None) -> dict[str, str]:
    """Return the headers that make a change conditional on a version."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def key_of_part(idempotency_key: str, place: int) -> str:
    """Return the idempotency key of a part of a batch: the batch's own for the first one.

    >>> key_of_part("k", 0), key_of_part("k", 100)
    ('k', 'k+100')
    """
    return f"{idempotency_key}+{place}" if place else idempotency_key
