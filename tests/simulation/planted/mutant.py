"""A planted bug: one function of the shipped code with one piece of its text exchanged."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType

from tests.simulation.plan import ANYTHING, Aim


class PlantingError(LookupError):
    """The text of a planted bug is not in the shipped code (any more)."""


@dataclass(frozen=True)
class Mutant:
    """The text *old* of the function *where* (``module:name`` or ``module:Class.name``) becomes *new*.

    *aim* bends the plans, so that histories in which the bug matters come up often.
    """

    name: str
    where: str
    old: str
    new: str
    aim: Aim = ANYTHING


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Let the shipped function have the bug, wherever it is referred to; afterwards it is as it was."""
    function = _function(mutant.where)
    shipped = function.__code__
    function.__code__ = _code(mutant, function)
    try:
        yield
    finally:
        function.__code__ = shipped


def _function(where: str) -> FunctionType:
    module_name, _, path = where.partition(":")
    found: object = import_module(module_name)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), where
    return found


def _code(mutant: Mutant, function: FunctionType) -> CodeType:
    source = inspect.getsource(function)
    if source.count(mutant.old) != 1:
        raise PlantingError(f"{mutant.name}: {mutant.where} has its text {source.count(mutant.old)} times, not once")
    changed = textwrap.dedent(source.replace(mutant.old, mutant.new))
    pending = [compile(f"from __future__ import annotations\n{changed}", f"<{mutant.name}>", "exec")]
    while pending:
        for constant in pending.pop(0).co_consts:
            if isinstance(constant, CodeType):
                if constant.co_name == function.__name__:
                    return constant
                pending.append(constant)
    raise PlantingError(f"{mutant.name}: {function.__name__} is gone")
