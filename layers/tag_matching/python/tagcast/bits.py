"""Turns the bits of a large number into bytes that select items (``itertools.compress``)."""

_ONES = bytes.maketrans(b"01", b"\x00\x01")


def flags_of(bits: int) -> bytes:
    """Return one byte for each bit, the lowest first: 1 if the bit is set, else 0.

    >>> flags_of(0b110)
    b'\\x00\\x01\\x01'
    """
    return bin(bits)[:1:-1].encode().translate(_ONES)
