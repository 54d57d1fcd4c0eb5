"""Bugs that are planted into shipped functions, one at a time, and the form in which tables of them are written.

A section of a table is named by what catches its bugs. A bug is a line with its name and, behind ``|``, what exactly
catches it, then a line for each function that it changes::

    [unit/test_plans.py]
    after a 410 the generation stays | test_a_suspension_has_a_generation
      tagcast.rows.lane_transitions:suspend  without generation

A change is one of these; what it names has to be in the function exactly once:

===================  ===========================================================================================
``drop f``           the statement that calls f is left out; ``drop f x``: the one that mentions x, too
``never x``          the condition that mentions x (and y: ``never x y``) is false; ``always x``: it is true
``without x``        the operand of and/or, the argument, the item that is called x or mentions it is left out
``x := value``       the argument, the item or the variable called x has this value
``swap f g``         the statements that call f and g change places
``return value``     the function does nothing but this
``old => new``       these words of its text, however they are spaced, are exchanged
===================  ===========================================================================================
"""

import __future__

import ast
import builtins
import dis
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

FAULT_OF_THE_TEXT = re.compile(r"\b(Name|Type|Attribute|UnboundLocal)Error\b")
"""A bug that is noticed by one of these says nothing of the promise that it breaks."""


class PlantingError(LookupError):
    """What a planted bug changes is not in the shipped code (any more), or its own text says nothing there."""


@dataclass(frozen=True)
class Bug:
    """Changes of shipped functions, by *where* (``module:name`` or ``module:Class.name``).

    There are several where a promise is kept more than once: any of them alone would still keep it.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    section: str = ""
    caught_by: str = ""


def read_bugs(table: Path) -> tuple[Bug, ...]:
    """Return the bugs of *table*."""
    section, found = "", list[Bug]()
    for line in table.read_text().splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif line.startswith(" "):
            where, change = line.split(maxsplit=1)
            last = found.pop()
            found.append(Bug(last.name, (*last.changes, (where, change)), section, last.caught_by))
        elif line and not line.startswith("#"):
            name, _, caught_by = line.partition(" | ")
            found.append(Bug(name, (), section, caught_by))
    return tuple(found)


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Let the shipped functions have the bug, wherever they are referred to; afterwards they are as they were."""
    found = [_found(where) for where, _ in bug.changes]
    functions = [_function(each) for each in found]
    shipped = [function.__code__ for function in functions]
    changed = [_code(bug, function, change) for function, (_, change) in zip(functions, bug.changes, strict=True)]
    try:
        _exchange(found, functions, changed)
        yield
    finally:
        _exchange(found, functions, shipped)


def _exchange(found: Sequence[object], functions: Sequence[FunctionType], codes: Sequence[CodeType]) -> None:
    """Give each function its code; those that remember what they returned work it out anew."""
    for each, function, code in zip(found, functions, codes, strict=True):
        function.__code__ = code
        if isinstance(each, _lru_cache_wrapper):
            each.cache_clear()


def _found(where: str) -> object:
    module_name, _, path = where.partition(":")
    found: object = import_module(module_name)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    return found


def _function(found: object) -> FunctionType:
    if isinstance(found, _lru_cache_wrapper):
        found = found.__wrapped__
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), found
    return found


def _code(bug: Bug, function: FunctionType, change: str) -> CodeType:
    try:
        tree = changed(textwrap.dedent(inspect.getsource(function)), change)
    except PlantingError as fault:
        raise PlantingError(f"{bug.name}: {function.__qualname__}: {fault}") from None
    flag = __future__.annotations.compiler_flag
    compiled = compile(tree, f"<{bug.name}>", "exec", flags=flag, dont_inherit=True)
    code = next((each for each in codes_in(compiled) if each.co_name == function.__name__), None)
    if code is None:
        raise PlantingError(f"{bug.name}: {function.__name__} is gone")
    unknown = sorted(_globals_in(code) - vars(builtins).keys() - function.__globals__.keys())
    if unknown:
        raise PlantingError(f"{bug.name}: {function.__qualname__} knows no {', '.join(unknown)}")
    return code


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield *code* and all that is defined in it, the outer first."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def _globals_in(code: CodeType) -> set[str]:
    """Return the names that *code*, and what is defined in it, takes from its module."""
    told = (instruction for each in codes_in(code) for instruction in dis.get_instructions(each))
    return {str(each.argval) for each in told if each.opname == "LOAD_GLOBAL"}


