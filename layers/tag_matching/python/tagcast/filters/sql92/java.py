"""Java's way to parse and to compare values, with all quirks that the rocketmq dialect needs."""

import re

from tagcast.errors import FilterEvaluationError

JavaValue = str | bool | int | float
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_TRIMMED = "".join(map(chr, range(0x21)))
_DIGITS = re.compile(r"[+-]?\d++")
_DOUBLE = re.compile(
    r"(?P<special>[+-]?(?:NaN|Infinity))"
    r"|(?P<decimal>[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?"
    r"|(?P<hex>[+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)


def is_int(number: int) -> bool:
    """Return whether RocketMQ reads a literal with this *number* as Java's ``int``. Otherwise it is a ``long``.

    RocketMQ reads the digits first, and then negates the number. So the literal of the smallest int is a ``long``.

    >>> is_int(2147483647), is_int(-2147483648)
    (True, False)
    """
    return -INT_MAX <= number <= INT_MAX


def parse_whole(text: str, most: int) -> int:
    """Parse *text* like ``Integer.valueOf`` or ``Long.valueOf``. It may have a sign and Unicode digits up to U+FFFF.

    *most* is the type's maximum. Raises FilterEvaluationError if the text is not a number of this type.

    >>> parse_whole("+007", INT_MAX)
    7
    """
    if _DIGITS.fullmatch(text) and all(character <= "\uffff" for character in text):
        digits = text.lstrip("+-")
        if len(digits) <= 4_000:
            number = int(text)
            if -most - 1 <= number <= most:
                return number
        elif not digits.strip("0"):
            return 0
    raise FilterEvaluationError(f"{text[:80]!r} is not {'an int' if most == INT_MAX else 'a long'}")


def parse_double(text: str) -> float:
    """Parse *text* like ``Double.valueOf``, which allows blanks around it, type suffixes, hexadecimal, NaN, Infinity.

    Raises FilterEvaluationError if the text is not a double.

    >>> parse_double(" 1e3 "), parse_double("7d"), parse_double("0x1.8p0"), parse_double("-Infinity")
    (1000.0, 7.0, 1.5, -inf)
    """
    match = _DOUBLE.fullmatch(text.strip(_TRIMMED))
    if match is None:
        raise FilterEvaluationError(f"{text[:80]!r} is not a double")
    if match["hex"] is None:
        return float(match["special"] or match["decimal"])
    try:
        return float.fromhex(match["hex"])
    except OverflowError:
        return float("-inf") if match["hex"].startswith("-") else float("inf")


def compare(left: JavaValue, right: JavaValue) -> int:
    """Compare like RocketMQ. Return a number below zero if *left* is less, zero if both are equal, else above zero.

    A text is read as the type of the other side. Between a boolean and a number, *left* is always less. Raises
    FilterEvaluationError if the text is unreadable, or if *left* is a boolean and *right* is a text.

    >>> compare("9", 10) < 0, compare(1, 1.0), compare(1, True)
    (True, 0, -1)
    """
    if isinstance(left, bool):
        if isinstance(right, str):
            raise FilterEvaluationError("a boolean cannot be compared with a text")
        return (left > right) - (left < right) if isinstance(right, bool) else -1
    if isinstance(right, bool):
        if not isinstance(left, str):
            return -1
        truth = left.lower() == "true"
        return (truth > right) - (truth < right)
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        left = _read_as(left, right)
    elif isinstance(right, str):
        right = _read_as(right, left)
    if isinstance(left, float) or isinstance(right, float):
        return compare_doubles(float(left), float(right))
    return (left > right) - (left < right)


def compare_doubles(left: float, right: float) -> int:
    """Compare like ``Double.compareTo``: NaN is above all other numbers and equal to itself; -0.0 is below 0.0.

    >>> compare_doubles(float("nan"), 1.0), compare_doubles(-0.0, 0.0)
    (1, -1)
    """
    left_is_nan, right_is_nan = left != left, right != right
    if left_is_nan or right_is_nan:
        return left_is_nan - right_is_nan
    if left == right == 0.0:
        return str(left).startswith("-") * -1 + str(right).startswith("-")
    return (left > right) - (left < right)


def equal(left: JavaValue | None, right: JavaValue | None) -> bool | None:
    """Return the result of RocketMQ's ``=``. A side is None if its value is missing; a result of None is unknown.

    As in RocketMQ, the result is None if only *left* is missing, and False if only *right* is missing.

    >>> equal(None, None), equal(None, "x"), equal("x", None)
    (True, None, False)
    """
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    return compare(left, right) == 0


def order(left: JavaValue | None, right: JavaValue | None) -> int | None:
    """Return the result of :func:`compare` for ``< <= > >=``, but read two texts as doubles.

    A side is None if its value is missing. Then the result is None (unknown).

    >>> order("10", "9"), order(None, 1)
    (1, None)
    """
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return compare_doubles(parse_double(left), parse_double(right))
    return compare(left, right)


def _read_as(text: str, other: int | float) -> int | float:
    if isinstance(other, float):
        return parse_double(text)
    return parse_whole(text, INT_MAX if is_int(other) else LONG_MAX)
