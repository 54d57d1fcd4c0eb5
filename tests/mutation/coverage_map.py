"""Which test reaches which line of the mutated modules, and how long it takes: measured once per state of the tree."""

import ast
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.bent import play
from tests.mutation.mutants import MODULES, ROOT, TOP, functions_of
from tests.mutation.planting import plant
from tests.mutation.warm import Tell, Warm, Work, passes

FOLDER = ROOT / ".mutation"
SIMULATION = "simulation"
TOLD = "__told__"
TRACED_S = 40.0
CHUNKS = 8


@dataclass(frozen=True)
class CoverageMap:
    """Tests by the lines that they reach, with their durations in seconds; *broken* ones fail without any change."""

    lines: Mapping[str, Mapping[str, frozenset[int]]]
    """By test, then by module."""
    durations: Mapping[str, float]
    broken: tuple[str, ...]

    def reaching(self, module: str, lines: Iterable[int]) -> list[str]:
        """Return the tests that reach any of *lines*, the fastest first; the simulation is one of them."""
        wanted = set(lines)
        found = [test for test, reached in self.lines.items() if wanted & reached.get(module, frozenset())]
        return sorted(found, key=lambda test: self.durations[test])


def tree_digest() -> str:
    """Return the digest of everything that a test's outcome may depend on."""
    digest = sha256()
    for folder in ("layers", "functions", "local", "tests", "events"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".json", ".yaml") and not {"__pycache__", "mutation"} & set(path.parts):
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def coverage_map(warm: Warm, jobs: int, path: Path, *, simulated: bool) -> CoverageMap:
    """Return the map in *path*, measured now if it is not there."""
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        for old in path.parent.glob("coverage-*.json"):
            old.unlink()
        path.write_text(json.dumps(list(_measured(warm, jobs, simulated))))
    words = json.loads(path.read_text())
    return CoverageMap(
        lines={
            word["test"]: {module: frozenset(lines) for module, lines in word["lines"].items()}
            for word in words
            if word["passed"]
        },
        durations={word["test"]: word["seconds"] for word in words},
        broken=tuple(word["test"] for word in words if not word["passed"]),
    )


def _measured(warm: Warm, jobs: int, simulated: bool) -> Iterator[Mapping[str, Any]]:
    tests = list(warm.items)
    works: list[tuple[str, Work]] = [(SIMULATION, _trace_simulation)] if simulated else []
    works += [(f"chunk {start}", _trace_tests(tests[start::CHUNKS])) for start in range(CHUNKS)]
    for name, told in warm.run(works, jobs):
        if told.hung or "fault" in told.result:
            raise RuntimeError(f"{name}: {told.result}")
        yield from (word for word in told.words if "test" in word)


def _trace_tests(tests: Iterable[str]) -> Work:
    def work(items: Mapping[str, pytest.Item], tell: Tell) -> None:
        reached = _instrumented()
        for test in tests:
            began = time.monotonic()
            passed = passes(items[test])
            word = {"test": test, "passed": passed, "seconds": time.monotonic() - began, "lines": _taken(reached)}
            tell(word)

    return work


def _trace_simulation(items: Mapping[str, pytest.Item], tell: Tell) -> None:
    reached = _instrumented()
    broken = play("tagcast.delivery.redelivery", "", TRACED_S, lambda: None)
    tell({"test": SIMULATION, "passed": broken is None, "seconds": 1e9, "lines": _taken(reached)})


def _instrumented() -> set[tuple[str, int]]:
    """Let every statement of the mutated modules say that it is reached; return the set of all that said so."""
    reached: set[tuple[str, int]] = set()

    def told(module: str, line: int) -> None:
        reached.add((module, line))

    for module in MODULES:
        for name, function in functions_of(module).items():
            if name != TOP:
                plant(module, name, _Telling(module).visit(deepcopy(function)), {TOLD: told})
    return reached


def _taken(reached: set[tuple[str, int]]) -> dict[str, list[int]]:
    taken: dict[str, list[int]] = {}
    for module, line in sorted(reached):
        taken.setdefault(module, []).append(line)
    reached.clear()
    return taken


class _Telling(ast.NodeTransformer):
    """Puts a call before each statement of a function; nothing else of a program becomes slower by it."""

    def __init__(self, module: str) -> None:
        self._module = module

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, [each for statement in statements for each in self._told(statement)])
        return ast.fix_missing_locations(node)

    def _told(self, statement: ast.stmt) -> tuple[ast.stmt, ...]:
        where: list[ast.expr] = [ast.Constant(self._module), ast.Constant(statement.lineno)]
        call = ast.Expr(ast.Call(ast.Name(TOLD, ast.Load()), where, []))
        return ast.copy_location(call, statement), statement
