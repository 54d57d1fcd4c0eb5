"""Hostile histories of the deployed service on a simulated AWS.

python -m tests.aws.histories --seed 7              tell one history
python -m tests.aws.histories --runs 1000 --jobs 2  play many; failing seeds are shrunk
python -m tests.aws.histories --resume --runs 10000 --jobs 2   the same, going on where this commit's file ends
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from tests.aws.histories.campaign import play, shrunk, told_of
from tests.aws.histories.history import History
from tests.aws.histories.plan import AwsPlan, draw_plan
from tests.simulation import progress_file
from tests.simulation.campaign import campaign
from tests.simulation.history import Result
from tests.simulation.telling import report, tell


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
        return tell(_told(draw_plan(options.seed)))
    if options.resume:
        name = f"{progress_file.commit()}-aws"
        print(f"commit {name}", file=sys.stderr)
        path = progress_file.FOLDER / f"{name}.json"
        return report(progress_file.resume(path, options.runs, options.jobs, play), _shrunk)
    return report(campaign(options.first, options.runs, options.jobs, play), _shrunk)


def _told(plan: AwsPlan) -> Result:
    return History(plan, tell=True).run()


def _shrunk(seed: int) -> tuple[Iterable[str], Result]:
    small = shrunk(draw_plan(seed))
    return told_of(small), _told(small)


if __name__ == "__main__":
    sys.exit(main())
