"""Planting every known bug, one after the other, until an invariant catches it."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.simulation.campaign import settle_on_one_core
from tests.simulation.history import History
from tests.simulation.plan import draw_plan
from tests.simulation.planted import MUTANTS
from tests.simulation.planted.mutant import FAULT_OF_THE_TEXT, Mutant, PlantingError, planted

STARTS = (100_000, 200_000, 300_000)
SEEDS_MAX = 1_200
SEEDS = Path(__file__).parent / "planted" / "seeds.json"
"""The seed at which each bug was caught last; `python -m tests.simulation --mutants` writes it anew."""


@dataclass(frozen=True)
class Catch:
    """Which invariant caught a bug from one starting point, after how many seeds; None if it survived."""

    invariant: str | None
    seeds: int


@dataclass(frozen=True)
class Caught:
    """What came of one bug from all starting points."""

    name: str
    catches: tuple[Catch, ...]

    @property
    def survived(self) -> bool:
        return any(catch.invariant is None for catch in self.catches)

    @property
    def invariants(self) -> tuple[str, ...]:
        counted = Counter(catch.invariant for catch in self.catches if catch.invariant is not None)
        return tuple(invariant for invariant, _ in counted.most_common())

    @property
    def seeds(self) -> float:
        return median(catch.seeds for catch in self.catches)


def catch(mutant: Mutant, start: int, seeds_max: int = SEEDS_MAX) -> Catch:
    """Play seeds from *start* on the code with the bug in it, until a promise does not hold.

    The same plan must hold on the shipped code: otherwise it is not the bug that was caught.
    """
    for seed in range(start, start + seeds_max):
        plan = draw_plan(seed, mutant.aim)
        with planted(mutant):
            broken = History(plan).run().broken
        if broken is not None:
            unplanted = History(plan).run().broken
            if unplanted is not None:
                raise unplanted
            if FAULT_OF_THE_TEXT.search(broken.detail):
                raise PlantingError(f"{mutant.name}: its text is at fault: {broken.detail}")
            return Catch(broken.invariant, seed - start + 1)
    return Catch(None, seeds_max)


def catch_again(mutant: Mutant, seed: int | None) -> Catch:
    """Plant a bug where it was caught last; from the first starting point on when it is not caught there any more."""
    known = Catch(None, 0) if seed is None else catch(mutant, seed, 1)
    return known if known.invariant is not None else catch(mutant, STARTS[0])


def catch_all(jobs: int, starts: Sequence[int] = STARTS) -> list[Caught]:
    """Plant every bug from every starting point, on *jobs* processes."""
    tasks = [(mutant.name, start) for mutant in MUTANTS for start in starts]
    catches = _side_by_side(_catch_named, tasks, jobs)
    step = len(starts)
    return [
        Caught(mutant.name, tuple(catches[place * step : (place + 1) * step])) for place, mutant in enumerate(MUTANTS)
    ]


def catch_again_all_of(mutants: Sequence[Mutant], jobs: int) -> list[Caught]:
    """Plant each of these bugs once, first where it was caught last."""
    known = json.loads(SEEDS.read_text())
    tasks = [(mutant.name, known.get(mutant.name)) for mutant in mutants]
    return [
        Caught(name, (caught,))
        for (name, _), caught in zip(tasks, _side_by_side(_catch_named_again, tasks, jobs), strict=True)
    ]


def remember(caught: Sequence[Caught]) -> None:
    """Write down where each bug was caught from the first starting point."""
    firsts = {each.name: each.catches[0] for each in caught}
    seeds = {name: STARTS[0] + found.seeds - 1 for name, found in firsts.items() if found.invariant is not None}
    SEEDS.write_text(json.dumps(seeds, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _side_by_side(work: Callable[[tuple[str, Any]], Catch], tasks: Sequence[tuple[str, Any]], jobs: int) -> list[Catch]:
    with multiprocessing.get_context("spawn").Pool(jobs, settle_on_one_core) as pool:
        return pool.map(work, tasks, chunksize=1)


def _catch_named(task: tuple[str, int]) -> Catch:
    name, start = task
    return catch(_named(name), start)


def _catch_named_again(task: tuple[str, int | None]) -> Catch:
    name, seed = task
    return catch_again(_named(name), seed)


def _named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def table(caught: Sequence[Caught]) -> Iterator[str]:
    """Yield the table for people, in Markdown."""
    yield "| planted bug | caught by | median seeds |"
    yield "|---|---|---|"
    for each in caught:
        by = "**survived**" if each.survived else ", ".join(each.invariants)
        yield f"| {each.name} | {by} | {each.seeds:g} |"
    yield ""
    yield f"{len(caught)} planted bugs, {sum(each.survived for each in caught)} survived."
