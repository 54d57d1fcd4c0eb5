"""How a kind of row is declared, once: its reading, its writing and its table in docs/tables.md follow from that.

The fields of a frozen dataclass are the attributes of its row, by their names and types; a declaration names only what
differs from that. The two functions are compiled when they are first needed, because a loop over all attributes
takes twice the time to write a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, StrEnum
from functools import cached_property
from itertools import count
from types import NoneType, UnionType
from typing import Any, Final, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tagcast.rows.keys import KeyOf
from tagcast.tables import Expectation, Key, Put, Row, Store, Table, Value

_T = TypeVar("_T")


class _Mark(Enum):
    """That each row of its kind has an attribute, or that a field is in no row."""

    NOT_OPTIONAL = "not optional"
    NOT_STORED = "not stored"


NOT_OPTIONAL: Final = _Mark.NOT_OPTIONAL
NOT_STORED: Final = _Mark.NOT_STORED


class Attribute(NamedTuple):
    """How a field stands in a row: as *kind* says in words, or without one as its type says.

    *write* is a function of the value, or an expression of it such as ``{}.value``; without it the value stands there
    as it is. *read* is the way back. A row has no such attribute if the value is the *default*.
    """

    kind: str = ""
    write: Callable[[Any], Value] | str = "{}"
    read: Callable[[Any], Any] | None = None
    default: object = NOT_OPTIONAL
    name: str = ""


class InKey(NamedTuple):
    """A field that no attribute has, because the *key* of the row says it: as a whole, or its *place* between ``#``."""

    key: str
    place: int | None = None
    read: Callable[[str], Any] | None = None


class Written(NamedTuple):
    """An attribute that is no field: it is written as *write* makes it of the field *of*, or of the whole value.

    A row has none if the field *beside* is None, where that is given, nor if an *optional* one comes out as None.
    """

    write: Callable[[Any], Value] | str
    of: str = ""
    beside: str = ""
    kind: str = "number"
    optional: bool = False


class Beside(NamedTuple):
    """An attribute that is no field: who writes the row sets it, or an update. An *optional* one is not in each row."""

    kind: str = "number"
    optional: bool = True


class From(NamedTuple):
    """A field that follows from the row as a whole, and is *written* as an attribute of its name, if at all.

    *read* is a function of the row, or an expression of it such as ``row['version']``. A function gets the fields
    *after* which it stands, too, so that nothing is decoded twice.
    """

    read: Callable[..., Any] | str
    written: Attribute | Written | Beside | None = None
    after: tuple[str, ...] = ()


class Fields:
    """A field whose own fields are attributes of the same row; *differs* as in a declaration."""

    def __init__(self, **differs: _Difference) -> None:
        self.differs = differs


_Difference = Attribute | InKey | From | Written | Beside | Fields | _Mark


class Empty:
    """The value of rows whose attributes are written one by one, and read so."""


def attribute(*, named: str = "", default: object = NOT_OPTIONAL) -> Attribute:
    """Return an attribute that its type describes but for its name, or the value for which it is left out."""
    return Attribute(name=named, default=default)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


AS_JSON = Attribute("JSON", _json, json.loads)


def _by_type(hint: Any) -> Attribute:
    """Return how a field stands in a row whose declaration does not say it."""
    if get_origin(hint) in (Union, UnionType):
        [some] = [each for each in get_args(hint) if each is not NoneType]
        return _by_type(some)._replace(default=None)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Attribute(", ".join(f"`{word}`" for word in hint), "{}.value", hint)
    return _PLAIN[hint]


_PLAIN = {
    str: Attribute("text"),
    int: Attribute("number"),
    bytes: Attribute("bytes"),
    bool: Attribute("1", "1", bool, default=False),
    float: Attribute("text", "str({})", float),
    tuple[str, ...]: Attribute("texts", "list({})", tuple, default=()),
    Mapping[str, object]: AS_JSON,
}


