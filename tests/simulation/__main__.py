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
from collections.abc import Iterable

from tests.simulation import progress_file
from tests.simulation.campaign import campaign
from tests.simulation.explorer import explore
from tests.simulation.history import History, Result
from tests.simulation.mutants import catch_all, remember, table
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.shrink import shrink, told
from tests.simulation.telling import report, tell


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
        return tell(_told(draw_plan(options.seed)))
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
        return report(progress_file.resume(progress_file.FOLDER / f"{name}.json", options.runs, options.jobs), _shrunk)
    return report(campaign(options.first, options.runs, options.jobs), _shrunk)


def _told(plan: Plan) -> Result:
    return History(plan, tell=True).run()


def _shrunk(seed: int) -> tuple[Iterable[str], Result]:
    small = shrink(draw_plan(seed))
    return told(small), _told(small)


def _explore(seconds: float) -> int:
    began = time.perf_counter()
    walked = explore(seconds)
    print(f"{walked.told()} in {time.perf_counter() - began:.0f} s")
    return int(walked.broken is not None)


if __name__ == "__main__":
    sys.exit(main())
