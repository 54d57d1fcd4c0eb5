"""Parses the JSON of a pattern, or lists every fault. A pattern has alternatives, each with some conditions."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tagcast.errors import Fault, FaultCode
from tagcast.filters.compiled import pointer_part
from tagcast.filters.event_pattern.address import address_digits, network_of
from tagcast.filters.event_pattern.event import FALSE, NULL, PATH_CHARACTERS_MAX, TRUE, Decimals, Value, number_of
from tagcast.filters.event_pattern.leaves import (
    Absent,
    Address,
    AnythingBut,
    Cidr,
    Equals,
    Exists,
    IgnoringCase,
    Leaf,
    Listed,
    Numeric,
    Prefix,
    Suffix,
    Token,
    Wildcard,
    read_value,
    weight_of_all,
    wildcard_parts,
)

PATTERN_CHARACTERS_MAX = 16_384
PATTERN_DEPTH_MAX = 50
PATTERN_VALUES_MAX = 1_000
ALTERNATIVES_MAX = 1_000
CONDITIONS_MAX = 10_000
ALL_VALUES_MAX = 20_000
"""The most values in all alternatives together. The index stores each value of each alternative."""
FIELDS_MAX = 256
SEARCHES_MAX = 32
"""The most wildcards of a pattern with a text between two ``*``. Only these wildcards need a search."""
OR = "$or"
_L = TypeVar("_L", bound=Leaf)
_RESERVED = frozenset(
    (
        *("exactly", "equals-ignore-case", "prefix", "suffix", "anything-but", "exists", "wildcard", "numeric", "cidr"),
        *("=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case"),
        *("date-after", "date-on-or-after", "date-before", "date-on-or-before", "in-date-range"),
        *("ip-address-in-range", "ip-address-not-in-range"),
    )
)
"""Names that are refused as field names inside ``$or``, because they are most likely misplaced operators."""
_LARGEST = 1.7976931348623157e308


@dataclass(frozen=True, slots=True)
class Condition:
    """The leaves (comparisons) of one path. The condition is met if one leaf holds.

    *forms* is the JSON of each leaf. *level* is the number of objects around the list of leaves. *count* is the length
    of the list as written. *tokens* are the values of the Equals leaves, and *others* the leaves that are evaluated one
    by one. If *may_be_absent*, an absent path also meets the condition. *weight* is the cost of comparing one value.
    *size* is the number of distinct values in the leaves.
    """

    path: str
    leaves: tuple[Leaf, ...]
    forms: tuple[object, ...] = field(compare=False, repr=False)
    count: int = field(compare=False, repr=False)
    level: int = field(compare=False, repr=False)
    tokens: frozenset[Token] = field(init=False, compare=False, repr=False)
    others: tuple[Leaf, ...] = field(init=False, compare=False, repr=False)
    may_be_absent: bool = field(init=False, compare=False, repr=False)
    weight: int = field(init=False, compare=False, repr=False)
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute *tokens*, which a lookup finds, *others*, which are compared one by one, and further fields."""
        tokens = frozenset(leaf.token for leaf in self.leaves if isinstance(leaf, Equals))
        others = tuple(leaf for leaf in self.leaves if not isinstance(leaf, Equals | Absent))
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "may_be_absent", any(isinstance(leaf, Absent) for leaf in self.leaves))
        object.__setattr__(self, "weight", weight_of_all(self.leaves))
        size = sum(len(leaf.but) if isinstance(leaf, AnythingBut) else 1 for leaf in self.leaves)
        object.__setattr__(self, "size", size)

    def holds(self, value: Value) -> bool:
        """Return whether one of the leaves holds for *value*."""
        if type(value) is Decimals:
            return any(leaf.holds(read_value(leaf, value)) for leaf in self.leaves)
        return value in self.tokens or any(leaf.holds(value) for leaf in self.others)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. It matches if all conditions of one alternative are met.

    An alternative is a tuple of indices in *conditions*, in the order of the conditions' paths. *or_is_a_field* is True
    if ``$or`` was read as the name of a field, not as an operator. *weight* is the sum of the conditions' weights.
    """

    conditions: tuple[Condition, ...]
    alternatives: tuple[tuple[int, ...], ...]
    or_is_a_field: bool = False
    weight: int = 0


class PatternError(Exception):
    """Raised for an invalid pattern. *faults* are all faults that were found."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__(faults)
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(f"{fault.pointer}: {fault.detail}" for fault in self.faults)