class Declaration(Generic[_T]):
    """A kind of row: the dataclass of its values, its keys, and what differs of its attributes.

    *key* makes its keys, or says how they look. *what* a row is, when it *goes* and who *writes* it is for
    docs/tables.md.
    """

    def __init__(
        self,
        value: type[_T],
        key: KeyOf | tuple[Table, str, str],
        what: str,
        goes: str,
        writes: str = "",
        /,
        **differs: _Difference,
    ) -> None:
        self.value, self.key, self.what, self.goes, self.writes = value, key, what, goes, writes
        self._differs = differs

    @cached_property
    def row_of(self) -> Callable[[_T], dict[str, Value]]:
        """The function that returns the row of a value, without its key."""
        return self._writing(self._differs)

    def attributes_of(self, *fields: str) -> Callable[[_T], dict[str, Value]]:
        """Return a function like :attr:`row_of` that returns only the attributes of these *fields*, for updates."""
        others = dict.fromkeys(get_type_hints(self.value), NOT_STORED)
        chosen = {name: self._differs.get(name, Attribute()) for name in fields}
        return self._writing({**others, **chosen})

    def _writing(self, differs: Mapping[str, _Difference]) -> Callable[[_T], dict[str, Value]]:
        made = _Made()
        first, others = made.writing(self.value, differs, "value")
        body = [*made.before, f"row = {{{', '.join(first)}}}", *others, "return row"]
        return cast("Callable[[_T], dict[str, Value]]", made.function("row_of", "value", body))

    @cached_property
    def value_of(self) -> Callable[[Row], _T]:
        """The function that returns the value in a row."""
        made = _Made()
        read = made.reading(self.value, self._differs)
        body = [*made.before, "get = row.get", f"return {read}"]
        return cast("Callable[[Row], _T]", made.function("value_of", "row", body))

    def read(self, store: Store, *named: str | int) -> _T | None:
        """Return the value in the row whose key is made of what is *named*; None if there is none."""
        row = store.get(self._key(named))
        return None if row is None else self.value_of(row)

    def put(self, value: _T, *named: str | int, expect: Expectation | None = None) -> Put:
        """Return the write of a value to the row whose key is made of what is *named*, on condition of *expect*."""
        return Put(self._key(named), self.row_of(value), expect or {})

    def _key(self, named: tuple[str | int, ...]) -> Key:
        assert isinstance(self.key, KeyOf)
        return self.key(*named)

    def attributes(self) -> Iterator[tuple[str, str, object]]:
        """Yield the name of each attribute, how it stands there, and for which value it is left out."""
        return _attributes(self.value, self._differs)


def _fields(value: type, differs: Mapping[str, _Difference]) -> Iterator[tuple[str, _Difference, Any]]:
    """Yield every field and how it stands in a row, with its type; behind them what is no field."""
    hints = get_type_hints(value)
    for name, hint in hints.items():
        how = differs.get(name) or Attribute()
        if isinstance(how, Attribute):
            if not how.kind:
                known = _by_type(hint)
                how = known._replace(
                    name=how.name, default=known.default if how.default is NOT_OPTIONAL else how.default
                )
            how = how._replace(name=how.name or name)
        yield name, how, hint
    for name, how in differs.items():
        if name not in hints:
            yield name, how, None


def _attributes(value: type, differs: Mapping[str, _Difference]) -> Iterator[tuple[str, str, object]]:
    for name, how, hint in _fields(value, differs):
        match how.written if isinstance(how, From) else how:
            case Attribute() as how:
                yield how.name or name, how.kind, how.default
            case Written() as how:
                yield name, how.kind, None if how.beside or how.optional else NOT_OPTIONAL
            case Beside() as how:
                yield name, how.kind, None if how.optional else NOT_OPTIONAL
            case Fields() as how:
                inner, is_optional = _inner(hint)
                for each, kind, absent in _attributes(inner, how.differs):
                    yield each, kind, None if is_optional else absent


def _inner(hint: Any) -> tuple[type, bool]:
    """Return the dataclass of a field that is inlined, and whether it may be None."""
    found = [each for each in get_args(hint) if each is not NoneType] or [hint]
    return found[0], bool(get_args(hint))


