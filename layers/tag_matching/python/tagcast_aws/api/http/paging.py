"""Pages of lists: the cursor in a request, the answer with the next cursor, and the size of its items."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from tagcast_aws.api.limits import CURSOR, CURSOR_LENGTH_MAX

PAGING = ("limit", "cursor")
"""The query parameters of every list."""


def page(name: str, items: list[Any], cursor: str | None) -> Mapping[str, Any]:
    """Return the answer with one page of a list. The items are in the field *name*.

    *cursor* is the encoded cursor of the next page; None after the last page.

    >>> page("topics", [], None)
    {'topics': [], 'next_cursor': None}
    """
    return {name: items, "next_cursor": cursor}


def encode_cursor(cursor: str | None) -> str | None:
    """Return *cursor* as opaque text for callers. If there is no further page, *cursor* and the result are None.

    >>> decode_cursor(encode_cursor("orders"))
    'orders'
    """
    return None if cursor is None else base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")


def decode_cursor(text: str) -> str | None:
    """Return the cursor that :func:`encode_cursor` wrote as *text*; None if *text* is invalid."""
    if not text or len(text) > CURSOR_LENGTH_MAX or not re.fullmatch(CURSOR, text):
        return None
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return None


def json_text(value: Any) -> str:
    """Return the value of an answer as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encoded_size(value: Any) -> int:
    r"""Return the maximum size in bytes of *value* in a Lambda response, in which JSON is escaped as a string.

    >>> encoded_size({"body": "\x01"}) == len(r'{\"body\":\"\\u0001\"}')
    True
    """
    return len(json.dumps(json_text(value))) - 2
