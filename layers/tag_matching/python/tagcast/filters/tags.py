"""CMQ's rule for matching tags, and RocketMQ's tag expressions: ``TagA || TagB``."""

import re
from collections.abc import Collection

from tagcast.errors import FilterSyntaxError

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


EVERYTHING = "*"
_SEPARATOR = "||"
_OPERATOR = re.compile(r"\|\||\||&&")
# Java's String.trim: removes everything up to the blank, and nothing above it (a no-break space is part of a tag).
_TRIMMED = "".join(map(chr, range(0x21)))


def parse_tag_expression(text: str | None) -> tuple[str, ...]:
    """Return the distinct tags of an expression such as ``TagA || TagB``. Empty parts are ignored.

    The result is empty if the expression matches everything: ``*``, the empty text or ``None``.

    Raises :class:`FilterSyntaxError` if the text has only separators and blanks, has ``*`` beside tags, or has ``&&``
    or a single ``|``. RocketMQ would read ``&&`` and ``|`` as part of a tag, which authors do not expect.

    >>> parse_tag_expression(" TagA||TagB || TagA "), parse_tag_expression(" * "), parse_tag_expression(None)
    (('TagA', 'TagB'), (), ())
    """
    if not text:
        return ()
    parts = [part.strip(_TRIMMED) for part in text.split(_SEPARATOR)]
    tags = tuple(dict.fromkeys(part for part in parts if part))
    if not tags:
        raise _refuse("Expression without a tag", text, 0, "a tag or *", "Expected a tag or *, e.g. TagA || TagB")
    other = next((found for found in _OPERATOR.finditer(text) if found[0] != _SEPARATOR), None)
    if other is not None:
        hint = f"Write tags with {_SEPARATOR} between them, e.g. TagA || TagB"
        raise _refuse(f"Unexpected {other[0]!r}", text, other.start(), _SEPARATOR, hint)
    if EVERYTHING not in tags:
        return tags
    if len(tags) == 1:
        return ()
    star = sum(len(part) for part in text.split(_SEPARATOR)[: parts.index(EVERYTHING)])
    star += len(_SEPARATOR) * parts.index(EVERYTHING)
    star = text.index(EVERYTHING, star)
    expected = "* alone, or tags without *"
    raise _refuse("* combined with tags", text, star, expected, f"Write {expected}")


def _refuse(message: str, text: str, offset: int, expected: str, hint: str) -> FilterSyntaxError:
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - before.rfind("\n")
    found = text[offset : offset + 20]
    return FilterSyntaxError(message, line, column, found=found, expected=expected, hint=hint)