_Alternative = dict[str, Condition]


def read_pattern(pattern: object, operators: frozenset[str] | None = None) -> Pattern:
    """Parse *pattern*, a JSON value, or raise PatternError with pointers relative to the pattern.

    *operators* are the names of the allowed operators. If *operators* is None, all are allowed. As in EventBridge, a
    ``$or`` that is not valid as an operator is read as a field with the name ``$or``.

    >>> read_pattern({"a": {"b": ["x", {"prefix": "y"}]}}).conditions[0].leaves
    (Equals(token='x'), Prefix(text='y'))
    >>> read_pattern({"a": [{"prefix": 1}], "b": []})
    Traceback (most recent call last):
        ...
    tagcast.filters.event_pattern.pattern.PatternError: /a/0/prefix: must be a text; /b: must not be empty
    """
    reader = _Reader(operators)
    alternatives = reader.read(pattern)
    if reader.faults and reader.has_or:
        plain = _Reader(operators, or_is_a_field=True)
        again = plain.read(pattern)
        if not plain.faults:
            reader, alternatives = plain, again
    if reader.faults:
        raise PatternError(tuple(reader.faults))
    return _pattern_of(alternatives, reader.or_is_a_field)


def _pattern_of(alternatives: list[_Alternative], or_is_a_field: bool) -> Pattern:
    places: dict[int, int] = {}
    conditions: list[Condition] = []
    rows: list[tuple[int, ...]] = []
    for alternative in alternatives:
        row = []
        for path in sorted(alternative, key=lambda path: path.encode("utf-16-be", "surrogatepass")):
            condition = alternative[path]
            place = places.setdefault(id(condition), len(conditions))
            if place == len(conditions):
                conditions.append(condition)
            row.append(place)
        rows.append(tuple(row))
    return Pattern(tuple(conditions), tuple(rows), or_is_a_field, sum(each.weight for each in conditions))


class _TooMuchError(Exception):
    """The pattern exceeds a bound; parsing stops."""


