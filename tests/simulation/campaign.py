"""Many histories on several cores, with progress, totals, and failing seeds shrunk to their essence."""

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO

from tests.simulation.history import History, Result
from tests.simulation.plan import draw_plan

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".simulation"
SAVED_S = 10.0
BLOCK = 20
TOLD_S = 2.0


@dataclass
class Tally:
    """What many histories came to."""

    runs: int = 0
    seconds: float = 0.0
    steps: int = 0
    messages: int = 0
    pushes: int = 0
    entries: Counter[str] = field(default_factory=Counter)
    accidents: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        broken = {} if result.broken is None else {result.seed: str(result.broken)}
        numbers = (result.steps, result.messages, result.pushes)
        self.absorb(type(self)(1, 0.0, *numbers, result.entries, result.accidents, broken))

    def absorb(self, other: Self) -> None:
        """Add another tally, except its seconds: the caller measures these."""
        self.runs += other.runs
        self.steps += other.steps
        self.messages += other.messages
        self.pushes += other.pushes
        self.entries.update(other.entries)
        self.accidents.update(other.accidents)
        self.broken.update(other.broken)

    def lines(self) -> Iterator[str]:
        """Yield the table for people."""
        rate = self.runs / max(self.seconds, 0.001)
        yield f"runs        {self.runs:>12,}   {self.seconds:,.0f} s, {rate:.0f} per second"
        yield f"steps       {self.steps:>12,}"
        yield f"messages    {self.messages:>12,}"
        yield f"pushes      {self.pushes:>12,}"
        yield "entries"
        for state, number in sorted(self.entries.items()):
            yield f"  {state:<18}{number:>12,}"
        yield "accidents"
        for fault, number in sorted(self.accidents.items()):
            yield f"  {fault:<18}{number:>12,}"
        yield f"broken      {len(self.broken):>12,}"
        for seed, detail in sorted(self.broken.items())[:20]:
            yield f"  seed {seed}: {detail}"


def play(seeds: Iterable[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(History(draw_plan(seed)).run())
    return tally


def settle_on_one_core() -> None:
    """Keep a process on one core: its threads hand over to each other all the time, and that is dear across cores.

    What is imported is nobody's garbage, and what a history leaves is seldom looked through: that saves a fourteenth.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        place = (multiprocessing.current_process()._identity or (0,))[0]
        os.sched_setaffinity(0, {cores[place % len(cores)]})


Player = Callable[[Iterable[int]], Tally]


def play_many(first: int, runs: int, jobs: int, player: Player = play) -> Iterator[Tally]:
    """Play *runs* seeds from *first* on *jobs* processes; yield the tally of each block as it is done, in order."""
    blocks = [range(start, min(start + BLOCK, first + runs)) for start in range(first, first + runs, BLOCK)]
    if jobs == 1:
        yield from map(player, blocks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, settle_on_one_core) as pool:
        yield from pool.imap(player, blocks)


class Progress:
    """One line that is written over and over on a terminal, and now and then elsewhere."""

    def __init__(self, runs: int, out: TextIO = sys.stderr) -> None:
        self._runs = runs
        self._out = out
        self._began = self._told = time.perf_counter()

    def tell(self, tally: Tally) -> None:
        now = time.perf_counter()
        tally.seconds = now - self._began
        every_s = TOLD_S if self._out.isatty() else 30 * TOLD_S
        if now - self._told < every_s and tally.runs < self._runs:
            return
        self._told = now
        rate = tally.runs / tally.seconds
        left_s = (self._runs - tally.runs) / rate
        line = (
            f"{tally.runs:,} of {self._runs:,} seeds, {rate:.0f}/s, {left_s:,.0f} s to go, broken: {len(tally.broken)}"
        )
        end = "\n" if tally.runs >= self._runs or not self._out.isatty() else "\r"
        print(line.ljust(100), end=end, file=self._out, flush=True)


def campaign(first: int, runs: int, jobs: int, player: Player = play) -> Tally:
    """Play many seeds with progress; return the totals."""
    tally, progress = Tally(), Progress(runs)
    for part in play_many(first, runs, jobs, player):
        tally.absorb(part)
        progress.tell(tally)
    return tally


def commit() -> str:
    """Return the commit of the tree, with a mark if the code played here differs from it."""
    played = ["layers", "functions", "tests/simulation", "tests/fakes", "tests/aws", "template.yaml"]
    name = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    changes = subprocess.run(
        ["git", "status", "--porcelain", "--", *played], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return name.stdout.strip() + ("-changed" if changes.stdout.strip() else "")


def load(path: Path) -> Tally:
    """Return the tally in a file; an empty one if there is none."""
    if not path.exists():
        return Tally()
    saved = json.loads(path.read_text())
    saved["entries"], saved["accidents"] = Counter(saved["entries"]), Counter(saved["accidents"])
    saved["broken"] = {int(seed): detail for seed, detail in saved["broken"].items()}
    return Tally(**saved)


def save(path: Path, tally: Tally) -> None:
    """Write the tally so that a crash leaves the old file or the new one."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(vars(tally), indent=1))
    fresh.replace(path)


def resume(path: Path, runs: int, jobs: int, player: Player = play) -> Tally:
    """Play the seeds from where the file ends up to *runs* in all; the file is never far behind."""
    total = load(path)
    spent_s, began = total.seconds, time.perf_counter()
    progress, fresh = Progress(runs - total.runs), Tally()
    saved_at = began
    if total.runs < runs:
        for part in play_many(total.runs, runs - total.runs, jobs, player):
            total.absorb(part)
            fresh.absorb(part)
            progress.tell(fresh)
            now = time.perf_counter()
            total.seconds = spent_s + now - began
            if now - saved_at >= SAVED_S:
                save(path, total)
                saved_at = now
        save(path, total)
    return total
