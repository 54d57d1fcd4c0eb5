"""The values of a JSON object by path, and the array elements that contain these values."""

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from tagcast.strict_json import MalformedError, parse

PATH_CHARACTERS_MAX = 1_024
"""The longest path in a pattern, in characters. An event leaves out values with a longer path."""
_WHOLE_MAX = 1 << 53
_SHORT = 15
_SMALL_BYTES, _SMALL_KEPT, _LARGE_KEPT = 4_096, 128, 2


class Raw(NamedTuple):
    """The JSON text of true, false, null, or a number that no double represents exactly.

    Two values are equal if their texts are equal. A numeric range never contains a Raw.
    """

    text: str


class Decimals(NamedTuple):
    """A text that is also a decimal number, as in SNS message attributes.

    A comparison with numbers reads *number*. All other comparisons read *text*.
    """

    text: str
    number: float


Value = str | float | Raw | Decimals
TRUE, FALSE, NULL = Raw("true"), Raw("false"), Raw("null")


class Element:
    """An object or array inside an array of an event.

    *array* is the number of that array in the event. *index* is the position in the array. *parent* is the element that
    contains the array; it is None if the array is not inside another array.
    """

    __slots__ = ("array", "index", "parent")

    def __init__(self, array: int, index: int, parent: "Element | None") -> None:
        self.array = array
        self.index = index
        self.parent = parent

    def chain(self) -> list[tuple[int, int]]:
        """Return the pairs (array, index) of this element and of the elements around it, the outermost first."""
        chain: list[tuple[int, int]] = []
        element: Element | None = self
        while element is not None:
            chain.append((element.array, element.index))
            element = element.parent
        chain.reverse()
        return chain


class Event:
    """The values of a JSON object, flattened. *values* maps each path, e.g. ``a.b``, to the list of its values.

    *elements* maps a path to the innermost :class:`Element` around each of its values, or None for a value without one.
    A path is missing in *elements* if none of its values is inside an Element.

    >>> event = Event.of({"a": {"b": [1, 2]}, "c.d": True})
    >>> event.values
    {'a.b': [1.0, 2.0], 'c.d': [Raw(text='true')]}
    >>> Event.of({"a": [{"b": "x"}, {"b": "y"}]}).elements["a.b"][1].chain()
    [(0, 1)]
    """

    __slots__ = ("_arrays", "elements", "found", "most", "objects", "values")

    def __init__(self) -> None:
        self.values: dict[str, list[Value]] = {}
        self.elements: dict[str, list[Element | None]] = {}
        self.most = 1
        """The largest number of values of one path."""
        self.objects = 0
        """The number of objects and arrays inside arrays."""
        self.found: dict[object, list[Element | None]] = {}
        """A cache of the elements that meet each condition, because several filters may share a condition."""
        self._arrays = 0

    @classmethod
    def of(cls, value: Mapping[str, object]) -> "Event":
        """Return the event of the JSON object *value*, which was parsed to Python objects."""
        event = cls()
        event._object("", value, None)
        return event

    def put(self, path: str, value: Value) -> None:
        """Set *value* as the only value of *path*, outside arrays."""
        self.values[path] = [value]

    def put_scalar(self, path: str, value: object) -> None:
        """Add a text, number, boolean or None (null) to the values of *path*, outside arrays."""
        self._add(path, value if isinstance(value, str) else _scalar(value), None)

    def _object(self, prefix: str, members: Mapping[str, object], inside: Element | None) -> None:
        values = self.values
        for name, value in members.items():
            path = prefix + name
            if len(path) > PATH_CHARACTERS_MAX:
                continue
            kind = type(value)
            if kind is str:
                known = value
            elif kind is dict:
                self._object(path + ".", value, inside)  # type: ignore[arg-type]
                continue
            elif kind is list:
                self._array(path, value, inside)  # type: ignore[arg-type]
                continue
            elif kind is float:
                known = value
            else:
                known = _scalar(value)
            if inside is None and path not in values:
                values[path] = [known]  # type: ignore[list-item]
            else:
                self._add(path, known, inside)  # type: ignore[arg-type]

    def _array(self, path: str, members: Sequence[object], inside: Element | None) -> None:
        number, self._arrays = self._arrays, self._arrays + 1
        for index, value in enumerate(members):
            if isinstance(value, dict):
                self.objects += 1
                self._object(path + ".", value, Element(number, index, inside))
            elif isinstance(value, list):
                self.objects += 1
                self._array(path, value, Element(number, index, inside))
            else:
                self._add(path, value if isinstance(value, str) else _scalar(value), inside)

    def _add(self, path: str, value: Value, inside: Element | None) -> None:
        values = self.values.setdefault(path, [])
        values.append(value)
        if len(values) > self.most:
            self.most = len(values)
        known = self.elements.get(path)
        if known is not None:
            known.append(inside)
        elif inside is not None:
            self.elements[path] = [*[None] * (len(values) - 1), inside]


def _scalar(value: object) -> Value:
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    if value is None:
        return NULL
    return number_of(value) if isinstance(value, int) else value  # type: ignore[return-value]


def number_of(number: int | float) -> float | Raw:
    """Return a number as a double, or its text as :class:`Raw` if a double would lose digits.

    >>> number_of(3), number_of(2**53 + 1)
    (3.0, Raw(text='9007199254740993'))
    """
    if isinstance(number, float) or -_WHOLE_MAX < number < _WHOLE_MAX:
        return float(number)
    return number_in(str(number))


def number_in(text: str) -> float | Raw:
    """Return the number in a JSON text. Return a double if it is exact, else the text as :class:`Raw`.

    >>> number_in("3.0e2"), number_in("0.30000000000000000001"), number_in("1e400")
    (300.0, Raw(text='0.30000000000000000001'), Raw(text='1e400'))
    """
    number = float(text)
    if len(text) <= _SHORT and 1e-300 < abs(number) < 1e300:
        return number
    try:
        is_all = Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:
        is_all = False
    return number if is_all else Raw(text)


def event_in(body: bytes) -> Event | str:
    """Return the event of a JSON body. For any other body, return a text that says what is wrong.

    The results for the last 128 small and 2 large bodies are cached, so all filters of a message share one parse.

    >>> event_in(b'{"a": 1}').values, event_in(b"[1]"), event_in(b"hello")
    ({'a': [1.0]}, 'the body is JSON, but not an object', 'the body is not JSON (line 1, column 1: Expecting value)')
    """
    return _small_event(body) if len(body) <= _SMALL_BYTES else _large_event(body)


def object_in(body: bytes) -> dict[str, object] | str:
    """Return the JSON object in a body. For any other body, return a text that says what is wrong.

    The last results are cached, as in :func:`event_in`.
    """
    return _small(body) if len(body) <= _SMALL_BYTES else _large(body)


def _object_in(body: bytes) -> dict[str, object] | str:
    try:
        value = parse(body, number=number_in)
    except MalformedError as error:
        return error.detail
    return value if isinstance(value, dict) else "the body is JSON, but not an object"


def _event_in(body: bytes) -> Event | str:
    value = object_in(body)
    return value if isinstance(value, str) else Event.of(value)


_small, _small_event = lru_cache(_SMALL_KEPT)(_object_in), lru_cache(_SMALL_KEPT)(_event_in)
_large, _large_event = lru_cache(_LARGE_KEPT)(_object_in), lru_cache(_LARGE_KEPT)(_event_in)
