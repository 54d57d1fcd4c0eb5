"""Headers of a push: how values travel in them, and how much room they have together."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

HEADERS_BYTES_MAX = 4096
HEADER_BYTES_AROUND = len(": \r\n")
UTF8_BYTES_MAX = 4
"""A character takes at most so many bytes."""
_LEFT_OUT = ("x-tagcast-tags", "ce-tracestate", "tracestate", "ce-partitionkey", "x-cmq-message-tag")

_CE_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def cloudevent_header(value: str) -> str:
    """Return *value* as a ``ce-`` header carries it (CloudEvents HTTP binding, 3.1.3.2).

    Space, double quote, percent and all that is not printable ASCII become percent-encoded UTF-8.

    >>> cloudevent_header('Euro € 😀 "5%"')
    'Euro%20%E2%82%AC%20%F0%9F%98%80%20%225%25%22'
    """
    return quote(value, safe=_CE_PLAIN, errors="replace")


def fitting(headers: dict[str, str]) -> dict[str, str]:
    """Return *headers* in at most 4 KiB: what would be missed least is left out first."""
    characters = sum(map(len, headers)) + sum(map(len, headers.values()))
    if UTF8_BYTES_MAX * characters + HEADER_BYTES_AROUND * len(headers) <= HEADERS_BYTES_MAX:
        return headers
    kept, octets = dict(headers), header_bytes(headers)
    for name in _LEFT_OUT:
        if octets > HEADERS_BYTES_MAX and name in kept:
            octets -= header_bytes({name: kept.pop(name)})
    return kept


def header_bytes(headers: Mapping[str, str]) -> int:
    """Return how many bytes *headers* take in a request.

    >>> header_bytes({"x-tenant": "a"})
    13
    """
    return sum(len(f"{name}{value}".encode()) + HEADER_BYTES_AROUND for name, value in headers.items())
