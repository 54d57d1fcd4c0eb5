"""What a campaign and a history print for people."""

import argparse
import sys
from collections.abc import Callable, Iterable

from tests.simulation.campaign import FOLDER, Tally, campaign, commit, play, resume
from tests.simulation.history import Result

SHRUNK_MAX = 3


def tell(result: Result) -> int:
    """Print a history line by line; return 1 if a promise was broken."""
    print("\n".join(result.trace))
    print(f"{result.steps} steps, {result.messages} messages, {result.pushes} pushes, {dict(result.entries)}")
    print(f"digest {result.digest}")
    print("held" if result.broken is None else f"BROKEN {result.broken}")
    return int(result.broken is not None)


def report(tally: Tally, shrunk: Callable[[int], tuple[Iterable[str], Result]]) -> int:
    """Print the totals, then the first histories that failed, *shrunk*: what is left of each plan, and its history."""
    print("\n".join(tally.lines()))
    for seed in sorted(tally.broken)[:SHRUNK_MAX]:
        print(f"\n--- shrunk: {tally.broken[seed]}")
        left, result = shrunk(seed)
        print("\n".join(left))
        tell(result)
    return int(bool(tally.broken))


def parser_of(module: str, about: str | None, runs: int) -> argparse.ArgumentParser:
    """Return the parser of what every command of histories takes."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="tell this one history")
    parser.add_argument("--runs", type=int, default=runs, help="how many seeds to play (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes play (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="keep a cumulative count of this commit in .simulation/")
    return parser


def run(
    options: argparse.Namespace,
    shrunk: Callable[[int], tuple[Iterable[str], Result]],
    play: Callable[[Iterable[int]], Tally] = play,
    suffix: str = "",
) -> int:
    """Play the seeds that *options* ask for; with ``--resume`` go on where the file of this commit ends."""
    if options.resume:
        name = f"{commit()}{suffix}"
        print(f"commit {name}", file=sys.stderr)
        path = FOLDER / f"{name}.json"
        return report(resume(path, options.runs, options.jobs, play), shrunk)
    return report(campaign(options.first, options.runs, options.jobs, play), shrunk)
