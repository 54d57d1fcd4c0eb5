"""Declares the settings of a resource once, in the annotations of a dataclass.

The API, its document, the client, the command line, the console and the archive read these declarations. So each
setting that is a number, a word or a text is declared in one place.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
"""The pattern of the name of a topic or a subscription."""


class Only(StrEnum):
    """The kind of subscriptions that have a setting, if not all have it."""

    PUSHES = "pushes"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of a field in its annotation: ``Annotated[float | None, Setting("Maximum …")]``.

    - *help*: one sentence for the API document, the help of the command line, and the form of the console.
    - *wire*: the name in the API; the default is the field's name, with ``_s`` written out as ``_seconds``.
    - *at_least*, *at_most*, *pattern*: the bounds of a value. For a text, *at_most* bounds its length.
    - *format* names further checks in the API document.
    - *only*: the kind of subscriptions that have this setting. If it is None, all have it.
    - *is_shown*: answers show the setting even if it has its default.
    - *option*: the option of the command line; the default is the field's name without ``_seconds``.
    - *metavar*: the placeholder of the value in the help. *section*: the heading in the console's form.
    """

    help: str
    wire: str = ""
    at_least: float | None = None
    at_most: float | None = None
    pattern: str = ""
    format: str = ""
    only: Only | None = None
    is_shown: bool = False
    option: str = ""
    metavar: str = ""
    section: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared setting: *name* of the field, *type* without None, and *default* (MISSING if it has none)."""

    name: str
    type: Any
    is_optional: bool
    default: Any
    setting: Setting

    @property
    def wire(self) -> str:
        """The setting's name in the API."""
        return self.setting.wire or (f"{self.name}econds" if self.name.endswith("_s") else self.name)

    @property
    def words(self) -> tuple[str, ...]:
        """The allowed values; empty if the setting is not an enumeration."""
        is_word = isinstance(self.type, type) and issubclass(self.type, StrEnum)
        return tuple(map(str, self.type)) if is_word else ()


def settings_of(kind: Any) -> tuple[Declared, ...]:
    """Return the settings that a dataclass declares, in order.

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
    """Return the declared fields of *value* as JSON, under their names in the API. Tuples become lists."""
    return {each.wire: as_json(getattr(value, each.name)) for each in settings_of(type(value))}


def as_json(value: Any) -> Any:
    """Return a tuple as a list, a mapping as an object, and any other value unchanged."""
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether the type included None.

    >>> without_none(int | None), without_none(str)
    ((<class 'int'>, True), (<class 'str'>, False))
    """
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    kinds = [each for each in get_args(hint) if each is not type(None)]
    return (kinds[0] if len(kinds) == 1 else hint), len(kinds) < len(get_args(hint))
