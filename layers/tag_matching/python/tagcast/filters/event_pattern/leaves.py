"""The leaves of a pattern: comparisons of one value with an operator. They are plain data that can be pickled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import contains
from typing import Any

from tagcast.filters.event_pattern.address import address_digits
from tagcast.filters.event_pattern.event import Decimals, Raw, Value

_REMEMBERED = 4_096
_TEXTS_REMEMBERED = 256
_SIGMA = "Σ"
_VALUE_WEIGHT, _ADDRESS_WEIGHT = 3, 40
Token = str | float | Raw
"""A value that a lookup can find: a text, a number, or a :class:`Raw`."""


@dataclass(frozen=True, slots=True)
class Equals:
    """Equality with *token*: a text, a number, or a :class:`Raw` such as true, false or null."""

    token: Token

    def holds(self, value: Value) -> bool:
        """Return whether *value* equals the token. Numbers are compared by value. A text never equals a number."""
        return value == self.token


@dataclass(frozen=True, slots=True)
class Address:
    """Equality with an IP address, in any notation of the address.

    *digits* are its hexadecimal digits: 8 for IPv4, 32 for IPv6. *text* is the address as written in the pattern.
    """

    digits: str
    text: str

    def holds(self, value: Value) -> bool:
        """Return whether *value* is a text with this address. The addresses are compared as hexadecimal digits.

        As in EventBridge, only the first 8 digits of *value* count if this address is IPv4, even if *value* is IPv6.
        """
        digits = address_digits(value) if isinstance(value, str) else None
        return digits is not None and digits.startswith(self.digits)


@dataclass(frozen=True, slots=True)
class Cidr:
    """A block of IP addresses: its first and last address, each as 8 (IPv4) or 32 (IPv6) hexadecimal digits."""

    first: str
    last: str

    def holds(self, value: Value) -> bool:
        """Return whether *value* is an address in the block.

        As in EventBridge, digits are compared from the left, even if *value* has the other IP version. So the block
        0.0.0.0/0 contains every address.
        """
        digits = address_digits(value) if isinstance(value, str) else None
        if digits is None:
            return False
        size = len(self.first)
        if len(digits) >= size:
            return self.first <= digits[:size] <= self.last
        return self.first[: len(digits)] < digits < self.last[: len(digits)]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A comparison that a text with this prefix meets."""

    text: str

    def holds(self, value: Value) -> bool:
        """Return whether a value is a text with the prefix."""
        return isinstance(value, str) and value.startswith(self.text)


@dataclass(frozen=True, slots=True)
class Suffix:
    """A comparison that a text with this suffix meets."""

    text: str

    def holds(self, value: Value) -> bool:
        """Return whether a value is a text with the suffix."""
        return isinstance(value, str) and value.endswith(self.text)


@dataclass(frozen=True, slots=True)
class IgnoringCase:
    """A case-insensitive comparison with *text*.

    *where* is ``prefix`` or ``suffix`` if the value must start or end with *text*, and empty if it must equal *text*. A
    character matches only its lower and its upper case.
    """

    text: str
    where: str = ""

    def holds(self, value: Value) -> bool:
        """Return whether a value is a text that matches."""
        if not isinstance(value, str):
            return False
        text, size = self.text, len(self.text)
        if not size:
            return bool(self.where) or not value
        seen = value[:size] if self.where == "prefix" else value[-size:] if self.where == "suffix" else value
        if text.isascii():
            # Both cases of an ASCII character are ASCII.
            return len(seen) == size and seen.isascii() and seen.lower() == text.lower()
        cases = both_cases(text)
        if cases is not None:
            return len(seen) == size and all(map(contains, zip(*cases, strict=True), seen))
        if self.where == "suffix":
            # Compare from the end: a long value costs no more than the suffix.
            return _end_of(value[-3 * size :][::-1], cases_of(text, backwards=True)) >= 0
        end = _end_of(value, cases_of(text))
        return end >= 0 and (self.where == "prefix" or end == len(value))


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def both_cases(text: str) -> tuple[str, str] | None:
    """Return a text in lower and in upper case. Return None if the case of a character has several characters.

    >>> both_cases("aé"), both_cases("aß")
    (('aé', 'AÉ'), None)
    """
    # Character by character: lower() of a whole text changes a sigma at the end of a word.
    lower, upper = text.replace(_SIGMA, _SIGMA.lower()).lower(), text.upper()
    return (lower, upper) if len(lower) == len(upper) == len(text) else None


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def cases_of(text: str, *, backwards: bool = False) -> tuple[tuple[str, ...], ...]:
    """Return a tuple for each character of *text*, with its lower and upper case, or one text if both are the same.

    A case may have up to three characters. If *backwards*, the last character comes first, and each case is reversed.

    >>> cases_of("aß1")
    (('a', 'A'), ('ß', 'SS'), ('1',))
    """
    forms = map(_cases_of_one, text)
    return tuple(tuple(form[::-1] for form in each) for each in reversed(tuple(forms))) if backwards else tuple(forms)


