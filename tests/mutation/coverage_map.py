"""Which test reaches which line of the mutated modules, and how long it takes: measured once per state of the tree."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.mutation.bent import play
from tests.mutation.mutants import MODULES, path_of
from tests.mutation.warm import Tell, Warm, Work, passes

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".mutation"
SIMULATION = "simulation"
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
        if told.hung or "fault" in told.last:
            raise RuntimeError(f"{name}: {told.last}")
        yield from (word for word in told.words if "test" in word)


def _trace_tests(tests: Iterable[str]) -> Work:
    def work(items: Mapping[str, pytest.Item], tell: Tell) -> None:
        tracer = _Tracer()
        for test in tests:
            began = time.monotonic()
            with tracer:
                passed = passes(items[test])
            seconds = time.monotonic() - began
            tell({"test": test, "passed": passed, "seconds": seconds, "lines": tracer.taken(), "next_s": 600})

    return work


def _trace_simulation(items: Mapping[str, pytest.Item], tell: Tell) -> None:
    tracer = _Tracer()
    with tracer:
        broken = play("tagcast.redelivery", "", TRACED_S, lambda: None)
    tell({"test": SIMULATION, "passed": broken is None, "seconds": float("1e9"), "lines": tracer.taken()})


class _Tracer:
    """Remembers which lines of the mutated modules run, in every thread."""

    def __init__(self) -> None:
        self._modules = {str(path_of(module)): module for module in MODULES}
        self._reached: dict[str, set[int]] = defaultdict(set)

    def taken(self) -> dict[str, list[int]]:
        taken = {module: sorted(lines) for module, lines in self._reached.items()}
        self._reached.clear()
        return taken

    def __enter__(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        module = self._modules.get(frame.f_code.co_filename)
        if module is None:
            return None
        lines = self._reached[module]

        def line(inner: FrameType, event: str, _: object) -> Any:
            lines.add(inner.f_lineno)
            return line

        return line
