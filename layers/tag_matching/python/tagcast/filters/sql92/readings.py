"""The ways to read the text of a property: as a text, or as a number or boolean of either dialect."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import NamedTuple

from tagcast.errors import FilterEvaluationError
from tagcast.filters.sql92.java import INT_MAX, LONG_MAX, parse_double, parse_whole
from tagcast.filters.sql92.numbers import Number, number_of, truth_of

TEXT = "text"
PRESENCE = "presence"
NUMBER, TRUTH = "number", "truth"
JAVA_INT, JAVA_LONG, JAVA_DOUBLE, JAVA_TRUTH = "int", "long", "double", "java_truth"
UNREADABLE = "unreadable"
Reading = str | bool | Number | float


class Dimension(NamedTuple):
    """A property, and the way to read its text. *name* is the property; *kind* is a key of :data:`READERS`."""

    kind: str
    name: str


def _java(parse: Callable[[str], Reading]) -> Callable[[str], Reading | None]:
    def read(text: str) -> Reading | None:
        try:
            return parse(text)
        except FilterEvaluationError:
            return None

    return read


def _double(text: str) -> float:
    # No literal is infinite, zero or NaN. To every literal NaN compares like infinity.
    number = parse_double(text)
    return number if number == number else float("inf")


READERS: Mapping[str, Callable[[str], Reading | None]] = {
    TEXT: lambda text: text,
    PRESENCE: lambda _: True,
    NUMBER: number_of,
    TRUTH: truth_of,
    JAVA_INT: _java(lambda text: parse_whole(text, INT_MAX)),
    JAVA_LONG: _java(lambda text: parse_whole(text, LONG_MAX)),
    JAVA_DOUBLE: _java(_double),
    JAVA_TRUTH: lambda text: text.lower() == "true",
    UNREADABLE: lambda _: None,
}


def float_of(number: Reading) -> float:
    """Return the double nearest to *number*, or an infinity if *number* is too large.

    A larger number never becomes a smaller double, but different numbers may become equal.

    >>> float_of(10**400), float_of(2**53 + 1) == float_of(2**53)
    (inf, True)
    """
    assert not isinstance(number, str)
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def as_row(value: Reading) -> str | bool | float:
    """Return a value in a form for JSON, without loss."""
    return str(value) if isinstance(value, Decimal) else value


def from_row(kind: str, row: str | bool | float) -> Reading:
    """Restore a value from its :func:`as_row`. *kind* is the kind of its dimension.

    A restored number may have a larger exponent than a literal may have. For example, ``10e308`` is ``1.0E+309``.

    >>> from_row(NUMBER, as_row(Decimal("2.50"))), from_row(NUMBER, as_row(Decimal("10e308")))
    (Decimal('2.50'), Decimal('1.0E+309'))
    """
    return Decimal(row) if isinstance(row, str) and kind not in (TEXT, PRESENCE) else row


class PropertyReadings:
    """The values of one message's properties, by :class:`Dimension`. A value is parsed when it is first needed.

    *texts* are the properties as published.

    >>> view = PropertyReadings({"price": "7.5"})
    >>> view.get(Dimension("number", "price")), view.get(Dimension("int", "price")), view.get(Dimension("text", "a"))
    (Decimal('7.5'), None, None)
    """

    __slots__ = ("_floats", "_values", "texts")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._values: dict[Dimension, Reading | None] = {}
        self._floats: dict[Dimension, float] = {}

    def get(self, dimension: Dimension) -> Reading | None:
        """Return the value of *dimension*, or None if the property is missing or its text cannot be read."""
        values = self._values
        if dimension in values:
            return values[dimension]
        text = self.texts.get(dimension[1])
        value = values[dimension] = None if text is None else READERS[dimension[0]](text)
        return value

    def nearest(self, dimension: Dimension, value: Reading) -> float:
        """Return :func:`float_of` of *value*, which must be the value of *dimension*. The result is cached."""
        near = self._floats.get(dimension)
        if near is None:
            near = self._floats[dimension] = float_of(value)
        return near

    def fails(self, dimension: Dimension) -> bool:
        """Return whether the property is present, but its text cannot be read as the kind of *dimension*."""
        return dimension[1] in self.texts and self.get(dimension) is None