class _Reader:
    """Parses one pattern. Its errors are added to *faults*."""

    def __init__(self, operators: frozenset[str] | None, *, or_is_a_field: bool = False) -> None:
        self.faults: list[Fault] = []
        self.has_or = False
        self.or_is_a_field = or_is_a_field
        self._operators = operators
        self._values = self._searches = 0

    def read(self, pattern: object) -> list[_Alternative]:
        """Return the alternatives of a pattern. They are incomplete if there are faults."""
        alternatives: list[_Alternative] = []
        if not isinstance(pattern, Mapping):
            self._fault("must be an object", "")
            return alternatives
        try:
            self._object(alternatives, pattern, "", "", 1, in_or=False)
            if sum(each.size for alternative in alternatives for each in alternative.values()) > ALL_VALUES_MAX:
                self._too_much(f"all alternatives together must have at most {ALL_VALUES_MAX} values", "")
            if len(json.dumps(pattern, separators=(",", ":"), ensure_ascii=False)) > PATTERN_CHARACTERS_MAX:
                self._fault(f"a pattern must have at most {PATTERN_CHARACTERS_MAX} characters", "", FaultCode.TOO_LARGE)
        except _TooMuchError:
            pass
        return alternatives

    def _fault(self, detail: str, pointer: str, code: FaultCode = FaultCode.SYNTAX) -> None:
        self.faults.append(Fault(detail, pointer, code))

    def _too_much(self, detail: str, pointer: str) -> None:
        self._fault(detail, pointer, FaultCode.TOO_LARGE)
        raise _TooMuchError

    def _object(
        self,
        alternatives: list[_Alternative],
        members: Mapping[str, object],
        prefix: str,
        pointer: str,
        level: int,
        *,
        in_or: bool,
    ) -> None:
        if pointer.count("/") >= PATTERN_DEPTH_MAX:
            self._too_much(f"a pattern must have at most {PATTERN_DEPTH_MAX} levels", pointer)
        if not members:
            self._fault("must not be empty", pointer)
        for name, value in members.items():
            here = f"{pointer}/{pointer_part(name)}"
            if name == OR and not self.or_is_a_field:
                self._or(alternatives, value, prefix, here, level)
                continue
            path = prefix + name
            if not name:
                self._fault("the name of a field must not be empty", here)
            if len(path) > PATH_CHARACTERS_MAX:
                self._too_much(f"a path must have at most {PATH_CHARACTERS_MAX} characters", here)
            if in_or and name in _RESERVED:
                self._fault(f"{name} is an operator, and not allowed as a field name inside of $or", here)
            if isinstance(value, Mapping):
                self._object(alternatives, value, path + ".", here, level + 1, in_or=in_or)
            elif isinstance(value, list):
                self._field(alternatives, path, level, value, here)
            else:
                self._fault("must be an object or a list of values", here)

    def _or(self, alternatives: list[_Alternative], value: object, prefix: str, pointer: str, level: int) -> None:
        self.has_or = True
        if not isinstance(value, list) or len(value) < 2:
            self._fault("$or must be a list of two or more objects", pointer)
            return
        before = alternatives[:] or [{}]
        alternatives.clear()
        for place, members in enumerate(value):
            here = f"{pointer}/{place}"
            if not isinstance(members, Mapping):
                self._fault("must be an object", here)
                continue
            branch = [dict(alternative) for alternative in before]
            self._object(branch, members, prefix, here, level, in_or=True)
            alternatives.extend(branch)
            self._check_size(alternatives, pointer)

    def _check_size(self, alternatives: list[_Alternative], pointer: str) -> None:
        """Raise _TooMuchError if there are too many alternatives or fields.

        This is checked after each field and each branch, so the result does not depend on the order of names. A stored
        pattern has its names sorted.
        """
        if len(alternatives) > ALTERNATIVES_MAX or sum(map(len, alternatives)) > CONDITIONS_MAX:
            self._too_much(
                f"all $or together must have at most {ALTERNATIVES_MAX} combinations of {CONDITIONS_MAX} fields",
                pointer,
            )

    def _field(
        self, alternatives: list[_Alternative], path: str, level: int, listed: list[object], pointer: str
    ) -> None:
        self._count(len(listed), pointer)
        if not listed:
            self._fault("must not be empty", pointer)
        leaves: dict[Leaf, object] = {}
        for number, value in enumerate(listed):
            if (leaf := self._leaf(value, f"{pointer}/{number}")) is not None:
                leaves.setdefault(leaf, value)
        condition = Condition(path, tuple(leaves), tuple(leaves.values()), len(listed), level)
        if not alternatives:
            alternatives.append({})
        for alternative in alternatives:
            if path in alternative:
                self._fault(f"{path} is given twice; write all of its values in one list", pointer)
                break
            alternative[path] = condition
            if len(alternative) > FIELDS_MAX:
                self._too_much(f"a pattern must have at most {FIELDS_MAX} fields", pointer)
        self._check_size(alternatives, pointer)

    def _count(self, values: int, pointer: str) -> None:
        self._values += values
        if self._values > PATTERN_VALUES_MAX:
            self._too_much(f"a pattern must have at most {PATTERN_VALUES_MAX} values", pointer)

    def _leaf(self, value: object, pointer: str) -> Leaf | None:
        match value:
            case bool():
                return Equals(TRUE if value else FALSE)
            case None:
                return Equals(NULL)
            case str():
                digits = address_digits(value)
                return Equals(value) if digits is None else Address(digits, value)
            case int() | float():
                return self._number(value, pointer)
            case Mapping():
                return self._comparison(value, pointer)
            case _:
                self._fault(
                    'must be a text, a number, true, false, null or a comparison, e.g. {"prefix": "a"}', pointer
                )
                return None

    def _number(self, value: object, pointer: str, *, ordered: bool = False) -> Equals | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._fault("must be a number", pointer)
        elif isinstance(value, float) and not math.isfinite(value):
            self._fault("must be a finite number", pointer)
        else:
            token = number_of(value)
            if type(token) is float or not ordered:
                return Equals(token)
            self._fault("must have at most the digits of a double", pointer)
        return None

    def _text(self, value: object, pointer: str) -> str | None:
        if isinstance(value, str):
            return value
        self._fault("must be a text", pointer)
        return None

    def _comparison(self, members: Mapping[str, object], pointer: str) -> Leaf | None:
        operator = self._only(members, pointer)
        if operator is None:
            return None
        value, here = members[operator], f"{pointer}/{pointer_part(operator)}"
        read = _OPERATORS.get(operator)
        if read is None or not self._is_allowed(operator):
            self._refuse(operator, list(_OPERATORS), pointer)
            return None
        return read(self, value, here)

    def _is_allowed(self, operator: str) -> bool:
        return self._operators is None or operator in self._operators

    def _refuse(self, operator: str, operators: list[str], pointer: str) -> None:
        allowed = ", ".join(filter(self._is_allowed, operators))
        self._fault(f"{operator} is not an operator here; use one of {allowed}", pointer)

    def _only(self, members: Mapping[str, object], pointer: str) -> str | None:
        if len(members) != 1:
            self._fault("a comparison must have one operator", pointer)
            return None
        return next(iter(members))

    def _wildcard(self, value: object, pointer: str) -> Wildcard | None:
        text = self._text(value, pointer)
        if text is None:
            return None
        parts = wildcard_parts(text)
        if isinstance(parts, str):
            self._fault(parts, pointer)
            return None
        self._searches += len(parts) > 2
        if self._searches > SEARCHES_MAX:
            self._too_much(f"at most {SEARCHES_MAX} wildcards may have a part between two *", pointer)
        return Wildcard(parts)

    def _exists(self, value: object, pointer: str) -> Leaf | None:
        if isinstance(value, bool):
            return Exists() if value else Absent()
        self._fault("must be true or false", pointer)
        return None

    def _cidr(self, value: object, pointer: str) -> Leaf | None:
        text = self._text(value, pointer)
        network = None if text is None else network_of(text)
        if isinstance(network, str):
            self._fault(network, pointer)
        return Cidr(*network) if isinstance(network, tuple) else None

    def _numeric(self, value: object, pointer: str) -> Leaf | None:
        forms = 'must be ["=", 1], [">", 0], ["<=", 5] or a range, e.g. [">", 0, "<=", 5]'
        if not isinstance(value, list) or len(value) not in (2, 4):
            self._fault(forms, pointer)
            return None
        signs = value[::2]
        numbers = [self._number(each, f"{pointer}/{2 * n + 1}", ordered=True) for n, each in enumerate(value[1::2])]
        bounds = [each.token for each in numbers if each is not None and isinstance(each.token, float)]
        if len(bounds) < len(numbers):
            return None
        match signs:
            case ["="]:
                return Equals(bounds[0])
            case ["<" | "<=" as above]:
                low, high, opened = -_LARGEST, bounds[0], (False, above == "<")
            case [">" | ">=" as below]:
                low, high, opened = bounds[0], _LARGEST, (below == ">", False)
            case [">" | ">=" as below, "<" | "<=" as above]:
                low, high, opened = bounds[0], bounds[1], (below == ">", above == "<")
            case _:
                self._fault(forms, pointer)
                return None
        if low >= high:
            self._fault("the first number must be less than the second", pointer)
            return None
        return Numeric(low, opened[0], high, opened[1])

    def _anything_but(self, value: object, pointer: str) -> Leaf | None:
        if isinstance(value, Mapping):
            return self._but_texts(value, pointer)
        listed = value if isinstance(value, list) else [value]
        self._count(len(listed), pointer)
        texts = sum(isinstance(each, str) for each in listed)
        if not listed or 0 < texts < len(listed):
            self._fault("must be a text, a number, a list of texts or a list of numbers", pointer)
            return None
        at = [f"{pointer}/{place}" for place in range(len(listed))] if listed is value else [pointer]
        if texts:
            return AnythingBut(tuple(Equals(str(each)) for each in dict.fromkeys(listed)))
        numbers = [self._number(each, here, ordered=True) for each, here in zip(listed, at, strict=True)]
        kept = tuple(dict.fromkeys(each for each in numbers if each is not None))
        return AnythingBut(kept) if len(numbers) == sum(each is not None for each in numbers) else None

    def _but_texts(self, members: Mapping[str, object], pointer: str) -> Leaf | None:
        operator = self._only(members, pointer)
        allowed = None if operator is None else _LISTED.get(operator)
        if operator is None:
            return None
        value, here = members[operator], f"{pointer}/{pointer_part(operator)}"
        name = f"anything-but {operator}"
        is_legacy = self.or_is_a_field and (
            operator == "wildcard" or (operator != "equals-ignore-case" and isinstance(value, list))
        )
        if allowed is None or is_legacy or not self._is_allowed(name):
            self._refuse(name, [f"anything-but {each}" for each in _LISTED], pointer)
            return None
        listed = value if isinstance(value, list) else [value]
        self._count(len(listed), pointer)
        if not listed:
            self._fault("must not be empty", here)
        at = [f"{here}/{place}" for place in range(len(listed))] if listed is value else [here]
        leaves = [allowed(self, each, place) for each, place in zip(listed, at, strict=True)]
        kept = tuple(dict.fromkeys(each for each in leaves if each is not None))
        for leaf, place in zip(leaves, at, strict=True):
            if isinstance(leaf, Prefix | Suffix) and not leaf.text:
                self._fault("must be a text that is not empty", place)
        return AnythingBut(kept)


