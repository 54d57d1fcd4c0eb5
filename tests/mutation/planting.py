"""Putting changed code in the place of shipped code, in this process only."""

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType

from tests.mutation.bugs import PlantingError, codes_in
from tests.mutation.mutants import MODULES, ROOT, TOP, functions_of, path_of


@cache
def live_functions() -> Mapping[tuple[str, str], list[FunctionType]]:
    """Return every function of the project that this process has, by its file and qualified name.

    Whatever refers to a function, its code is exchanged inside it. Call this first when all tests are imported.
    """
    for module in MODULES:
        import_module(module)
    gc.unfreeze()  # get_objects does not return frozen objects.
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for known in gc.get_objects():
        if isinstance(known, FunctionType):
            found[known.__code__.co_filename, known.__code__.co_qualname].append(known)
    gc.freeze()
    return found


def plant(module: str, function: str, changed: ast.AST, names: Mapping[str, object] | None = None) -> None:
    """Let *function* of *module* be *changed*, for good; the constants at the top of a module are its function TOP.

    *names* are further names that the changed function may refer to.
    """
    if function == TOP:
        assert isinstance(changed, ast.Module)
        _plant_constants(module, changed)
        return
    live = live_functions().get((str(path_of(module)), function))
    if not live:
        raise PlantingError(f"{module} has no function {function}")
    code = _code(module, function, _with_cells(changed, live[0].__code__.co_freevars))
    for each in live:
        each.__globals__.update(names or {})
        each.__code__ = code


def _with_cells(changed: ast.AST, names: Sequence[str]) -> ast.AST:
    """Return *changed* with a mention of each of *names* that is never reached: code keeps the cells it had."""
    assert isinstance(changed, ast.FunctionDef | ast.AsyncFunctionDef)
    mentions = [ast.If(ast.Constant(False), [ast.Expr(ast.Name(name, ast.Load()))], []) for name in names]
    return ast.fix_missing_locations(
        ast.copy_location(
            type(changed)(**{**dict(ast.iter_fields(changed)), "body": [*changed.body, *mentions]}), changed
        )
    )


def _plant_constants(module: str, changed: ast.Module) -> None:
    """Exchange the constants at the top of *module*, wherever they were imported to.

    What was calculated from them when modules were imported keeps its value.
    """
    before = functions_of(module)[TOP]
    assert isinstance(before, ast.Module)
    for old, new in zip(before.body, changed.body, strict=True):
        if ast.dump(old) == ast.dump(new):
            continue
        fresh = dict(vars(sys.modules[module]))
        exec(compile(ast.fix_missing_locations(ast.Module([new], [])), f"<{module}>", "exec"), fresh)
        assert isinstance(new, ast.Assign)
        names = {name.id for target in new.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        for name in names:
            for holder in [known for known in sys.modules.values() if _is_ours(known)]:
                if vars(holder).get(name) == vars(sys.modules[module])[name] and holder is not sys.modules[module]:
                    vars(holder)[name] = fresh[name]
            vars(sys.modules[module])[name] = fresh[name]


def _is_ours(module: object) -> bool:
    """Say whether *module* is one of the project, also if pytest imported it once more to find doctests."""
    return str(getattr(module, "__file__", None) or "").startswith(str(ROOT))


def _code(module: str, function: str, changed: ast.AST) -> CodeType:
    """Compile *changed* as a function of the same qualified name, so that it has the same cells as the shipped one."""
    assert isinstance(changed, ast.stmt)
    node: ast.stmt = changed
    for owner in reversed(function.split(".")[:-1]):
        node = ast.copy_location(ast.ClassDef(owner, [], [], [node], []), changed)
    tree = ast.Module([*ast.parse("from __future__ import annotations").body, node], [])
    compiled = compile(tree, str(path_of(module)), "exec")
    return next(each for each in codes_in(compiled) if each.co_qualname == function)
