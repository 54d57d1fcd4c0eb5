"""The part of many similar tests that `make test` runs. The commit chooses it; `make nightly` runs all."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

Each = TypeVar("Each")
TENTHS = 10


@cache
def of_this_commit() -> int:
    """Return which tenth is taken at this commit, 0 to 9."""
    told = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(told.stdout.strip() or "0", 16) % TENTHS


def tenth(bugs: Sequence[Each], which: int | None) -> Sequence[Each]:
    """Return every tenth of *bugs*, from number *which* on; all of them for None.

    >>> tenth(range(25), 3)
    range(3, 25, 10)
    """
    return bugs if which is None else bugs[which::TENTHS]
