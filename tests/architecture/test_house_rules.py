"""How the code is written: functions seen as a whole, names that say something."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTION_LINES_MAX = 50
EMPTY_WORDS = {"data", "info", "manager", "util", "utils", "helper", "helpers", "common", "misc", "process"}
LONG = {("clients/cli/tagcast_cli/listen.py", "listen")}
"""A command, whose signature is its list of options."""
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
    cwd=ROOT, capture_output=True, text=True, check=True,
).stdout.split()  # fmt: skip


@cache
def trees() -> dict[str, ast.Module]:
    """Return every module of the project; only the process that runs these tests parses them."""
    return {name: ast.parse((ROOT / name).read_text()) for name in TRACKED if (ROOT / name).exists()}


@cache
def product() -> dict[str, ast.Module]:
    """Return every module but those of the tests."""
    return {name: tree for name, tree in trees().items() if not name.startswith("tests/")}


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module."""
    return tuple(ast.walk(trees()[name]))


def nodes(modules: dict[str, ast.Module], *kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Every node of these kinds, with the module in which it stands."""
    return ((name, node) for name in modules for node in nodes_of(name) if isinstance(node, kinds))


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    """Let the trees go behind these tests: the collector of garbage would look at millions of nodes for all others."""
    yield
    for each in (trees, product, nodes_of):
        each.cache_clear()


def test_a_function_can_be_seen_as_a_whole() -> None:
    long = set()
    for name, node in nodes(product(), ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX:
            long.add((name, node.name))

    assert long == LONG


def test_modules_and_classes_are_named_by_what_they_hold() -> None:
    ends = ("Manager", "Helper", "Util", "Utils")
    classes = [(name, node.name) for name, node in nodes(product(), ast.ClassDef) if isinstance(node, ast.ClassDef)]

    assert [name for name in product() if Path(name).stem in EMPTY_WORDS] == []
    assert [each for each in classes if each[1].endswith(ends)] == []


def test_no_code_stands_in_a_text() -> None:
    calls = [(name, node.func) for name, node in nodes(product(), ast.Call) if isinstance(node, ast.Call)]

    assert [name for name, func in calls if isinstance(func, ast.Name) and func.id in ("exec", "eval", "compile")] == []


def test_a_handler_defines_no_class() -> None:
    handlers = {name: tree for name, tree in product().items() if name.startswith("functions/")}

    assert handlers
    assert [name for name, _ in nodes(handlers, ast.ClassDef)] == []


def test_a_loop_of_the_core_without_a_condition_says_why_it_ends() -> None:
    silent = []
    for name, node in nodes({name: tree for name, tree in product().items() if "/tagcast/" in name}, ast.While):
        assert isinstance(node, ast.While)
        line = (ROOT / name).read_text().splitlines()[node.lineno - 1]
        if isinstance(node.test, ast.Constant) and "# It ends: " not in line:
            silent.append((name, line))

    assert silent == []


def lost_texts(parent: ast.AST) -> Iterator[int]:
    """Yield the lines of texts that are statements, but describe neither what they begin nor the name before them."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        body = getattr(parent, part, [])
        for before, each in zip((None, *body), body, strict=False):
            is_lost = before is not None and not isinstance(before, ast.Assign | ast.AnnAssign)
            if is_lost and isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                yield from [each.lineno] if isinstance(each.value.value, str) else []
            yield from lost_texts(each)


def test_no_text_is_left_behind_by_what_it_described() -> None:
    """Ruff takes any text that is a statement for a docstring."""
    assert [(name, line) for name, tree in trees().items() for line in lost_texts(tree)] == []


def test_a_text_that_was_left_behind_is_found() -> None:
    lost = "def f():\n 'It does.'\n try: g()\n except E:\n  g()\n  'Lost.'\n 'Lost.'"
    assert [*lost_texts(ast.parse(lost))] == [6, 7]
    assert [*lost_texts(ast.parse('"""A module."""\nA: int = 1\n"""Of A."""'))] == []
