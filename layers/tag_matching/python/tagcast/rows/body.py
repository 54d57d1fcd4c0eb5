"""The two forms of a body in its message's row: as it is, or deflated where that makes the row enough smaller.

See docs/tables.md, The body in a row.
"""

from __future__ import annotations

import zlib

from tagcast.model import BODY_BYTES_MAX

BODY_ATTRIBUTES = ("body", "deflated")
"""A row has one of them, or none when its message has no body any more."""
DEFLATED_FROM_BYTES, SAVED_BYTES_MIN = 256, 128
"""Shorter bodies are not deflated, nor those of which that saves less: an eighth of what a write is billed by."""


def deflated(body: bytes) -> bytes | None:
    """Return a body as zlib deflates it, or None where it is to stay as it is.

    >>> deflated(b"x" * 255), len(deflated(b"x" * 1024) or b"")
    (None, 17)
    """
    if len(body) < DEFLATED_FROM_BYTES:
        return None
    packed = zlib.compress(body)
    return packed if len(packed) <= len(body) - SAVED_BYTES_MIN else None


def inflated(packed: bytes) -> bytes:
    """Return the body that :func:`deflated` was given.

    No more than the largest body is inflated, whatever stands in the row: only this service writes it, but a few bytes
    that somebody else put there could fill the memory of every function that reads them. Raises zlib.error of what
    holds more, or is cut off.

    >>> inflated(zlib.compress(b"x" * 300)) == b"x" * 300
    True
    """
    stream = zlib.decompressobj()
    body = stream.decompress(packed, BODY_BYTES_MAX + 1)
    if len(body) > BODY_BYTES_MAX or not stream.eof:
        raise zlib.error("not one whole body")
    return body
