"""CMQ's rule for matching tags, and Java's hash code of a tag."""

from collections.abc import Collection

_INT_BITS = 0xFFFFFFFF


def matches(message_tags: Collection[str], filter_tags: Collection[str]) -> bool:
    """Return whether a subscription with *filter_tags* receives a message with *message_tags*, as in CMQ.

    A subscription without tags receives everything. Otherwise the message must have one of the subscription's tags.
    Comparison is exact and case-sensitive.

    >>> matches({"apple", "imac"}, {"imac", "xiaomi"}), matches({"apple"}, {"xiaomi"})
    (True, False)
    >>> matches(set(), {"xiaomi"}), matches({"apple"}, set()), matches(set(), set())
    (False, True, True)
    """
    wanted = filter_tags if isinstance(filter_tags, (frozenset, set)) else frozenset(filter_tags)
    return not wanted or not wanted.isdisjoint(message_tags)


def java_hash_code(text: str) -> int:
    """Return Java's ``String.hashCode`` of *text*: a signed 32-bit number over the UTF-16 code units.

    Use it only as a prefilter, and then compare the exact texts, because different tags may have the same code.

    >>> java_hash_code("TagA"), java_hash_code("Aa") == java_hash_code("BB")
    (2598919, True)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _INT_BITS
    return code - 0x1_0000_0000 if code > 0x7FFFFFFF else code
