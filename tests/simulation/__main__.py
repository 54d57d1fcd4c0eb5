"""Hostile histories of the shipped code.

python -m tests.simulation --seed 7              tell one history
python -m tests.simulation --runs 10000 --jobs 2 play many; failing seeds are shrunk
python -m tests.simulation --resume --runs 100000 --jobs 2   the same, going on where this commit's file ends
python -m tests.simulation --mutants             plant every known bug, see it caught, remember where
python -m tests.simulation --explore 60          walk all interleavings of a small world for so many seconds
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation import progress_file
from tests.simulation.campaign import Tally, campaign
from tests.simulation.explorer import explore
from tests.simulation.history import History
from tests.simulation.mutants import catch_all, remember, table
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.shrink import shrink, told

SHRUNK_MAX = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="tell this one history")
    parser.add_argument("--runs", type=int, default=1000, help="how many seeds to play (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes play (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="keep a cumulative count of this commit in .simulation/")
    parser.add_argument("--mutants", action="store_true", help="plant every known bug and see it caught")
    parser.add_argument("--explore", type=float, metavar="SECONDS", help="walk the small world's interleavings")
    options = parser.parse_args()
    if options.seed is not None:
        return tell(draw_plan(options.seed))
    if options.mutants:
        caught = catch_all(options.jobs)
        print("\n".join(table(caught)))
        remember(caught)
        return int(any(not each.invariants for each in caught))
    if options.explore is not None:
        return _explore(options.explore)
    if options.resume:
        name = progress_file.commit()
        print(f"commit {name}", file=sys.stderr)
        return report(progress_file.resume(progress_file.FOLDER / f"{name}.json", options.runs, options.jobs))
    return report(campaign(options.first, options.runs, options.jobs))


def tell(plan: Plan) -> int:
    """Print a history line by line."""
    result = History(plan, tell=True).run()
    print("\n".join(result.trace))
    print(f"{result.steps} steps, {result.messages} messages, {result.pushes} pushes, {dict(result.entries)}")
    print(f"digest {result.digest}")
    print("held" if result.broken is None else f"BROKEN {result.broken}")
    return int(result.broken is not None)


def report(tally: Tally) -> int:
    """Print the totals, then the first failing histories, shrunk."""
    print("\n".join(tally.lines()))
    for seed in sorted(tally.broken)[:SHRUNK_MAX]:
        small = shrink(draw_plan(seed))
        print(f"\n--- shrunk: {tally.broken[seed]}")
        print("\n".join(told(small)))
        tell(small)
    return int(bool(tally.broken))


def _explore(seconds: float) -> int:
    began = time.perf_counter()
    walked = explore(seconds)
    print(f"{walked.told()} in {time.perf_counter() - began:.0f} s")
    return int(walked.broken is not None)


if __name__ == "__main__":
    sys.exit(main())
