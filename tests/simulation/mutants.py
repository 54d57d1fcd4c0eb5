"""Planting every known bug, one after the other, until an invariant catches it."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.simulation.campaign import settle_on_one_core
from tests.simulation.history import History
from tests.simulation.plan import draw_plan
from tests.simulation.planted import MUTANTS
from tests.simulation.planted.mutant import Mutant, planted

STARTS = (100_000, 200_000, 300_000)
SEEDS_MAX = 600


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
            return Catch(broken.invariant, seed - start + 1)
    return Catch(None, seeds_max)


def _catch_named(task: tuple[str, int]) -> Catch:
    name, start = task
    return catch(next(mutant for mutant in MUTANTS if mutant.name == name), start)


def catch_all(jobs: int, starts: Sequence[int] = STARTS) -> list[Caught]:
    """Plant every bug from every starting point, on *jobs* processes."""
    tasks = [(mutant.name, start) for mutant in MUTANTS for start in starts]
    with multiprocessing.get_context("spawn").Pool(jobs, settle_on_one_core) as pool:
        catches = pool.map(_catch_named, tasks, chunksize=1)
    step = len(starts)
    return [
        Caught(mutant.name, tuple(catches[place * step : (place + 1) * step])) for place, mutant in enumerate(MUTANTS)
    ]


def table(caught: Sequence[Caught]) -> Iterator[str]:
    """Yield the table for people, in Markdown."""
    yield "| planted bug | caught by | median seeds |"
    yield "|---|---|---|"
    for each in caught:
        by = "**survived**" if each.survived else ", ".join(each.invariants)
        yield f"| {each.name} | {by} | {each.seeds:g} |"
    yield ""
    yield f"{len(caught)} planted bugs, {sum(each.survived for each in caught)} survived."
