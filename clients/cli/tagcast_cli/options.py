"""Options that several commands share: a class of options is one parameter of a command function.

`with_options` converts such a function for Typer, which needs one parameter per option. When the command runs, the
function gets an object of each class. A table of settings is a parameter in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from operator import methodcaller
from typing import Annotated, Any, Literal, get_type_hints

import typer
from tagcast_client.operation import Json, drop_none
from tagcast_client.setting import Setting

from tagcast_cli.instant import duration

Values = dict[str, Any]
Make = Callable[[Values], Any]
"""A function that removes options from the values of a command, and returns an object made from the options."""


@dataclass(frozen=True)
class SettingOptions:
    """Makes command options from a table of settings: ``Annotated[Json, SettingOptions(TABLE)]``.

    Each setting that is a number, a text, a boolean or a choice gets an option, except those in *leave_out*.
    """

    settings: Sequence[Setting]
    leave_out: tuple[str, ...] = ()

    @property
    def offered(self) -> list[Setting]:
        """The settings with an option."""
        return [each for each in self.settings if each.name not in self.leave_out and each.type in _TYPES]

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield the options as parameters for Typer."""
        for each in self.offered:
            type_: Any = Literal[each.choices] if each.choices else _TYPES[each.type]
            yield _parameter(each.name, Annotated[type_ | None, _option(each)], None)

    def take(self, values: Values) -> Json:
        """Remove these options from *values*, the option values of a command. Return the settings that were given."""
        return drop_none(**{each.name: values.pop(each.name) for each in self.offered})


_TYPES: Mapping[str, Any] = {"integer": int, "number": float, "string": str, "boolean": bool}


def option_of(setting: Setting) -> str:
    """Return the name of the option for a setting.

    >>> option_of(Setting("timeout_seconds", "integer"))
    '--timeout'
    >>> option_of(Setting("start_from", "string", extra={"option": "from"}))
    '--from'
    """
    return f"--{setting.extra.get('option') or setting.name.removesuffix('_seconds').replace('_', '-')}"


def _option(setting: Setting) -> Any:
    name, help = option_of(setting), setting.help
    if setting.name.endswith("_seconds"):
        return duration(name, help=help)
    return typer.Option(name, metavar=setting.extra.get("metavar"), help=help)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return *command* as a function for Typer, with one parameter per option instead of classes of options."""
    defaults = {each.name: each.default for each in inspect.signature(command).parameters.values()}
    parameters, makers = _write_out(command, defaults)

    @wraps(command)
    def run(**values: Any) -> None:
        _make(command, makers, values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _write_out(owner: Any, defaults: Mapping[str, Any]) -> tuple[list[inspect.Parameter], dict[str, Make]]:
    """Return the options of a command or a class of options, and a constructor for each of its own parameters."""
    hints = get_type_hints(owner, include_extras=True)
    parameters: list[inspect.Parameter] = []
    makers: dict[str, Make] = {}
    for name, default in defaults.items():
        hint = hints[name]
        tables = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, SettingOptions)]
        if tables:
            parameters += tables[0].parameters()
            makers[name] = tables[0].take
        elif isinstance(hint, type) and is_dataclass(hint):
            inner, inner_makers = _write_out(hint, {each.name: each.default for each in fields(hint)})
            parameters += inner
            makers[name] = partial(_make, hint, inner_makers)
        else:
            parameters.append(_parameter(name, hint, default))
            makers[name] = methodcaller("pop", name)
    return parameters, makers


def _make(kind: Any, makers: Mapping[str, Make], values: Values) -> Any:
    return kind(**{name: make(values) for name, make in makers.items()})


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def remove_settings(names: Sequence[str] | None, settings: Sequence[Setting]) -> Json:
    """Return the settings that ``--without`` removes, each with the value None. *names* are the names of their options.

    *settings* are the known settings. Raises BadParameter for an unknown name.
    """
    known = {option_of(each).removeprefix("--"): each.name for each in settings}
    if unknown := [name for name in names or () if name not in known]:
        allowed = ", ".join(sorted(known))
        raise typer.BadParameter(f"{', '.join(unknown)} is not a setting. Allowed: {allowed}", param_hint="--without")
    return {known[name]: None for name in names or ()}
