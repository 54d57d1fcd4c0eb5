"""The body of a message in bytes, and its readers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any


class WithBody:
    """Gives a message methods that read its *body*. *body* is None if it was deleted, or in a list without bodies."""

    __slots__ = ()
    body: bytes | None

    def text(self) -> str:
        """Return the body as text. Raises UnicodeDecodeError if the body is not UTF-8, ValueError if there is none."""
        return self._octets().decode()

    def json(self) -> Any:
        """Return the value of a JSON body. Raises ValueError if the body is not JSON, or if there is none."""
        return json.loads(self._octets())

    def _octets(self) -> bytes:
        if self.body is None:
            raise ValueError("the message has no body: it is deleted, or the list was requested without bodies")
        return self.body


def body_of(found: Mapping[str, Any], text: str = "body", octets: str = "body_base64") -> bytes | None:
    """Return the body in *found*, an object of the API. Return None if there is no body.

    *text* and *octets* are the names of the fields with the body as text and as base64.

    >>> body_of({"body": "é"}), body_of({"body_base64": "/w=="}), body_of({"body": None})
    (b'\\xc3\\xa9', b'\\xff', None)
    """
    if found.get(octets) is not None:
        return base64.b64decode(found[octets], validate=True)
    value = found.get(text)
    return None if value is None else str(value).encode("utf-8", "surrogatepass")
