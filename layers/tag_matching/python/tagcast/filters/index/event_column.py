"""The leaves (comparisons) of many patterns on one path, found by a value of the path.

Each leaf has a place, which is an owner, the number of a cell, or the position of a bit. A lookup decides many leaves.
The others must be evaluated. Those with a :func:`fixed_part` are evaluated only if a value has this part.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tagcast.filters.event_pattern.address import address_digits
from tagcast.filters.event_pattern.event import Decimals, Raw, Value
from tagcast.filters.event_pattern.leaves import (
    Absent,
    Address,
    AnythingBut,
    Cidr,
    Equals,
    Exists,
    IgnoringCase,
    Leaf,
    Numeric,
    Prefix,
    Suffix,
    Wildcard,
    leaf_from_row,
    leaf_row,
)

Places = list[int]
START, END, LOWER_START, LOWER_END, DIGITS = "start", "end", "lower_start", "lower_end", "digits"
Skips = Callable[[int], bool]
"""Returns whether a match skips a place, because its pattern would take too long."""
Checked = list[tuple[Leaf, Places]]


class Column:
    """The leaves of many patterns on one path, each with a place: a number that the index chooses, such as an owner.

    >>> column = Column()
    >>> for place, leaf in enumerate([Equals("a"), Prefix("a"), Wildcard(("", "b")), Equals("b")]):
    ...     column.add(leaf, place)
    >>> sorted(place for places in column.hits("ab") for place in places)
    [1, 2]
    """

    __slots__ = ("absent", "but", "checked", "excluded", "exists", "numeric", "others", "parts", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[Value, Places] = {}
        self.parts: dict[tuple[str, int], dict[str, Places]] = {}
        self.checked: dict[tuple[str, int], dict[str, Checked]] = {}
        self.others: Checked = []
        self.numeric: dict[int, Numeric] = {}
        self.but: Places = []
        self.excluded: Column | None = None
        """The leaves that must not hold for the anything-but leaves, which have the places :attr:`but`."""
        self.exists: Places = []
        self.absent: Places = []

    def add(self, leaf: Leaf, place: int) -> None:
        """Add a leaf with its *place*. Several leaves may have the same place."""
        match leaf:
            case Equals(token):
                self.tokens.setdefault(token, []).append(place)
            case Prefix(text):
                self._part(START, text, place)
            case Suffix(text):
                self._part(END, text, place)
            case Address(digits):
                self._part(DIGITS, digits, place)
            case IgnoringCase(text, where) if text.isascii() and where:
                self._part(LOWER_START if where == "prefix" else LOWER_END, text.lower(), place)
            case Exists():
                self.exists.append(place)
            case Absent():
                self.absent.append(place)
            case _:
                self._add_other(leaf, place)

    def _add_other(self, leaf: Leaf, place: int) -> None:
        """Add a leaf that must be evaluated, or the first numeric or first anything-but leaf of a place."""
        if isinstance(leaf, Numeric) and place not in self.numeric:
            self.numeric[place] = leaf
            return
        if isinstance(leaf, AnythingBut) and place not in self.but[-1:]:
            if self.excluded is None:
                self.excluded = Column()
            self.but.append(place)
            for each in leaf.but:
                self.excluded.add(each, place)
            return
        self._check(leaf, place)

    def _part(self, kind: str, text: str, place: int) -> None:
        self.parts.setdefault((kind, len(text)), {}).setdefault(text, []).append(place)

    def _check(self, leaf: Leaf, place: int) -> None:
        key = fixed_part(leaf)
        if key is None:
            self.others.append((leaf, [place]))
        else:
            kind, text = key
            self.checked.setdefault((kind, len(text)), {}).setdefault(text, []).append((leaf, [place]))

    def hits(self, value: Value, skips: Skips | None = None) -> list[Places]:
        """Return the places of the leaves that *value* meets, as several lists that may share places.

        The leaves in :attr:`numeric`, :attr:`but`, :attr:`exists`, :attr:`absent` and :attr:`others` are left out.
        Leaves that must be evaluated are also left out at places for which *skips* returns True. None skips no place.
        """
        if type(value) is Decimals:
            return self._find_places(value.text, value.text, skips) + self._find_places(value.number, None, skips)
        return self._find_places(value, value if type(value) is str else None, skips)

    def _find_places(self, token: Value, text: str | None, skips: Skips | None) -> list[Places]:
        found = self.tokens.get(token)
        hits = [] if found is None else [found]
        if text is None:
            return hits
        for (kind, size), table in self.parts.items():
            if kind == START:
                found = table.get(text[:size])
            elif kind == END:
                found = table.get(text[-size:] if size else "")
            else:
                found = table.get(_part_of(kind, size, text))
            if found is not None:
                hits.append(found)
        for (kind, size), asked in self.checked.items():
            for leaf, places in asked.get(text[:size] if kind == START else _part_of(kind, size, text), ()):
                if (skips is None or not skips(places[0])) and leaf.holds(text):
                    hits.append(places)
        return hits

    def as_row(self) -> list[Any]:
        """Return the column as plain lists and dicts, for a snapshot."""
        tokens = [[token_row(token), places] for token, places in self.tokens.items()]
        return [
            tokens,
            [[kind, size, table] for (kind, size), table in self.parts.items()],
            [
                [kind, size, {text: _checked_row(each) for text, each in table.items()}]
                for (kind, size), table in self.checked.items()
            ],
            _checked_row(self.others),
            [[place, *leaf_row(leaf)[1:]] for place, leaf in self.numeric.items()],
            [self.but, None if self.excluded is None else self.excluded.as_row()],
            self.exists,
            self.absent,
        ]

    @classmethod
    def from_row(cls, *row: Any) -> "Column":
        """Restore the column from the items of its :meth:`as_row`."""
        column = cls()
        tokens, parts, checked, others, numeric, (column.but, excluded), column.exists, column.absent = row
        column.tokens = {token_from_row(*row): places for row, places in tokens}
        column.parts = {(kind, size): table for kind, size, table in parts}
        column.checked = {
            (kind, size): {text: _checked_from(each) for text, each in table.items()} for kind, size, table in checked
        }
        column.others = _checked_from(others)
        column.numeric = {place: Numeric(*row) for place, *row in numeric}
        column.excluded = None if excluded is None else cls.from_row(*excluded)
        return column


def fixed_part(leaf: Leaf) -> tuple[str, str] | None:
    """Return the kind and text of a part that a value must have to meet the leaf, or None if there is no such part.

    The kind says where in the value the part is, e.g. :data:`START`.
    """
    match leaf:
        case Wildcard(parts) if parts[0]:
            return START, parts[0]
        case Wildcard(parts) if parts[-1]:
            return END, parts[-1]
        case IgnoringCase(text) if text.isascii():
            return LOWER_START, text.lower()
        case Cidr(first, last):
            size = next((n for n in range(len(first)) if first[n] != last[n]), len(first))
            # Addresses of the other version have another length: compare the common digits.
            return DIGITS, first[: min(size, 8)]
        case _:
            return None


def _part_of(kind: str, size: int, text: str) -> str:
    """Return the part of *text* that a fixed part of this kind and size could equal, or an empty text."""
    if kind == DIGITS:
        return (address_digits(text) or "")[:size]
    part = text[:size] if kind in (START, LOWER_START) else text[-size:] if size else ""
    if kind in (START, END):
        return part
    return part.lower() if part.isascii() else ""


def token_row(token: Value) -> list[Any]:
    """Return a value as a list for JSON, for a snapshot. The first item distinguishes a :class:`Raw` from a text."""
    return ["raw", token.text] if isinstance(token, Raw) else ["equals", token]


def token_from_row(name: str, token: Any) -> Value:
    """Restore a value from the items of its :func:`token_row`."""
    return Raw(token) if name == "raw" else token


def _checked_row(checked: Iterable[tuple[Leaf, Places]]) -> list[Any]:
    return [[leaf_row(leaf), places] for leaf, places in checked]


def _checked_from(rows: Iterable[Any]) -> Checked:
    return [(leaf_from_row(*row), places) for row, places in rows]
