"""Change the shipped code by machine, one change at a time, and see what notices.

python -m tests.mutation --sample 400 --seed 1 --jobs 2     a seeded sample; it goes on where it stopped
python -m tests.mutation --only tagcast.operating.lanes     every mutant of modules (or functions: module:name)
python -m tests.mutation --planted                          the bugs that were planted by hand, each with its test
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.mutation.bent import play
from tests.mutation.bugs import FAULT_OF_THE_TEXT, Bug, planted, read_bugs
from tests.mutation.coverage_map import FOLDER, SIMULATION, CoverageMap, coverage_map, tree_digest
from tests.mutation.mutants import MODULES, TOP, Mutant, functions_of, mutants_of, mutated, sample
from tests.mutation.planting import live_functions, plant
from tests.mutation.results import HUNG, SURVIVED, TESTS, Result, Results, judgements, table
from tests.mutation.results import SIMULATION as BY_SIMULATION
from tests.mutation.warm import SUITE, Tell, Told, Warm, Work, failure, passes, with_warm_pytest, within
from tests.tenth import tenth

PLANTED = read_bugs(Path(__file__).with_name("planted.txt"))
TESTS_S = 20.0
"""So long the tests of one mutant may take, and by default the histories half of it, in seconds of one core."""
HANGS_S = 10.0
"""A test or history that takes so many seconds of a core where it took next to none hangs."""
PLANTED_HANGS_S = 4.0
"""The tests that bugs by hand have to turn red take 2 s of a core at most."""


@dataclass
class Campaign:
    """The script of a warm pytest: try *mutants*, keep what comes of each, print the table."""

    mutants: Sequence[Mutant]
    jobs: int
    simulated_s: float
    folder: Path
    missed: int = 0

    def __call__(self, warm: Warm) -> None:
        live_functions()
        tree = tree_digest()
        kind = "" if self.simulated_s else "-of-tests"
        measured = self.folder / f"coverage-{tree}{kind}.json"
        covered = coverage_map(warm, self.jobs, measured, simulated=self.simulated_s > 0)
        for test in covered.broken:
            print(f"left out, fails without any change: {test}")
        results = Results(self.folder / f"results{kind}.jsonl", tree)
        open_ = [mutant for mutant in self.mutants if results.of(mutant) is None]
        print(f"{len(self.mutants):,} mutants, {len(open_):,} to be tried", flush=True)
        works = ((mutant, attempt(mutant, covered, self.simulated_s)) for mutant in open_)
        judged = judgements()
        for number, (mutant, told) in enumerate(warm.run(works, self.jobs), 1):
            tried = _result(results, mutant, told)
            if tried.how == SURVIVED and mutant.key not in judged:
                print(f"{number}/{len(open_)} survived: {mutant.key}", flush=True)
        outcomes = [(mutant, result) for mutant in self.mutants if (result := results.of(mutant)) is not None]
        print("\n".join(table(outcomes, MODULES)))
        for mutant, result in outcomes:
            if result.how == SURVIVED and mutant.key not in judged:
                self.missed += 1
                print(f"survived [{result.by}] {mutant.lines.start}: {mutant.key}")


@dataclass
class ByHand:
    """The script of a warm pytest: plant each of *planted* and see its tests turn red."""

    planted: Sequence[Bug]
    jobs: int
    missed: int = 0

    def __call__(self, warm: Warm) -> None:
        works = ((each, plant_by_hand(each)) for each in self.planted)
        for each, told in warm.run(works, self.jobs):
            red = told.hung or (told.result.get("red") and not FAULT_OF_THE_TEXT.search(told.result["line"]))
            if not red:
                self.missed += 1
                print(f"survived: {each.name}: {told.result}", flush=True)
        print(f"{len(self.planted)} planted bugs, {self.missed} survived.")


def tests_of(bug: Bug) -> str:
    """Return the tests (a node id, or the beginning of several) of which at least one has to fail for *bug*."""
    return f"tests/{bug.section}::{bug.caught_by}"


def plant_by_hand(bug: Bug) -> Work:
    """Return the work of one fork: its tests have to pass, then to fail with the bug."""

    def work(items: Mapping[str, pytest.Item], tell: Tell) -> None:
        named = [item for test, item in items.items() if test.startswith(tests_of(bug))]
        tell({"running": tests_of(bug)})
        within(PLANTED_HANGS_S)
        with planted(bug):
            failures = ((item.nodeid, failure(item)) for item in named)
            red, line = next((each for each in failures if each[1]), (None, ""))
        tell({"red": red, "line": line, "tests": len(named)})

    return work


def _result(results: Results, mutant: Mutant, told: Told) -> Result:
    last = told.result
    if told.hung:
        return results.add(mutant, HUNG, str(last.get("running", "")), 0.0)
    if "fault" in last:
        raise RuntimeError(f"{mutant.key}: {last['fault']}")
    return results.add(mutant, last["how"], last["by"], last["seconds"])


def attempt(mutant: Mutant, covered: CoverageMap, simulated_s: float) -> Work:
    """Return the work of one fork: plant the mutant, then run the tests that reach it, the fastest first."""
    lines = _lines(mutant)
    reaching = covered.reaching(mutant.module, mutant.lines) if mutant.function != TOP else []
    reaching = reaching or covered.reaching(mutant.module, lines)

    def work(items: Mapping[str, pytest.Item], tell: Tell) -> None:
        began = time.process_time()
        plant(mutant.module, mutant.function, mutated(mutant))
        for test in reaching:
            if test == SIMULATION or time.process_time() - began > TESTS_S:
                continue
            tell({"running": test})
            within(max(HANGS_S, 20 * covered.durations[test]))
            if not passes(items[test]):
                tell({"how": TESTS, "by": test, "seconds": time.process_time() - began})
                return
        if SIMULATION in reaching and simulated_s:
            tell({"running": SIMULATION})
            broken = play(mutant.module, mutant.function, simulated_s, lambda: within(HANGS_S))
            if broken is not None:
                tell({"how": BY_SIMULATION, "by": broken.invariant, "seconds": time.process_time() - began})
                return
        told = f"{len(reaching)} tests reach it" if reaching else "no test reaches it"
        tell({"how": SURVIVED, "by": told, "seconds": time.process_time() - began})

    return work


def _lines(mutant: Mutant) -> range:
    """Return the lines of the mutant's whole function, or for a constant of a module those of the whole module."""
    if mutant.function == TOP:
        return range(1, 10_000)
    function = functions_of(mutant.module)[mutant.function]
    return range(function.lineno, (function.end_lineno or 0) + 1)  # type: ignore[attr-defined]


