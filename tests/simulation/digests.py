"""Did a change of the code change what it asks of its ports?

A move or a rename changes no call. Each history is recorded as a hash of its calls: operation, table, key and number of
writes, in order. One call more or less changes the hash, and mostly all that comes behind it.

python -m tests.simulation.digests            compare 300 seeds of the core and 40 of the simulated AWS with the record
python -m tests.simulation.digests --record   write the record: the commit says which calls changed and why
python -m tests.simulation.digests --calls 7  list the calls of a seed, for a diff of two commits (with --aws: there)
"""

import argparse
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.aws.histories.history import History as AwsHistory
from tests.aws.histories.plan import draw_plan as draw_aws_plan
from tests.simulation.campaign import settle_on_one_core
from tests.simulation.history import History
from tests.simulation.plan import draw_plan
from tests.simulation.scheduler import Calls

RECORD = Path(__file__).with_name("digests.txt")
SEEDS, AWS_SEEDS = 300, 40
SHOWN_MAX = 10
A_LINE = 5
"""The seeds of a line of the record."""


def calls_of(seed: int, *, aws: bool, tell: bool = False) -> Calls:
    """Play one seed and return what was called."""
    history = AwsHistory(draw_aws_plan(seed)) if aws else History(draw_plan(seed))
    history.calls = Calls(tell=tell)
    history.run()
    return history.calls


def line(seed: int, *, aws: bool) -> str:
    """Return the line of one seed: which simulation, seed, hash, number of calls."""
    calls = calls_of(seed, aws=aws)
    return f"{'aws' if aws else 'core'} {seed} {calls.digest} {calls.count}"


def lines(jobs: int) -> Iterator[str]:
    with multiprocessing.get_context("spawn").Pool(jobs, settle_on_one_core) as pool:
        yield from pool.imap(partial(line, aws=False), range(SEEDS), chunksize=5)
        yield from pool.imap(partial(line, aws=True), range(AWS_SEEDS), chunksize=2)


def read(record: str) -> Iterator[str]:
    """Yield the line of each seed.

    >>> list(read("core 5 aa:12 bb:9"))
    ['core 5 aa 12', 'core 6 bb 9']
    """
    for line in record.splitlines():
        simulation, first, *calls = line.split()
        yield from (f"{simulation} {seed} {each.replace(':', ' ')}" for seed, each in enumerate(calls, int(first)))


def written(played: Sequence[str]) -> str:
    """Return the record of lines of seeds.

    >>> written(["core 0 aa 12", "core 1 bb 9"])
    'core 0 aa:12 bb:9\\n'
    """
    several = (played[first : first + A_LINE] for first in range(0, len(played), A_LINE))
    rows = ([each.split() for each in some] for some in several)
    return "".join(
        f"{row[0][0]} {row[0][1]} {' '.join(f'{digest}:{count}' for _, _, digest, count in row)}\n" for row in rows
    )


def compared(recorded: Iterable[str], played: Iterable[str]) -> list[str]:
    """Return how the seeds differ that do.

    >>> compared(["core 0 aa 12", "core 1 bb 9"], ["core 0 aa 12", "core 1 cc 11"])
    ['core 1: 11 calls, recorded were 9']
    """
    known = {tuple(each.split()[:2]): each.split()[2:] for each in recorded}
    differences = []
    for each in played:
        simulation, seed, digest, count = each.split()
        before = known.get((simulation, seed), ["", "none"])
        if before[0] != digest:
            differences.append(f"{simulation} {seed}: {count} calls, recorded were {before[1]}")
    return differences


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.digests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", action="store_true", help="write the record instead of comparing with it")
    parser.add_argument("--file", type=Path, default=RECORD, help="the record (default: the one in the repository)")
    parser.add_argument("--calls", type=int, metavar="SEED", help="list the calls of one seed")
    parser.add_argument("--aws", action="store_true", help="of the simulated AWS")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes play (default: %(default)s)")
    options = parser.parse_args()
    if options.calls is not None:
        print("\n".join(calls_of(options.calls, aws=options.aws, tell=True).told))
        return 0
    played = list(lines(options.jobs))
    if options.record:
        options.file.write_text(written(played))
        return 0
    differences = compared(read(options.file.read_text()), played)
    print(
        *differences[:SHOWN_MAX],
        f"{len(played) - len(differences)} of {len(played)} seeds ask what was recorded",
        sep="\n",
    )
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
