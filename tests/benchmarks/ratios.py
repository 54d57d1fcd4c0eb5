"""Ratios of benchmarks to baselines of the same run, beside those of the record, `tests/benchmarks/ratios.json`.

A ratio says how many times as quick, or as cheap, the product is as its baseline: more is better. Times of one machine
say nothing on another, and little on the same one an hour later; ratios of interleaved runs do.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

RECORD = Path(__file__).with_suffix(".json")
REPORTS = "TAGCAST_RATIOS"
"""The environment variable with the file to which benchmarks report: `python -m tests.benchmarks` sets it."""
LOST_SHARE = 0.1
"""What a ratio may be below its record before it counts as lost."""


@dataclass(frozen=True)
class Ratio:
    """How many times as quick as *baseline* something is, and how many it is to be (0: no goal)."""

    name: str
    ratio: float
    baseline: str
    goal: float = 0.0


def print_heading(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def report(name: str, ratio: float, baseline: str, goal: float = 0.0) -> None:
    """Report a ratio to the run of all benchmarks, if there is one, and print it if it is lost."""
    found = Ratio(name, ratio, baseline, goal)
    if reports := os.environ.get(REPORTS):
        with Path(reports).open("a") as file:
            file.write(json.dumps(asdict(found)) + "\n")
    if (said := verdict(read(), found)).startswith(("lost", "below")):
        print(f"{name}: {ratio:.2f} times {baseline}: {said}", flush=True)


def reported(reports: Path) -> list[Ratio]:
    """Return what benchmarks reported to a file."""
    return [Ratio(**json.loads(line)) for line in reports.read_text().splitlines()] if reports.exists() else []


def read(record: Path = RECORD) -> dict[str, Ratio]:
    """Return the record, by name."""
    return {name: Ratio(name, **fields) for name, fields in json.loads(record.read_text()).items()}


def write(found: Iterable[Ratio], record: Path = RECORD) -> None:
    """Record ratios; those of other names stay."""
    kept = {**read(record), **{each.name: each for each in found}}
    fields = {name: {"ratio": round(kept[name].ratio, 2), "baseline": kept[name].baseline} for name in sorted(kept)}
    lines = (f" {json.dumps(name)}: {json.dumps(each)}" for name, each in fields.items())
    record.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def verdict(record: Mapping[str, Ratio], found: Ratio) -> str:
    """Say how a ratio stands beside its goal and its record.

    >>> verdict({"x": Ratio("x", 1.5, "y")}, Ratio("x", 1.3, "y"))
    'lost 13 % (1.50)'
    >>> verdict({}, Ratio("x", 1.1, "y", goal=1.2))
    'below its goal of 1.2'
    """
    if found.ratio < found.goal:
        return f"below its goal of {found.goal:g}"
    before = record.get(found.name)
    if before is None or before.baseline != found.baseline:
        return "not recorded"
    if found.ratio < (1 - LOST_SHARE) * before.ratio:
        return f"lost {1 - found.ratio / before.ratio:.0%} ({before.ratio:.2f})".replace("%", " %")
    return f"as recorded ({before.ratio:.2f})"
