"""Run every benchmark, or those that are named: ``python -m tests.benchmarks [NAME …] [--record]``.

Each is a process of its own. Its ratios (`tests.benchmarks.ratios`) are compared with the record; a benchmark with a
lost one runs once more, and the better ratio counts. What is lost, or below its goal, is marked and makes the run fail,
as a benchmark does that fails; ``--record`` writes the record anew instead.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.ratios import REPORTS, Ratio, read, reported, verdict, write

FOLDER = Path(__file__).parent
PARTS = ("__main__", "ratios", "receivers")
"""Modules that are no benchmarks."""
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in PARTS)
BAD = ("lost", "below")


def run(name: str) -> tuple[bool, dict[str, Ratio]]:
    """Run a benchmark; return whether it succeeded, and the ratios that it reported."""
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        command = [sys.executable, "-m", f"tests.benchmarks.{name}"]
        ran = subprocess.run(command, env={**os.environ, REPORTS: str(reports)}, check=False)
        return ran.returncode == 0, {each.name: each for each in reported(reports)}


def best(first: Mapping[str, Ratio], second: Mapping[str, Ratio]) -> dict[str, Ratio]:
    """Return the better of two runs, for each name."""
    names = {**first, **second}
    return {
        name: max((run[name] for run in (first, second) if name in run), key=lambda each: each.ratio) for name in names
    }


Run = Callable[[str], tuple[bool, dict[str, Ratio]]]


def measured(names: Sequence[str], record: Mapping[str, Ratio], run: Run = run) -> tuple[list[str], dict[str, Ratio]]:
    """Run benchmarks, those with a lost ratio twice; return which failed, and all ratios."""
    failed: list[str] = []
    found: dict[str, Ratio] = {}
    for name in names:
        print(f"\n== {name}", flush=True)
        succeeded, ratios = run(name)
        if any(verdict(record, each).startswith(BAD) for each in ratios.values()):
            print(f"\n== {name} once more, since a ratio is lost", flush=True)
            again, others = run(name)
            succeeded, ratios = succeeded or again, best(ratios, others)
        failed += [] if succeeded else [name]
        found |= ratios
    return failed, found


def main() -> int:
    """Print the ratios beside the record; return 1 if something failed or was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--record", action="store_true", help="write the record instead of comparing with it")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(BENCHMARKS):
        parser.error(f"no benchmark has the name {', '.join(sorted(unknown))}")
    record = read()
    names = asked.names or BENCHMARKS
    failed, found = measured(names, {} if asked.record else record)
    if found:
        print("\n| ratio | times as quick | as | |\n|---|---|---|---|")
    verdicts = {name: verdict(record, each) for name, each in found.items()}
    for name, each in found.items():
        print(f"| {name} | {each.ratio:.2f} | {each.baseline} | {verdicts[name]} |")
    missing = [] if asked.names else sorted(record.keys() - found.keys())
    lost = [name for name, said in verdicts.items() if said.startswith("below" if asked.record else BAD)]
    for what, which in {"failed": failed, "lost, or below the goal": lost, "recorded, not measured": missing}.items():
        if which:
            print(f"{what}: {', '.join(which)}")
    if asked.record:
        write(found.values())
    return int(bool(failed or lost or missing))


if __name__ == "__main__":
    sys.exit(main())
