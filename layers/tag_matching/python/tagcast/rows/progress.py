"""What one sweep leaves to the next: how far it came, in one row."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.keys import sweep_key
from tagcast.rows.values import dense, optional_number, optional_text
from tagcast.tables import Put, Row


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


def progress_of(row: Row | None) -> Progress:
    """Return what the last sweep left; a table without such a row is swept from its beginning."""
    if row is None:
        return Progress()
    known = Pass(optional_text(row, "cursor"), optional_number(row, "began_at"))
    return Progress(optional_text(row, "topic") or "", known)


def progress_put(progress: Progress) -> Put:
    """Return the write that leaves *progress* to the next sweep."""
    found = progress.search
    return Put(sweep_key(), dense({"topic": progress.topic, "began_at": found.began_at, "cursor": found.cursor}))