def chosen(only: Sequence[str]) -> Iterator[Mutant]:
    """Yield the mutants of all modules, or of the modules and functions that *only* names."""
    for module in MODULES:
        for mutant in mutants_of(module):
            if not only or module in only or f"{module}:{mutant.function}" in only:
                yield mutant


def files_of(each_planted: Sequence[Bug]) -> list[str]:
    """Return the files of the tests that have to turn red."""
    return list(dict.fromkeys(f"tests/{bug.section}" for bug in each_planted))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, help="number of mutants to try (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: %(default)s)")
    parser.add_argument("--planted", action="store_true", help="plant the bugs that were written by hand")
    parser.add_argument("--tenth", type=int, help="only every tenth of those, from this one on (default: all)")
    parser.add_argument("--only", action="append", default=[], metavar="MODULE[:FUNCTION]")
    parser.add_argument(
        "--simulated", type=float, default=10.0, help="seconds of histories for each that the tests miss"
    )
    parser.add_argument("--suite", action="append", help="let only these tests try, and keep nothing of it")
    options = parser.parse_args()
    if options.planted:
        by_hand = ByHand(tenth(PLANTED, options.tenth), options.jobs)
        return with_warm_pytest(by_hand, files_of(by_hand.planted)) or int(by_hand.missed > 0)
    mutants = list(chosen(options.only))
    mutants = sample(mutants, options.sample or len(mutants), options.seed)
    with TemporaryDirectory() as nowhere:
        folder = Path(nowhere) if options.suite else FOLDER
        campaign = Campaign(mutants, options.jobs, options.simulated, folder)
        return with_warm_pytest(campaign, options.suite or SUITE) or int(campaign.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
