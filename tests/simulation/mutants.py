"""Planting every known bug, one after the other, until an invariant catches it."""

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.mutation.bugs import FAULT_OF_THE_TEXT, Bug, PlantingError, planted
from tests.simulation.campaign import settle_on_one_core
from tests.simulation.history import History
from tests.simulation.plan import draw_plan
from tests.simulation.planted import BUGS, TABLE, aim_of

STARTS = (100_000, 200_000, 300_000)
SEEDS_MAX = 1_200


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


def catch(bug: Bug, start: int, seeds_max: int = SEEDS_MAX) -> Catch:
    """Play seeds from *start* on the code with the bug in it, until a promise does not hold.

    The same plan must hold on the shipped code: otherwise it is not the bug that was caught.
    """
    for seed in range(start, start + seeds_max):
        plan = draw_plan(seed, aim_of(bug))
        with planted(bug):
            broken = History(plan).run().broken
        if broken is not None:
            unplanted = History(plan).run().broken
            if unplanted is not None:
                raise unplanted
            if FAULT_OF_THE_TEXT.search(broken.detail):
                raise PlantingError(f"{bug.name}: its text is at fault: {broken.detail}")
            return Catch(broken.invariant, seed - start + 1)
    return Catch(None, seeds_max)


def catch_again(bug: Bug, seed: int | None) -> Catch:
    """Plant a bug where it was caught last; from the first starting point on when it is not caught there any more."""
    known = Catch(None, 0) if seed is None else catch(bug, seed, 1)
    return known if known.invariant is not None else catch(bug, STARTS[0])


def catch_all(jobs: int, starts: Sequence[int] = STARTS) -> list[Caught]:
    """Plant every bug from every starting point, on *jobs* processes."""
    tasks = [(bug.name, start) for bug in BUGS for start in starts]
    catches = _side_by_side(_catch_named, tasks, jobs)
    step = len(starts)
    return [Caught(bug.name, tuple(catches[place * step : (place + 1) * step])) for place, bug in enumerate(BUGS)]


def catch_again_all_of(bugs: Sequence[Bug], jobs: int) -> list[Caught]:
    """Plant each of these bugs once, first where it was caught last."""
    tasks = [(bug.name, STARTS[0] + int(bug.caught_by or 0)) for bug in bugs]
    return [
        Caught(name, (caught,))
        for (name, _), caught in zip(tasks, _side_by_side(_catch_named_again, tasks, jobs), strict=True)
    ]


def remember(caught: Sequence[Caught]) -> None:
    """Write down how far from the first starting point each bug was caught."""
    seeds = {each.name: each.catches[0].seeds - 1 for each in caught if each.catches[0].invariant is not None}
    names = ((line, line.partition(" | ")[0]) for line in TABLE.read_text().splitlines())
    lines = (f"{name} | {seeds[name]}" if seeds.get(name) else name if name in seeds else line for line, name in names)
    TABLE.write_text("".join(f"{line}\n" for line in lines))


def _side_by_side(work: Callable[[tuple[str, Any]], Catch], tasks: Sequence[tuple[str, Any]], jobs: int) -> list[Catch]:
    with multiprocessing.get_context("spawn").Pool(jobs, settle_on_one_core) as pool:
        return pool.map(work, tasks, chunksize=1)


def _catch_named(task: tuple[str, int]) -> Catch:
    name, start = task
    return catch(_named(name), start)


def _catch_named_again(task: tuple[str, int | None]) -> Catch:
    name, seed = task
    return catch_again(_named(name), seed)


def _named(name: str) -> Bug:
    return next(bug for bug in BUGS if bug.name == name)


def table(caught: Sequence[Caught]) -> Iterator[str]:
    """Yield the table for people, in Markdown."""
    yield "| planted bug | caught by | median seeds |"
    yield "|---|---|---|"
    for each in caught:
        by = "**survived**" if each.survived else ", ".join(each.invariants)
        yield f"| {each.name} | {by} | {each.seeds:g} |"
    yield ""
    yield f"{len(caught)} planted bugs, {sum(each.survived for each in caught)} survived."