class _Made:
    """The text of a function and the objects that it names."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self.before: list[str] = []
        self._numbers = count()

    def function(self, name: str, of: str, body: list[str]) -> Any:
        lines = "\n    ".join([f"def {name}({of}):", *body])
        exec(compile(lines, f"<{name} of a declaration>", "exec"), self.names)
        return self.names[name]

    def writing(self, value: type, differs: Mapping[str, _Difference], at: str) -> tuple[list[str], list[str]]:
        """Return what each row has, as items, and what only some have, as statements."""
        first: list[str] = []
        others: list[str] = []
        for name, how, hint in _fields(value, differs):
            match how.written if isinstance(how, From) else how:
                case Attribute() as how:
                    self._write(how._replace(name=how.name or name), f"{at}.{name}", first, others)
                case Written() as how:
                    written = self._written(how, f"{at}.{how.of}" if how.of else at)
                    if how.optional:
                        there = self._new()
                        others += [f"if ({there} := {written}) is not None:", f"    row[{name!r}] = {there}"]
                    elif how.beside:
                        others += [f"if {at}.{how.beside} is not None:", f"    row[{name!r}] = {written}"]
                    else:
                        first.append(f"{name!r}: {written}")
                case Fields() as how:
                    inner, is_optional = _inner(hint)
                    there = self._new()
                    items, statements = self.writing(inner, how.differs, there)
                    if is_optional:
                        inside = [f"row |= {{{', '.join(items)}}}", *statements]
                        others += [f"if ({there} := {at}.{name}) is not None:", *(f"    {each}" for each in inside)]
                    else:
                        self.before.insert(0, f"{there} = {at}.{name}")
                        first += items
                        others += statements
        return first, others

    def _write(self, how: Attribute, source: str, first: list[str], others: list[str]) -> None:
        if how.default is NOT_OPTIONAL:
            first.append(f"{how.name!r}: {self._written(how, source)}")
            return
        condition = source
        if how.default is None:
            condition += " is not None"
        elif how.default:
            condition += f" is not {self._named(how.default)}"
        others += [f"if {condition}:", f"    row[{how.name!r}] = {self._written(how, source)}"]

    def _written(self, how: Attribute | Written, source: str) -> str:
        if isinstance(how.write, str):
            return how.write.format(source)
        return f"{self._named(how.write)}({source})"

    def reading(self, value: type, differs: Mapping[str, _Difference]) -> str:
        """Return the expression of a value that is read."""
        read: list[str] = []
        known = {name for how in differs.values() if isinstance(how, From) for name in how.after}
        for name, how, hint in _fields(value, differs):
            begun = len(read)
            match how:
                case Attribute():
                    read.append(f"{name}={self._read(how)}")
                case InKey():
                    said = f"row[{how.key!r}]"
                    if how.place is not None:
                        split, said = f"{how.key} = {said}.split('#')", f"{how.key}[{how.place}]"
                        self.before += [split] if split not in self.before else []
                    read.append(f"{name}={self._made_by(how.read, said)}")
                case From():
                    given = ", ".join(["row", *how.after])
                    found = how.read if isinstance(how.read, str) else f"{self._named(how.read)}({given})"
                    if isinstance(how.written, Attribute) and how.written.default is not NOT_OPTIONAL:
                        found += f" if {how.written.name or name!r} in row else {self._named(how.written.default)}"
                    read.append(f"{name}={found}")
                case Fields():
                    inner, is_optional = _inner(hint)
                    made = self.reading(inner, how.differs)
                    known_by = next(_attributes(inner, how.differs))[0]
                    read.append(f"{name}={made}" + (f" if {known_by!r} in row else None" if is_optional else ""))
            if name in known:
                read[begun:] = [f"{name}=({name} := {each.removeprefix(name + '=')})" for each in read[begun:]]
        return f"{self._named(value)}({', '.join(read)})"

    def _read(self, how: Attribute) -> str:
        if how.default is NOT_OPTIONAL:
            return self._made_by(how.read, f"row[{how.name!r}]")
        if how.default is False:
            return f"{how.name!r} in row"
        absent = "None" if how.default is None else self._named(how.default)
        if how.read is None:
            return f"get({how.name!r})" if how.default is None else f"get({how.name!r}, {absent})"
        there = self._new()
        return f"{absent} if ({there} := get({how.name!r})) is None else {self._made_by(how.read, there)}"

    def _made_by(self, read: Callable[[Any], Any] | None, source: str) -> str:
        return source if read is None else f"{self._named(read)}({source})"

    def _named(self, known: object) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = known
        return name

    def _new(self) -> str:
        return f"v{next(self._numbers)}"
