"""Builds bodies and answers of a resource from the settings that its dataclass declares (`tagcast.setting`).

Numbers, words and texts have the same form in the API and in the core. A `Wire` declares the API's form of an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal, NotRequired, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, create_model
from pydantic.config import JsonDict
from tagcast.setting import Declared, Only, as_json, settings_of
from typing_extensions import TypedDict

from tagcast_aws.api.http.body import Body


@dataclass(frozen=True)
class Wire:
    """The API's form of one setting. *body*, *patch* and *answer* are its types in bodies, merge patches and answers.

    If *patch* is None, patches have the type *body*. If *answer* is None, the setting is write-only. *read* converts a
    value in a body to the core's form, and *show* converts it back for answers. *default* returns the value of a
    missing field. *description* is added to the help of the setting.
    """

    body: Any
    read: Callable[[Any], Any] = lambda value: value
    patch: Any = None
    answer: Any = None
    show: Callable[[Any], Any] = lambda value: value
    default: Callable[[], Any] | None = None
    description: str = ""


Wires = Mapping[str, Wire]
NO_WIRES: Wires = {}


def body_base(kind: type, wires: Wires = NO_WIRES) -> Any:
    """Return a base class for request bodies. It has a field for each setting that the dataclass *kind* declares.

    The fields have the declared bounds, defaults and help. *wires* has the API's forms, by the settings' names in
    *kind*.
    """
    found: dict[str, Any] = {each.wire: _field(each, wires.get(each.name)) for each in settings_of(kind)}
    return create_model("Settings", __base__=Body, __module__=__name__, **found)


def patch_base(kind: type, wires: Wires = NO_WIRES) -> Any:
    """Return a base class for merge patches with the settings of *kind*. Each setting may be missing or null."""
    found: dict[str, Any] = {}
    for each in settings_of(kind):
        wire = wires.get(each.name)
        type_ = _scalar(each) if wire is None else wire.patch or wire.body
        found[each.wire] = (type_ | None, Field(None, **_describe_property(each, wire)))
    return create_model("Changes", __base__=Body, __module__=__name__, **found)


def answer_base(kind: type, wires: Wires = NO_WIRES) -> Any:
    """Return the type of answers with the settings of *kind*. A setting is optional unless it is always shown."""
    found: dict[str, Any] = {}
    for each in settings_of(kind):
        wire = wires.get(each.name)
        type_ = _shown_type(each) if wire is None else wire.answer
        if type_ is not None:
            found[each.wire] = type_ if each.setting.is_shown else NotRequired[type_]
    make: Any = TypedDict
    return make("Shown", found)


def settings_from_body(kind: type, body: Body, wires: Wires = NO_WIRES) -> dict[str, Any]:
    """Convert *body* to keyword arguments for the dataclass *kind*: all settings by field name, in the core's types.

    The result includes the defaults of settings that the request did not name.
    """
    found: dict[str, Any] = {}
    for each in settings_of(kind):
        value, wire = getattr(body, each.wire), wires.get(each.name)
        if wire is not None:
            found[each.name] = wire.read(value)
        else:
            found[each.name] = each.type(value) if each.words and value is not None else value
    return found


def show_settings(value: Any, wires: Wires = NO_WIRES, only: Only | None = None) -> dict[str, Any]:
    """Return the settings of *value*, a dataclass of the core, in the API's form. Write-only settings are omitted.

    Settings with their defaults are omitted, too, unless they are always shown. If *only* is GROUPS, the settings that
    only groups have are always shown.
    """
    found: dict[str, Any] = {}
    for each in settings_of(type(value)):
        present, wire = getattr(value, each.name), wires.get(each.name)
        if wire is not None and wire.answer is None:
            continue
        is_chosen = present is not None and present != each.default
        if is_chosen or each.setting.is_shown or each.setting.only is only is Only.GROUPS:
            found[each.wire] = present if wire is None else wire.show(present)
    return {name: str(it) if isinstance(it, str) else as_json(it) for name, it in found.items()}


def _shown_type(each: Declared) -> Any:
    """Return the type of a setting in answers. A setting that is always shown may be null."""
    forms: Mapping[Any, Any] = {tuple: list, Mapping: dict}
    if (form := forms.get(get_origin(each.type))) is not None:
        inner = get_args(each.type)
        return form[inner[0] if form is list else inner]
    type_ = _scalar(each, is_bounded=False)
    return type_ | None if each.is_optional and each.setting.is_shown else type_


def _field(each: Declared, wire: Wire | None) -> tuple[Any, Any]:
    type_ = _scalar(each) if wire is None else wire.body
    described = _describe_property(each, wire)
    make = None if wire is None else wire.default
    without = None if make is None else make()
    if make is not None and isinstance(without, BaseModel):
        return _or_null(type_, make), Field(default_factory=make, **described)
    if without is not None:
        return _or_null(type_, lambda: without), Field(without, **described)
    if each.default is MISSING and (wire is None or wire.default is None):
        return type_, Field(**described)
    default = None if wire is not None else str(each.default) if each.words else each.default
    return _or_null(type_, lambda: default), Field(default, **described)


def _or_null(type_: Any, default: Callable[[], Any]) -> Any:
    """Return *type_* or null, which means the default: many programs send null for a field without a value."""
    if default() is None:
        return type_ | None
    read = BeforeValidator(lambda value: default() if value is None else value, json_schema_input_type=type_ | None)
    return Annotated[type_, read]


def _scalar(each: Declared, *, is_bounded: bool = True) -> Any:
    setting = each.setting
    if each.words:
        return Literal[each.words]
    if not is_bounded or each.type is bool:
        return each.type
    if each.type is str:
        length_max = None if setting.at_most is None else int(setting.at_most)
        bounds: Any = Annotated[str, StringConstraints(max_length=length_max, pattern=setting.pattern or None)]
        return Annotated[bounds, Field(json_schema_extra={"format": setting.format})] if setting.format else bounds
    return Annotated[each.type, Field(ge=setting.at_least, le=setting.at_most)]


def _describe_property(each: Declared, wire: Wire | None) -> dict[str, Any]:
    """Return a property's description and its extensions for the command line and the console."""
    extensions = {
        field.name: str(value)
        for field in fields(each.setting)
        if field.name in ("only", "option", "metavar", "section") and (value := getattr(each.setting, field.name))
    }
    extra: JsonDict = {f"x-{name}": value for name, value in extensions.items()}
    described: dict[str, Any] = {"description": f"{each.setting.help} {wire.description if wire else ''}".strip()}
    return described | ({"json_schema_extra": extra} if extra else {})


def apply_patch(present: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return *present* with a merge patch: null removes a field, objects are merged, other values replace.

    >>> present = {"retry": {"strategy": "BACKOFF_RETRY", "max_retries": 3}, "batch": {}}
    >>> apply_patch(present, {"retry": {"max_retries": 5}})
    {'retry': {'strategy': 'BACKOFF_RETRY', 'max_retries': 5}, 'batch': {}}
    >>> apply_patch({"filter": {"kind": "tags"}}, {"filter": None}), apply_patch({}, {"batch": {"max_bytes": None}})
    ({}, {'batch': {}})
    """
    result = dict(present)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = apply_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result
