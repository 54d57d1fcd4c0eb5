"""A compact form of a set of subscription ordinals: the gaps between them if they are sparse, otherwise a bitmap."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, count

from tagcast.bits import flags_of

_DELTAS, _BITMAP = b"\x00", b"\x01"


def pack(ordinals: Iterable[int]) -> bytes:
    """Return *ordinals* as the gaps between them or as a bitmap, whichever is shorter.

    >>> len(pack(range(1000))), len(pack([7, 900_000])), pack([])
    (126, 5, b'\\x00')
    """
    members = sorted(set(ordinals))
    deltas = bytearray()
    previous = -1
    for member in members:
        gap = member - previous - 1
        previous = member
        while gap > 0x7F:
            deltas.append(gap & 0x7F | 0x80)
            gap >>= 7
        deltas.append(gap)
    if not members or len(deltas) <= members[-1] // 8 + 1:
        return _DELTAS + bytes(deltas)
    bitmap = bytearray(members[-1] // 8 + 1)
    for member in members:
        bitmap[member >> 3] |= 1 << (member & 7)
    return _BITMAP + bytes(bitmap)


def unpack(packed: bytes) -> frozenset[int]:
    """Return the set packed by :func:`pack`.

    >>> sorted(unpack(pack([3, 1, 500])))
    [1, 3, 500]
    """
    content = packed[1:]
    if packed[:1] == _BITMAP:
        return frozenset(compress(count(), flags_of(int.from_bytes(content, "little"))))
    members = set()
    member, gap, shift = -1, 0, 0
    for byte in content:
        gap |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            member += gap + 1
            members.add(member)
            gap, shift = 0, 0
    return frozenset(members)