def _of_text(make: Callable[[str], _L], reader: _Reader, value: object, pointer: str) -> _L | None:
    text = reader._text(value, pointer)
    return None if text is None else make(text)


def _end(where: str, reader: _Reader, value: object, pointer: str) -> Leaf | None:
    if not isinstance(value, Mapping) or not reader._is_allowed(f"{where} ignoring case"):
        return _LISTED[where](reader, value, pointer)
    if list(value) != ["equals-ignore-case"]:
        reader._fault("must be a text or {equals-ignore-case}", pointer)
        return None
    make = partial(IgnoringCase, where=where)
    return _of_text(make, reader, value["equals-ignore-case"], f"{pointer}/equals-ignore-case")


_LISTED: Mapping[str, Callable[[_Reader, object, str], Listed | None]] = {
    "prefix": partial(_of_text, Prefix),
    "suffix": partial(_of_text, Suffix),
    "equals-ignore-case": partial(_of_text, IgnoringCase),
    "wildcard": _Reader._wildcard,
}
_OPERATORS: Mapping[str, Callable[[_Reader, object, str], Leaf | None]] = {
    **_LISTED,
    "prefix": partial(_end, "prefix"),
    "suffix": partial(_end, "suffix"),
    "numeric": _Reader._numeric,
    "cidr": _Reader._cidr,
    "exists": _Reader._exists,
    "anything-but": _Reader._anything_but,
    "exactly": partial(_of_text, Equals),
}