@lru_cache(maxsize=_REMEMBERED)
def _cases_of_one(character: str) -> tuple[str, ...]:
    lower, upper = character.lower(), character.upper()
    return (lower,) if lower == upper else (lower, upper)


def _end_of(value: str, forms: tuple[tuple[str, ...], ...]) -> int:
    """Return the offset after the part of *value* that *forms* match from its beginning, or -1.

    *forms* has the cases of each character (:func:`cases_of`). The cases of one character share no prefix.
    """
    place = 0
    for each in forms:
        for form in each:
            if value.startswith(form, place):
                place += len(form)
                break
        else:
            return -1
    return place


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A comparison with a text in which each ``*`` matches any characters, also none.

    *parts* are the texts before, between and after the ``*`` signs. A part may be empty.
    """

    parts: tuple[str, ...]

    def holds(self, value: Value) -> bool:
        """Return whether *value* is a text that matches. Each part is searched once, after the part before it."""
        if not isinstance(value, str):
            return False
        first, last = self.parts[0], self.parts[-1]
        if len(self.parts) == 1:
            return value == first
        place, end = len(first), len(value) - len(last)
        if place > end or not value.startswith(first) or not value.endswith(last):
            return False
        for part in self.parts[1:-1]:
            found = value.find(part, place, end)
            if found < 0:
                return False
            place = found + len(part)
        return True


def wildcard_parts(text: str) -> tuple[str, ...] | str:
    """Return the parts of a wildcard, or a text with the position of an error: ``character 2: …``.

    >>> wildcard_parts("a*.jpg"), wildcard_parts("a\\\\*b"), wildcard_parts("a**")
    (('a', '.jpg'), ('a*b',), 'character 2: two * must not follow each other')
    """
    parts, part, place = [], "", 0
    while place < len(text):
        character = text[place]
        if character == "*":
            if text[place + 1 : place + 2] == "*":
                return f"character {place + 1}: two * must not follow each other"
            parts.append(part)
            part = ""
        elif character == "\\":
            place += 1
            if text[place : place + 1] not in ("*", "\\"):
                return f"character {place}: a backslash must be followed by * or another backslash"
            part += text[place]
        else:
            part += character
        place += 1
    return (*parts, part)


@dataclass(frozen=True, slots=True)
class Numeric:
    """A comparison with the range of numbers from *low* to *high*. A bound of None means no limit.

    If *low_open* or *high_open*, the bound itself is not in the range.
    """

    low: float | None
    low_open: bool
    high: float | None
    high_open: bool

    def holds(self, value: Value) -> bool:
        """Return whether *value* is a number in the range. A :class:`Raw` never is."""
        if type(value) is not float:
            return False
        if self.low is not None and (value <= self.low if self.low_open else value < self.low):
            return False
        return self.high is None or (value < self.high if self.high_open else value <= self.high)


@dataclass(frozen=True, slots=True)
class Exists:
    """A comparison that any value meets. An empty object or list does not count as a value."""

    def holds(self, value: Value) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class Absent:
    """A comparison that is met if the path has no value.

    No value meets it, so :mod:`tagcast.filters.event_pattern.evaluate` checks whether the path is absent.
    """

    def holds(self, value: Value) -> bool:
        """Return False, because the path has a value."""
        return False


Listed = Equals | Prefix | Suffix | IgnoringCase | Wildcard


@dataclass(frozen=True, slots=True)
class AnythingBut:
    """A comparison (``anything-but``) that a value meets if none of the leaves *but* holds for the value."""

    but: tuple[Listed, ...]

    def holds(self, value: Value) -> bool:
        """Return whether no leaf in *but* holds for *value*."""
        return not any(each.holds(value) for each in self.but)


Leaf = Equals | Address | Cidr | Prefix | Suffix | IgnoringCase | Wildcard | Numeric | Exists | Absent | AnythingBut


def read_value(leaf: Leaf, value: Value) -> Value:
    """Return *value* in the form that the leaf compares.

    Return the number of a :class:`Decimals` if the leaf compares numbers, else the text of the Decimals. Other values
    are unchanged.
    """
    return value if type(value) is not Decimals else value.number if asks_numbers(leaf) else value.text


def asks_numbers(leaf: Leaf) -> bool:
    """Return whether a leaf compares with numbers. An anything-but is judged by its first leaf."""
    match leaf:
        case Equals(token) | AnythingBut((Equals(token), *_)):
            return type(token) is float
        case _:
            return type(leaf) is Numeric


def weight_of_all(leaves: Sequence[Leaf]) -> int:
    """Return the highest cost of comparing one value with *leaves*, in units of about 0.1 µs.

    Return 0 if all leaves are :class:`Exists` or :class:`Absent`, because they do not read the value.

    >>> [weight_of_all(each) for each in ([Exists()], [Equals(1.0)], [Prefix("a"), IgnoringCase("é")])]
    [0, 3, 10]
    """
    if all(isinstance(leaf, Exists | Absent) for leaf in leaves):
        return 0
    # All leaves with addresses share one parse of the value.
    reads = _ADDRESS_WEIGHT if any(isinstance(leaf, Address | Cidr) for leaf in leaves) else 0
    return _VALUE_WEIGHT + reads + sum(map(_weight_of, leaves))


def _weight_of(leaf: Leaf) -> int:
    match leaf:
        case Equals() | Exists() | Absent():
            return 0
        case AnythingBut(but):
            return sum(max(1, _weight_of(each)) for each in but)
        case IgnoringCase(text) if not text.isascii():
            return 5 + len(text) * (1 if both_cases(text) else 3)
        case IgnoringCase() | Wildcard() | Cidr() | Address():
            return 3
        case _:
            return 1


def leaf_row(leaf: Leaf) -> list[object]:
    """Return a leaf as a list for JSON, for a snapshot of an index. The first item is the name of the leaf's type."""
    match leaf:
        case Equals(Raw(text)):
            return ["raw", text]
        case AnythingBut(but):
            return ["but", *map(leaf_row, but)]
        case Wildcard(parts):
            return ["wildcard", *parts]
        case _:
            return [_NAMES[type(leaf)], *(getattr(leaf, each.name) for each in fields(leaf))]


def leaf_from_row(name: str, *row: Any) -> Leaf:
    """Restore the leaf that :func:`leaf_row` encoded.

    >>> leaf = AnythingBut((Equals("a"), Wildcard(("b", ""))))
    >>> leaf_from_row(*leaf_row(leaf)) == leaf
    True
    """
    match name:
        case "raw":
            return Equals(Raw(*row))
        case "but":
            return AnythingBut(tuple(leaf_from_row(*each) for each in row))  # type: ignore[misc]
        case "wildcard":
            return Wildcard(tuple(row))
        case _:
            return _MADE[name](*row)


_MADE: Mapping[str, Callable[..., Leaf]] = {
    "equals": Equals,
    "exists": Exists,
    "absent": Absent,
    "address": Address,
    "cidr": Cidr,
    "prefix": Prefix,
    "suffix": Suffix,
    "any_case": IgnoringCase,
    "numeric": Numeric,
}
_NAMES = {made: name for name, made in _MADE.items()}
