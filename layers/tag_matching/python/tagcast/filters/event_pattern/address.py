"""IP addresses as hexadecimal digits, parsed like EventBridge: IPv4 with dots, IPv6 with colons."""

import re
from functools import lru_cache

_V4 = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_V6 = re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_V4_CHARACTERS_MAX, _V6_CHARACTERS_MAX = 15, 128
_GROUPS = 8
_MAPPED = "0" * 20 + "FFFF"


def address_digits(text: str) -> str | None:
    """Return the 8 (IPv4) or 32 (IPv6) hexadecimal digits of an address, or None if *text* is not an address.

    An IPv4-mapped IPv6 address is read as IPv4.

    >>> address_digits("10.0.0.1"), address_digits("::ffff:0a00:1"), address_digits("1.2.3.256")
    ('0A000001', '0A000001', None)
    >>> address_digits("2001:db8::1")
    '20010DB8000000000000000000000001'
    """
    # The cache would keep longer texts of messages alive.
    return _digits_of(text) if len(text) <= _V6_CHARACTERS_MAX else None


@lru_cache(maxsize=4_096)
def _digits_of(text: str) -> str | None:
    if len(text) <= _V4_CHARACTERS_MAX and _V4.fullmatch(text):
        parts = [int(part) for part in text.split(".")]
        return "".join(f"{part:02X}" for part in parts) if max(parts) <= 0xFF else None
    if not _V6.fullmatch(text):
        return None
    before, gap, behind = text.partition("::")
    head, tail = _groups(before), _groups(behind)
    if head is None or tail is None:
        return None
    missing = _GROUPS - len(head) - len(tail)
    if missing < 1 if gap else missing:
        return None
    digits = "".join(f"{group:04X}" for group in (*head, *[0] * missing, *tail))
    return digits.removeprefix(_MAPPED)


def _groups(text: str) -> list[int] | None:
    if not text:
        return []
    parts = text.split(":")
    if "" in parts:
        return None
    groups = [int(part, 16) for part in parts]
    return groups if max(groups) <= 0xFFFF else None


def network_of(text: str) -> tuple[str, str] | str:
    """Return the digits of the first and the last address of a CIDR block, or a text that says what is wrong.

    >>> network_of("10.0.0.0/8"), network_of("10.0.0.0/32")
    (('0A000000', '0AFFFFFF'), 'must have 0 to 31 bits after the slash for IPv4')
    """
    address, _, bits = text.rstrip("/").partition("/")
    digits = address_digits(address)
    if digits is None or not re.fullmatch(r"[+-]?[0-9]{1,9}", bits, re.ASCII):
        return "must be an address, a slash and a number of bits, e.g. 10.0.0.0/8"
    size, fixed = 4 * len(digits), int(bits)
    if not 0 <= fixed < size:
        return f"must have 0 to {size - 1} bits after the slash for IPv{4 if size == 32 else 6}"
    free = (1 << (size - fixed)) - 1
    number = int(digits, 16)
    return f"{number & ~free:0{len(digits)}X}", f"{number | free:0{len(digits)}X}"
