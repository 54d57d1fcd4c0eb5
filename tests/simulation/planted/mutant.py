"""A planted bug: one function of the shipped code with one piece of its text exchanged."""

from __future__ import annotations

import builtins
import dis
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from importlib import import_module
from types import CodeType, FunctionType

from tests.simulation.plan import ANYTHING, Aim

FAULT_OF_THE_TEXT = re.compile(r"\b(Name|Type|Attribute|UnboundLocal)Error\b")
"""A bug that is noticed by one of these says nothing of the promise that it breaks."""


class PlantingError(LookupError):
    """The text of a planted bug is not in the shipped code (any more), or its own text says nothing there."""


@dataclass(frozen=True)
class Mutant:
    """The text *old* of the function *where* (``module:name`` or ``module:Class.name``) becomes *new*.

    *aim* bends the plans, so that histories in which the bug matters come up often. *also* is a second exchange, for
    a promise that is kept twice over: either of the two texts alone would still keep it.
    """

    name: str
    where: str
    old: str
    new: str
    aim: Aim = ANYTHING
    also: tuple[str, str, str] | None = None


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Let the shipped function have the bug, wherever it is referred to; afterwards it is as it was."""
    exchanges = [(mutant.where, mutant.old, mutant.new), *([mutant.also] if mutant.also else [])]
    functions = [_function(where) for where, _, _ in exchanges]
    shipped = [function.__code__ for function in functions]
    changed = [
        _code(mutant.name, function, old, new) for function, (_, old, new) in zip(functions, exchanges, strict=True)
    ]
    try:
        for function, code in zip(functions, changed, strict=True):
            function.__code__ = code
        _forget(exchanges)
        yield
    finally:
        for function, code in zip(functions, shipped, strict=True):
            function.__code__ = code
        _forget(exchanges)


def _forget(exchanges: Iterable[tuple[str, str, str]]) -> None:
    """Let those functions that remember what they returned work it out anew."""
    for where, _, _ in exchanges:
        found = _found(where)
        if isinstance(found, _lru_cache_wrapper):
            found.cache_clear()


def _found(where: str) -> object:
    module_name, _, path = where.partition(":")
    found: object = import_module(module_name)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    return found


def _function(where: str) -> FunctionType:
    found = _found(where)
    if isinstance(found, _lru_cache_wrapper):
        found = found.__wrapped__
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), where
    return found


def _code(name: str, function: FunctionType, old: str, new: str) -> CodeType:
    source = inspect.getsource(function)
    if source.count(old) != 1:
        raise PlantingError(f"{name}: {function.__qualname__} has the text {source.count(old)} times, not once: {old}")
    changed = textwrap.dedent(source.replace(old, new))
    pending = [compile(f"from __future__ import annotations\n{changed}", f"<{name}>", "exec")]
    while pending:
        for constant in pending.pop(0).co_consts:
            if isinstance(constant, CodeType):
                if constant.co_name == function.__name__:
                    unknown = sorted(_globals_in(constant) - vars(builtins).keys() - function.__globals__.keys())
                    if unknown:
                        raise PlantingError(f"{name}: {function.__qualname__} knows no {', '.join(unknown)}")
                    return constant
                pending.append(constant)
    raise PlantingError(f"{name}: {function.__name__} is gone")


def _globals_in(code: CodeType) -> set[str]:
    """Return the names that *code*, and what is defined in it, takes from its module."""
    names = {str(each.argval) for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return names.union(*(_globals_in(each) for each in code.co_consts if isinstance(each, CodeType)))
