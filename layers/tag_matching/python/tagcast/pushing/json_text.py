"""Bytes and JSON as text on the wire."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def compact(value: Mapping[str, object]) -> bytes:
    """Return *value* as JSON without spaces, in UTF-8.

    >>> compact({"a": "é"}).decode(), compact({"a": "\\ud800"}).decode()
    ('{"a":"é"}', '{"a":"\\\\ud800"}')
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # A lone surrogate is legal in JSON text, but only escaped.
        return _encode_ascii(value).encode()


def valid_json(body: bytes) -> str | None:
    """Return *body* as text if it is JSON (which knows no NaN), else None.

    >>> valid_json(b"[1]"), valid_json(b"[NaN]"), valid_json(b"\\xff")
    ('[1]', None, None)
    """

    def refuse(constant: str) -> object:
        raise ValueError(constant)

    try:
        text = body.decode()
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return text


def ascii_json(text: str) -> str:
    """Return the same JSON in ASCII; outside of its strings it is that anyway.

    >>> ascii_json('["é"]')
    '["\\\\u00e9"]'
    """
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found.group())[1:-1], text)


def base64_text(octets: bytes) -> str:
    """Return *octets* as base64.

    >>> base64_text(b"\\x00")
    'AA=='
    """
    return base64.b64encode(octets).decode("ascii")
