"""The local stack beside that of another commit: ``python -m tests.benchmarks.local_speed --against COMMIT``.

The other commit is checked out in a temporary folder; its stack runs on this environment's libraries. Runs alternate.
Each is one of `tests.benchmarks.local_stack`. Printed are medians: messages a
second, which mean something on a machine that does nothing else, and the CPU of a message, in all and by process.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 10
FIGURE = re.compile(r"^(\w+, \d+ at once): (\d+) messages/s, ([\d.]+) ms of CPU each .*\n {4}(.*)$", re.MULTILINE)
Figures = Mapping[str, float]


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Give a folder with the files of *commit* until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
        hook = tree / "clients" / "python" / "hatch_build.py"  # Older trees have the built half of the client in them.
        if hook.exists():
            subprocess.run([sys.executable, str(hook)], cwd=tree, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def environment(tree: Path) -> dict[str, str]:
    """Return an environment in which Python imports the modules of *tree*, before those that are installed."""
    path = (tree, tree / "layers" / "tag_matching" / "python", tree / "clients" / "python")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}


def figures(tree: Path) -> dict[str, float]:
    """Run the stack of *tree* once, and return its figures by name."""
    command = [sys.executable, "-P", "-m", "tests.benchmarks.local_stack", "--idle", "1"]
    ran = subprocess.run(command, cwd=tree, env=environment(tree), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = {}
    for name, rate, cpu_ms, processes in FIGURE.findall(ran.stdout):
        found[f"{name}: messages/s"] = float(rate)
        found[f"{name}: CPU ms"] = float(cpu_ms)
        for process, each_ms in re.findall(r"([^,]+) ([\d.]+)(?:, |$)", processes):
            found[f"{name}: CPU ms of {process.strip()}"] = float(each_ms)
    assert found, ran.stdout
    return found


def alternated(trees: Mapping[str, Path], runs: int) -> dict[str, Figures]:
    """Return the medians of each tree; that which runs first changes from turn to turn."""
    found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in trees}
    for turn in range(runs):
        for name, tree in list(trees.items())[:: 1 if turn % 2 else -1]:
            for figure, value in figures(tree).items():
                found[name][figure].append(value)
            print(".", end="", file=sys.stderr, flush=True)
    return {name: {figure: statistics.median(values) for figure, values in of.items()} for name, of in found.items()}


def main() -> None:
    """Print the medians of both, and how this one stands to the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_speed", description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", default="HEAD", help="the other one (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each (default: %(default)s)")
    asked = parser.parse_args()
    with worktree(asked.against) as tree:
        medians = alternated({"this": ROOT, "other": tree}, asked.runs)
    print(f"\nmedians of {asked.runs} alternating runs; other: {asked.against}; load {os.getloadavg()[0]:.1f}\n")
    print("| figure | this | other | this / other |\n|---|---|---|---|")
    for figure, ours in medians["this"].items():
        if theirs := medians["other"].get(figure):
            print(f"| {figure} | {ours:,.1f} | {theirs:,.1f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
