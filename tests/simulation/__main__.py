"""Hostile histories of the shipped code.

python -m tests.simulation --seed 7              tell one history
python -m tests.simulation --runs 10000 --jobs 2 play many; failing seeds are shrunk
python -m tests.simulation --resume --runs 100000 --jobs 2   the same, going on where this commit's file ends
python -m tests.simulation --mutants             plant every known bug, see it caught, remember where
"""

import sys
from collections.abc import Iterable

from tests.simulation.history import History, Result
from tests.simulation.mutants import catch_all, remember, table
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.shrink import shrink, told
from tests.simulation.telling import parser_of, run, tell


def main() -> int:
    parser = parser_of("tests.simulation", __doc__, 1000)
    parser.add_argument("--mutants", action="store_true", help="plant every known bug and see it caught")
    options = parser.parse_args()
    if options.seed is not None:
        return tell(_told(draw_plan(options.seed)))
    if options.mutants:
        caught = catch_all(options.jobs)
        print("\n".join(table(caught)))
        remember(caught)
        return int(any(not each.invariants for each in caught))
    return run(options, _shrunk)


def _told(plan: Plan) -> Result:
    return History(plan, tell=True).run()


def _shrunk(seed: int) -> tuple[Iterable[str], Result]:
    small = shrink(draw_plan(seed))
    return told(small), _told(small)


if __name__ == "__main__":
    sys.exit(main())
