"""The same history in another process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def told_elsewhere(module: str, seed: int, hash_seed: str) -> str:
    """Return what *module* prints of one seed in a process whose hashes are salted with *hash_seed*."""
    told = subprocess.run(
        [sys.executable, "-m", module, "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "layers/tag_matching/python")},
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout
