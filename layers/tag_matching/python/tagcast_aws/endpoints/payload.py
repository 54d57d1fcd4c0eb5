"""The body of a POST in parts. All pushes of a message share the largest part, the message's body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

JOINED_BYTES_MAX = 64 * 1024
"""Up to this size, a body is cheaper to send in one piece with the headers."""
SLICE_BYTES = 16 * 1024
"""A large body is written 16 KiB at a time, because the transport buffers bytes for a slow receiver."""


class SharedPayload(Payload):
    """Writes the parts in slices and waits for the receiver in between, so that no push copies the body."""

    def __init__(self, parts: Sequence[bytes], content_type: str) -> None:
        super().__init__(parts, content_type=content_type)
        self._parts = parts
        self._size = sum(map(len, parts))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the whole body as text."""
        return b"".join(self._parts).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the whole body."""
        for each in slices(self._parts, SLICE_BYTES):
            await writer.write(each)
            await writer.drain()


def slices(parts: Iterable[bytes], most: int) -> Iterator[bytes | memoryview]:
    """Yield *parts* in slices of up to *most* bytes. Small parts are joined: each slice costs a call and a TLS record.

    >>> [bytes(each) for each in slices([b"[", b"a", b",", b"bbbbbb", b"c", b"]"], 4)]
    [b'[a,', b'bbbb', b'bb', b'c]']
    """
    small: list[bytes] = []
    room = most
    for part in parts:
        if small and len(part) > room:
            yield b"".join(small)
            small, room = [], most
        if len(part) > most:
            view = memoryview(part)
            yield from (view[start : start + most] for start in range(0, len(view), most))
        else:
            small.append(part)
            room -= len(part)
    if small:
        yield b"".join(small)


def body_of(parts: Sequence[bytes], content_type: str) -> bytes | SharedPayload:
    """Return *parts* joined if they are small, otherwise as a payload that is sent in slices."""
    return b"".join(parts) if sum(map(len, parts)) <= JOINED_BYTES_MAX else SharedPayload(parts, content_type)
