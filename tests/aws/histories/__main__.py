"""Hostile histories of the deployed service on a simulated AWS.

python -m tests.aws.histories --seed 7              tell one history
python -m tests.aws.histories --runs 1000 --jobs 2  play many; failing seeds are shrunk
python -m tests.aws.histories --resume --runs 10000 --jobs 2   the same, going on where this commit's file ends
"""

from __future__ import annotations

import argparse
import sys

from tests.aws.histories.campaign import play, shrunk, told_of
from tests.aws.histories.history import History
from tests.aws.histories.plan import AwsPlan, draw_plan
from tests.simulation import progress_file
from tests.simulation.campaign import Tally, campaign

SHRUNK_MAX = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.aws.histories", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="tell this one history")
    parser.add_argument("--runs", type=int, default=200, help="how many seeds to play (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes play (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="keep a cumulative count of this commit in .simulation/")
    options = parser.parse_args()
    if options.seed is not None:
        return tell(draw_plan(options.seed))
    if options.resume:
        name = f"{progress_file.commit()}-aws"
        print(f"commit {name}", file=sys.stderr)
        path = progress_file.FOLDER / f"{name}.json"
        return report(progress_file.resume(path, options.runs, options.jobs, play))
    return report(campaign(options.first, options.runs, options.jobs, play))


def tell(plan: AwsPlan) -> int:
    """Print a history line by line."""
    result = History(plan, tell=True).run()
    print("\n".join(result.trace))
    print(f"{result.steps} steps, {result.messages} messages, {result.pushes} pushes, {dict(result.entries)}")
    print(f"digest {result.digest}")
    print("held" if result.broken is None else f"BROKEN {result.broken}")
    return int(result.broken is not None)


def report(tally: Tally) -> int:
    """Print the totals, then the first histories that failed, shrunk."""
    print("\n".join(tally.lines()))
    for seed in sorted(tally.broken)[:SHRUNK_MAX]:
        small = shrunk(draw_plan(seed))
        print(f"\n--- shrunk: {tally.broken[seed]}")
        print("\n".join(told_of(small)))
        tell(small)
    return int(bool(tally.broken))


if __name__ == "__main__":
    sys.exit(main())
