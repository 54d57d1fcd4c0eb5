"""What all runs of one commit came to so far, so that a long campaign can stop and go on."""

import json
import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.simulation.campaign import Player, Progress, Tally, play, play_many

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".simulation"
SAVED_S = 10.0


def commit() -> str:
    """Return the commit of the tree, with a mark if the code played here differs from it."""
    played = ["layers", "functions", "tests/simulation", "tests/fakes", "tests/aws", "template.yaml"]
    name = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    changes = subprocess.run(
        ["git", "status", "--porcelain", "--", *played], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return name.stdout.strip() + ("-changed" if changes.stdout.strip() else "")


def load(path: Path) -> Tally:
    """Return the tally in a file; an empty one if there is none."""
    if not path.exists():
        return Tally()
    saved = json.loads(path.read_text())
    saved["entries"], saved["accidents"] = Counter(saved["entries"]), Counter(saved["accidents"])
    saved["broken"] = {int(seed): detail for seed, detail in saved["broken"].items()}
    return Tally(**saved)


def save(path: Path, tally: Tally) -> None:
    """Write the tally so that a crash leaves the old file or the new one."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(vars(tally), indent=1))
    fresh.replace(path)


def resume(path: Path, runs: int, jobs: int, player: Player = play) -> Tally:
    """Play the seeds from where the file ends up to *runs* in all; the file is never far behind."""
    total = load(path)
    spent_s, began = total.seconds, time.perf_counter()
    progress, fresh = Progress(runs - total.runs), Tally()
    saved_at = began
    if total.runs < runs:
        for part in play_many(total.runs, runs - total.runs, jobs, player):
            total.absorb(part)
            fresh.absorb(part)
            progress.tell(fresh)
            now = time.perf_counter()
            total.seconds = spent_s + now - began
            if now - saved_at >= SAVED_S:
                save(path, total)
                saved_at = now
        save(path, total)
    return total
