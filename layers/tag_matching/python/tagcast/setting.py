"""How a resource declares its settings: once, in the annotations of a dataclass.

The API, its document, the client, the command line, the console and the archive are made of these declarations. So a
setting of one number, word or text is written in one place, besides the code that obeys it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
"""The name of a topic or a subscription."""


class Only(StrEnum):
    """Which subscriptions have a setting that not all of them have."""

    PUSHES = "pushes"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of a field in its annotation: ``Annotated[float | None, Setting("Maximum …")]``.

    - *help*: one sentence for the document of the API, the help of the command line and the form of the console.
    - *wire*: its name in the API; by default its own, with ``_s`` written out as ``_seconds``.
    - *at_least*, *at_most*, *pattern*: what a value must keep to.
    - *only*: the subscriptions that have it; None: all.
    - *is_shown*: answers show it while it has its default, too.
    - *option*: its option of the command line; by default its name without ``_seconds``.
    - *metavar*: how the help writes a value. *section*: under which heading the console asks for it.
    """

    help: str
    wire: str = ""
    at_least: float | None = None
    at_most: float | None = None
    pattern: str = ""
    only: Only | None = None
    is_shown: bool = False
    option: str = ""
    metavar: str = ""
    section: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared setting: the *name* of its field, its *type* without None, its *default* (MISSING: it has none)."""

    name: str
    type: Any
    is_optional: bool
    default: Any
    setting: Setting

    @property
    def wire(self) -> str:
        """Return its name in the API."""
        return self.setting.wire or (f"{self.name}econds" if self.name.endswith("_s") else self.name)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that it may be, if it is one of several."""
        is_word = isinstance(self.type, type) and issubclass(self.type, StrEnum)
        return tuple(map(str, self.type)) if is_word else ()


def settings_of(kind: Any) -> tuple[Declared, ...]:
    """Return the settings that a dataclass declares, in its order.

    >>> from typing import Annotated
    >>> @dataclass
    ... class Shop:
    ...     opens_s: "Annotated[int | None, Setting('When it opens.')]" = None
    >>> Shop.__annotations__ = {"opens_s": Annotated[int | None, Setting("When it opens.")]}
    >>> [(each.wire, each.type, each.is_optional) for each in settings_of(Shop)]
    [('opens_seconds', <class 'int'>, True)]
    """
    return _settings_of(kind)


@cache
def _settings_of(kind: Any) -> tuple[Declared, ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for each in fields(kind):
        hint = hints[each.name]
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Setting):
                type_, is_optional = without_none(hint.__origin__)
                default = each.default if each.default_factory is MISSING else each.default_factory()
                found.append(Declared(each.name, type_, is_optional, default, note))
    return tuple(found)


def declared_json(value: Any) -> dict[str, Any]:
    """Return what *value* declares, by the names of the API, as JSON has it: tuples are lists."""
    return {each.wire: as_json(getattr(value, each.name)) for each in settings_of(type(value))}


def as_json(value: Any) -> Any:
    """Return a tuple as a list, a mapping as an object, and all else as it is."""
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was part of it.

    >>> without_none(int | None), without_none(str)
    ((<class 'int'>, True), (<class 'str'>, False))
    """
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    kinds = [each for each in get_args(hint) if each is not type(None)]
    return (kinds[0] if len(kinds) == 1 else hint), len(kinds) < len(get_args(hint))
