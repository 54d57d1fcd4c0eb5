"""Hostile histories of the deployed service on a simulated AWS.

python -m tests.aws.histories --seed 7              tell one history
python -m tests.aws.histories --runs 1000 --jobs 2  play many; failing seeds are shrunk
python -m tests.aws.histories --resume --runs 10000 --jobs 2   the same, going on where this commit's file ends
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tests.aws.histories.campaign import play, shrunk, told_of
from tests.aws.histories.history import History
from tests.aws.histories.plan import AwsPlan, draw_plan
from tests.simulation.history import Result
from tests.simulation.telling import parser_of, run, tell


def main() -> int:
    options = parser_of("tests.aws.histories", __doc__, 200).parse_args()
    if options.seed is not None:
        return tell(_told(draw_plan(options.seed)))
    return run(options, _shrunk, play, "-aws")


def _told(plan: AwsPlan) -> Result:
    return History(plan, tell=True).run()


def _shrunk(seed: int) -> tuple[Iterable[str], Result]:
    small = shrunk(draw_plan(seed))
    return told_of(small), _told(small)


if __name__ == "__main__":
    sys.exit(main())
