"""What one sweep leaves to the next: how far it came, in one row."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.declaration import Declaration, Fields
from tagcast.rows.keys import sweep_key
from tagcast.tables import Put


@dataclass(frozen=True, slots=True)
class Pass:
    """How far the present pass of the search came (*cursor* None: it is over), and when it began."""

    cursor: str | None = None
    began_at: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The topic behind which the next sweep goes on with what is retained, and the pass of the search."""

    topic: str = ""
    search: Pass = Pass()


SWEEP_ROWS = Declaration(Progress, sweep_key, "how far the sweep came", "never", "sweep", search=Fields())


def progress_put(progress: Progress) -> Put:
    """Return the write that leaves *progress* to the next sweep."""
    return Put(sweep_key(), SWEEP_ROWS.row_of(progress))
