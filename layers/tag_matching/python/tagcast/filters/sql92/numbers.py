"""Exact numbers of any size: how the strict dialect reads texts and literals."""

import re
from decimal import Decimal

Number = int | Decimal
EXPONENT_MAX = 308
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE](?P<exponent>[+-]?[0-9]++))?")


def number_of(text: str) -> Number | None:
    """Return the exact number in *text*, or None if the text is not a number.

    A number has ASCII digits, and optionally a sign, a fraction, and an exponent of at most 308 in size.

    >>> number_of("1700000000000"), number_of("-7.50") == number_of("-75e-1"), number_of(" 7")
    (1700000000000, True, None)
    >>> number_of("1e308") is None, number_of("1e309"), number_of("NaN"), number_of("1_000")
    (False, None, None, None)
    """
    if _INTEGER.fullmatch(text):
        return int(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    exponent = match["exponent"]
    if exponent is not None:
        digits = exponent.lstrip("+-").lstrip("0") or "0"
        if len(digits) > 3 or int(digits) > EXPONENT_MAX:
            return None
    return Decimal(text)


def negate(number: Number) -> Number:
    """Return the negated number, without the rounding of decimal arithmetic."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


def truth_of(text: str) -> bool | None:
    """Return the boolean that *text* names: ``true`` or ``false``, in upper or lower case. Return None for other texts.

    >>> truth_of("True"), truth_of("FALSE"), truth_of("yes")
    (True, False, None)
    """
    return {"true": True, "false": False}.get(text.lower()) if len(text) <= 5 else None
