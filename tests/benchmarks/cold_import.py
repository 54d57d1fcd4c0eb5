"""CPU time to import each function's module in a fresh process: ``python -m tests.benchmarks.cold_import``.

Only the ratio to importing boto3 alone, measured in the same run, means something on another machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))
ROUNDS = 7
RATIO_MAX = 2.0
HEAVY = ("boto3", "botocore", "aiohttp", "pydantic", "moto")
"""What costs most; boto3 and aiohttp wait for the first call of the functions that need them."""

PROGRAM = """
import sys, time
started = time.process_time()
import {module}
spent = time.process_time() - started
print(spent * 1000, *(name for name in {heavy!r} if name in sys.modules))
"""


def cold(module: str, path: Path = ROOT) -> tuple[float, list[str]]:
    """Return the CPU milliseconds of importing *module* in a process of its own, and what it brought along."""
    paths = os.pathsep.join(map(str, (path, ROOT / "layers" / "tag_matching" / "python")))
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module, heavy=HEAVY)],
        env={**os.environ, "PYTHONPATH": paths, "POWERTOOLS_TRACE_DISABLED": "true"},
        cwd=path,
        capture_output=True,
        text=True,
        check=True,
    )
    spent, *heavy = ran.stdout.split()
    return float(spent), heavy


def measure() -> dict[str, tuple[float, list[str]]]:
    """Return the median of each, taken in turns so that a busy moment strikes all alike."""
    where = {"boto3": ("boto3", ROOT)}
    where |= {name: ("app", ROOT / "functions" / name) for name in FUNCTIONS}
    times: dict[str, list[float]] = {name: [] for name in where}
    heavy: dict[str, list[str]] = {}
    for module, path in where.values():
        cold(module, path)  # Leaves the bytecode behind, as an image or a layer does.
    for _ in range(ROUNDS):
        for name, (module, path) in where.items():
            spent, heavy[name] = cold(module, path)
            times[name].append(spent)
    return {name: (statistics.median(spent), heavy[name]) for name, spent in times.items()}


def main() -> None:
    """Print the table; exit with a fault when a function costs more than its share."""
    measured = measure()
    boto3_ms, _ = measured["boto3"]
    print(f"median of {ROUNDS} fresh processes\n\n| import | CPU ms | / boto3 | of which heavy |\n|---|---|---|---|")
    for name, (spent, heavy) in measured.items():
        print(f"| {name} | {spent:.0f} | {spent / boto3_ms:.2f} | {', '.join(heavy) or '-'} |")
    over = [name for name in FUNCTIONS if measured[name][0] > RATIO_MAX * boto3_ms]
    raise SystemExit(f"more than {RATIO_MAX:g} times boto3: {', '.join(over)}" if over else 0)


if __name__ == "__main__":
    main()