def changed(source: str, change: str) -> ast.Module:
    r"""Return the function of this *source* with *change* in it.

    >>> source = "def f(a, b):\n    if a or b:\n        g(a, key=b)\n    return a"
    >>> for change in ("never a", "drop g", "without key", "key := 1", "a or b => b", "return 2"):
    ...     print(" / ".join(line.strip() for line in ast.unparse(changed(source, change)).splitlines()[1:]))
    if False: / g(a, key=b) / return a
    if a or b: / pass / return a
    if a or b: / g(a) / return a
    if a or b: / g(a, key=1) / return a
    if b: / g(a, key=b) / return a
    return 2
    >>> changed(source, "drop h")
    Traceback (most recent call last):
    tests.mutation.bugs.PlantingError: there are 0 for 'drop h', not one
    """
    if " =>" in change:
        return ast.parse(_exchanged(source, *change.split(" =>", 1)))
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    word, _, name = change.partition(" ")
    if word == "return":
        function.body = ast.parse(change).body
    elif name.startswith(":= "):
        _only(change, _values(function, word)).put(ast.parse(name[3:], mode="eval").body)
    elif word == "drop":
        called, *names = name.split()
        places = _statements(function, called)
        _only(change, (place for place in places if _mentions(place.node, *names))).put(ast.Pass())
    elif word in ("never", "always"):
        _only(change, _conditions(function, name)).put(ast.Constant(word == "always"))
    elif word == "without":
        _leave_out(function, _only(change, _parts(function, name)))
    elif word == "swap":
        one, other = (_only(change, _statements(function, each, assigned=True)) for each in name.split())
        first, second = one.node, other.node
        one.put(second)
        other.put(first)
    else:
        raise PlantingError(f"there is no such change: {change}")
    return ast.fix_missing_locations(tree)


def _exchanged(source: str, old: str, new: str) -> str:
    """Return *source* with *new* for *old*; spaces, and a comma before a closing bracket, count nowhere."""
    pieces = re.findall(r"\w+|[^\w\s]", old)
    pattern = r"\b" if pieces[0][0].isalnum() else ""
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        pattern += re.escape(piece) + (r"\b" if piece[-1].isalnum() else "")
        pattern += "" if not following else r",?\s*" if following in ")]}" and piece != "," else r"\s*"
    count = len(re.findall(pattern, source))
    if count != 1:
        raise PlantingError(f"it has the text {count} times, not once: {old}")
    return re.sub(pattern, lambda _: new.strip().replace("\\n", "\n"), source)


class Place(NamedTuple):
    """Where a node stands: a field of its parent, or an item of it."""

    node: ast.AST
    parent: ast.AST
    field: str
    at: int | None

    def put(self, instead: ast.AST) -> None:
        if self.at is None:
            setattr(self.parent, self.field, instead)
        else:
            getattr(self.parent, self.field)[self.at] = instead


def _places(root: ast.AST) -> Iterator[Place]:
    for parent in ast.walk(root):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield Place(value, parent, field, None)
            elif isinstance(value, list):
                yield from (Place(each, parent, field, at) for at, each in enumerate(value) if each is not None)


def _leave_out(function: ast.AST, place: Place) -> None:
    assert place.at is not None
    del getattr(place.parent, place.field)[place.at]
    match place.parent:
        case ast.Dict(values=values):
            del values[place.at]
        case ast.BoolOp(values=[last]):
            next(each for each in _places(function) if each.node is place.parent).put(last)


def _mentions(node: ast.AST, *names: str) -> bool:
    return all(any(_is_called(each, name) for each in ast.walk(node)) for name in names)


def _is_called(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=own) | ast.Attribute(attr=own) | ast.keyword(arg=own) | ast.Constant(value=own) if own == name:
            return True
        case ast.expr():
            return ast.unparse(node) == name
        case _:
            return False


def _statements(function: ast.AST, name: str, *, assigned: bool = False) -> Iterator[Place]:
    """Yield the statements that are calls of *name*; with *assigned* also those that keep the answer."""
    for place in _places(function):
        node = place.node
        if isinstance(node, ast.Expr) or (assigned and isinstance(node, ast.Assign)):
            called = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(called, ast.Call) and _is_called(called.func, name):
                yield place


def _conditions(function: ast.AST, name: str) -> Iterator[Place]:
    for place in _places(function):
        if (
            place.field in ("test", "ifs")
            and not isinstance(place.parent, ast.Assert)
            and _mentions(place.node, *name.split())
        ):
            yield place


def _parts(function: ast.AST, name: str) -> Iterator[Place]:
    """Yield what may be left out: operands and items that mention *name*, arguments and keys that are called so."""
    for place in _places(function):
        match place.parent, place.field:
            case (ast.BoolOp(), "values") | (ast.Call(), "args") | (ast.Tuple() | ast.List() | ast.Set(), "elts"):
                found = _mentions(place.node, name)
            case (ast.Call(), "keywords") | (ast.Dict(), "keys"):
                found = _is_called(place.node, name)
            case _:
                found = False
        if found:
            yield place


def _values(function: ast.AST, name: str) -> Iterator[Place]:
    """Yield the values of arguments, keys and variables that are called *name*."""
    for node in ast.walk(function):
        match node:
            case ast.keyword(arg=own) if own == name:
                yield Place(node.value, node, "value", None)
            case ast.Dict(keys, values):
                for at, (key, value) in enumerate(zip(keys, values, strict=True)):
                    if key is not None and _is_called(key, name):
                        yield Place(value, node, "values", at)
            case ast.Assign(targets=[target]) if _is_called(target, name):
                yield Place(node.value, node, "value", None)


def _only(change: str, places: Iterable[Place]) -> Place:
    found = list(places)
    if len(found) != 1:
        raise PlantingError(f"there are {len(found)} for '{change}', not one")
    return found[0]
