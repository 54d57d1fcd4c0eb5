"""The body of a message in bytes, and its readers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Protocol


class HasBody(Protocol):
    """A message with a body."""

    @property
    def body(self) -> bytes | None:
        """The published bytes; None after their deletion, and in lists without bodies."""


class WithBody:
    """Reads the body of a message."""

    __slots__ = ()

    def text(self: HasBody) -> str:
        """Return the body as text. Raises UnicodeDecodeError unless it is UTF-8, ValueError if the body is deleted."""
        return _octets(self).decode()

    def json(self: HasBody) -> Any:
        """Return the value of a JSON body. Raises ValueError if the body is not JSON, or is deleted."""
        return json.loads(_octets(self))


def _octets(message: HasBody) -> bytes:
    if message.body is None:
        raise ValueError("the message has no body: it is deleted, or the list was requested without bodies")
    return message.body


def body_of(found: Mapping[str, Any], text: str = "body", octets: str = "body_base64") -> bytes | None:
    """Return the body in an object of the API, given as text or base64. Return None if there is no body.

    >>> body_of({"body": "é"}), body_of({"body_base64": "/w=="}), body_of({"body": None})
    (b'\\xc3\\xa9', b'\\xff', None)
    """
    if found.get(octets) is not None:
        return base64.b64decode(found[octets], validate=True)
    value = found.get(text)
    return None if value is None else str(value).encode("utf-8", "surrogatepass")
