"""Messages to publish or replay."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypedDict, TypeVar, cast

from tagcast_client.instants import json_default

T = TypeVar("T")
Body = str | bytes | Mapping[str, Any] | list[Any]
Tags = tuple[str, ...] | list[str] | set[str] | frozenset[str]
"""The types of a list of tags. Other iterables are not allowed, because a single string is an iterable, too."""
JSON_TYPE = "application/json"


class MessageAttributes(TypedDict, total=False):
    """The attributes of a message, without its body."""

    tags: Tags
    routing_key: str | None
    properties: Mapping[str, str] | None
    ordering_key: str | None
    content_type: str | None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to publish. The body is text, bytes, or an object or list that becomes JSON.

    A JSON body has the content type ``application/json`` unless you give another type. Without *traceparent*, the
    message joins the current trace.
    """

    body: Body
    tags: tuple[str, ...] | list[str] = ()
    routing_key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str | None = None
    content_type: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", list_tags(self.tags))  # The tags of an iterator can be read only once.

    @property
    def attributes(self) -> MessageAttributes:
        """The message's attributes as arguments of `publish`."""
        return cast("MessageAttributes", {name: getattr(self, name) for name in MessageAttributes.__annotations__})

    @classmethod
    def like(cls, other: Any, body: Body) -> NewMessage:
        """Return a message with *body* and the attributes of *other*, a received, listed or archived message.

        >>> NewMessage.like(NewMessage("a", tags=("x",)), "b").as_json()
        {'body': 'b', 'tags': ['x']}
        """
        look = other.get if isinstance(other, Mapping) else partial(getattr, other)
        given = {name: look(name) for name in MessageAttributes.__annotations__}
        present = {name: value for name, value in given.items() if value is not None}
        return cls(body, **present | {"tags": list_tags(present.get("tags", ()))})

    def as_json(self) -> dict[str, Any]:
        """Return the message in the API's form. Raises ValueError for NaN, TypeError for a body of another type.

        >>> NewMessage(b"\\xff", tags=("a",)).as_json()
        {'body_base64': '/w==', 'tags': ['a']}
        >>> NewMessage({"order": 17}).as_json()
        {'body': '{"order": 17}', 'content_type': 'application/json'}
        """
        body, content_type = self.body, self.content_type
        if isinstance(body, Mapping | list):
            body = json.dumps(body, ensure_ascii=False, allow_nan=False, default=json_default)
            content_type = content_type or JSON_TYPE
        if not isinstance(body, str | bytes):
            raise TypeError(f"a body is text, bytes, an object or a list, not {body!r}")
        content = {"body": body} if isinstance(body, str) else {"body_base64": base64.b64encode(body).decode()}
        others = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "body"}
        others |= {"tags": list(self.tags), "properties": dict(self.properties), "content_type": content_type}
        return content | {name: value for name, value in others.items() if value not in (None, [], {})}


def list_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return *tags* as a tuple. Raises TypeError for a single string, which would become one tag for each letter.

    A set is sorted, because its order differs between processes. A request that is repeated with the same idempotency
    key after a restart must be the same request.

    >>> list_tags(["paid", "eu"]), list_tags({"paid", "eu"})
    (('paid', 'eu'), ('eu', 'paid'))
    """
    if isinstance(tags, str):
        raise TypeError(f"tags are a list of strings, such as [{tags!r}], not one string")
    return tuple(sorted(tags) if isinstance(tags, set | frozenset) else tags)


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """An archived message to publish again. *replay_of* is its original id."""

    replay_of: str
    message: NewMessage

    def as_json(self) -> dict[str, Any]:
        """Return the message in the API's form."""
        return {"replay_of": self.replay_of, **self.message.as_json()}


def check_items(kind: type[Any], items: Iterable[T]) -> list[T]:
    """Return the items of a batch as a list. Raises TypeError for an item that is not a *kind*.

    >>> check_items(NewMessage, [NewMessage("a"), "b"])
    Traceback (most recent call last):
        ...
    TypeError: item 1 of the batch must be of type NewMessage, not 'b'
    """
    found = list(items)
    for place, item in enumerate(found):
        if not isinstance(item, kind):
            raise TypeError(f"item {place} of the batch must be of type {kind.__name__}, not {item!r}")
    return found
