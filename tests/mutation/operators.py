"""Small changes of a piece of syntax: each is a bug that somebody could have written."""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNORDERED = {"cast", "min", "max", "isinstance", "range"}
"""Calls whose first two arguments make no bug when they change places, or one that no test could miss."""


@dataclass(frozen=True)
class Change:
    """A node of a function's syntax and what stands in its place; *operator* says what kind of bug that is.

    *instead* shares its parts with the tree of the node.
    """

    operator: str
    node: ast.AST
    instead: ast.AST


def changes_of(function: ast.AST) -> Iterator[Change]:
    """Yield every change of *function*, in the order of its text."""
    skipped = _skipped(function)
    bound = _names_bound_before(function)
    for node in ast.walk(function):
        if node in skipped:
            continue
        if isinstance(node, ast.stmt):
            yield from _removed(node, bound)
        else:
            yield from _expression(node)
        if isinstance(node, ast.Return) and node.value is not None and not _is_nothing(node.value):
            yield Change("return value", node, ast.Return(ast.Constant(None)))
        if isinstance(node, ast.ExceptHandler):
            yield Change("handler", node, _with(node, body=[ast.Raise()]))
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(
            node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant
        ):
            yield Change("condition", node, _with(node, test=ast.UnaryOp(ast.Not(), node.test)))


def _expression(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[operator, *_]):
            for other in COMPARED[type(operator)]:
                yield Change("comparison", node, _with(node, ops=[other(), *node.ops[1:]]))
        case ast.Constant():
            yield from (
                Change("constant", node, ast.Constant(cast("Any", other))) for other in _other_constants(node.value)
            )
        case ast.BoolOp():
            opposite = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield Change("boolean", node, _with(node, op=opposite))
            for place in range(len(node.values)):
                rest = [value for at, value in enumerate(node.values) if at != place]
                yield Change("boolean", node, rest[0] if len(rest) == 1 else _with(node, values=rest))
        case ast.UnaryOp(op=ast.Not()):
            yield Change("not", node, node.operand)
        case ast.BinOp() if type(node.op) in CALCULATED:
            yield Change("arithmetic", node, _with(node, op=CALCULATED[type(node.op)]()))
        case ast.Await():
            yield Change("await", node, node.value)
        case ast.IfExp():
            yield Change("branch", node, node.body)
            yield Change("branch", node, node.orelse)
        case ast.Dict() if None not in node.keys:
            for place in range(len(node.keys)):
                yield Change("dict key", node, _without(node, place, "keys", "values"))
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) if len(node.elts) > 1:
            for place in range(len(node.elts)):
                yield Change("item", node, _without(node, place, "elts"))
        case ast.Call():
            yield from _call(node)


def _call(node: ast.Call) -> Iterator[Change]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in SWAPPED_NAMES:
        yield Change("function", node, _with(node, func=ast.Name(SWAPPED_NAMES[name], ast.Load())))
    if name not in UNORDERED:
        for place in range(len(node.args) - 1):
            pair = node.args[place : place + 2]
            if not any(isinstance(one, ast.Starred) for one in pair) and ast.dump(pair[0]) != ast.dump(pair[1]):
                swapped = [*node.args[:place], pair[1], pair[0], *node.args[place + 2 :]]
                yield Change("swapped arguments", node, _with(node, args=swapped))
    for place in range(len(node.keywords)):
        yield Change("argument", node, _without(node, place, "keywords"))


def _removed(node: ast.stmt, bound: set[ast.stmt]) -> Iterator[Change]:
    """Yield the removal of a statement, unless only an unknown name would be left of it."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Assign(targets=[ast.Name(), *_]) if node not in bound:
            return
        case ast.Assign(targets=[ast.Tuple(), *_]):
            return
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield Change("statement", node, ast.Pass())


def _names_bound_before(function: ast.AST) -> set[ast.stmt]:
    """Return the assignments to names that had a value already: an argument's, or an earlier assignment's."""
    known: set[str] = set()
    again: set[ast.stmt] = set()
    arguments = getattr(function, "args", None)
    if isinstance(arguments, ast.arguments):
        known |= {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            if names and names <= known:
                again.add(node)
            known |= names
    return again


def _skipped(function: ast.AST) -> set[ast.AST]:
    """Return what no change shall touch: annotations, docstrings, assertions, texts for people, types of casts."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(function):
        beside: list[ast.AST | None] = []
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                beside = [*node.decorator_list, node.returns, node.args]
                beside += [node.body[0]] if ast.get_docstring(node) is not None else []
            case ast.AnnAssign():
                beside = [node.annotation]
            case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.match_case(pattern=ast.MatchValue()):
                beside = [node.pattern] if isinstance(node, ast.match_case) else [node]
            case ast.Raise(exc=ast.Call() as made):
                beside = [*made.args, *made.keywords]
            case ast.Call(func=ast.Name(id="cast")):
                beside = [node.args[0]]
            case ast.Call(func=ast.Attribute(attr="debug" | "info" | "warning" | "error")):
                beside = [*node.args, *node.keywords]
            case ast.FormattedValue():
                beside = [node.format_spec]
        skipped |= {inner for each in beside if each is not None for inner in ast.walk(each)}
    return skipped


def _other_constants(value: object) -> Iterator[object]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 1
            yield value - 1
        case str():
            yield f"{value}X"
        case bytes():
            yield value + b"X"


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return *node* with other fields. It shares its parts with the shipped tree, so nobody may change them."""
    changed = copy(node)
    vars(changed).update(fields)
    return changed


def _without(node: ast.AST, place: int, *fields: str) -> ast.AST:
    kept = {name: [each for at, each in enumerate(getattr(node, name)) if at != place] for name in fields}
    return _with(node, **kept)
