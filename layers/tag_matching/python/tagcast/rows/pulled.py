"""Rows of pulls that came to nothing: what is known of one entry in a group's queue beyond that it is owed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tagcast.model import Entry, EntryState
from tagcast.rows.declaration import Beside, Declaration
from tagcast.rows.keys import pulled_key
from tagcast.rows.message import GARBAGE_S
from tagcast.tables import Put, Row

NOT_ACKNOWLEDGED = "not acknowledged in time"


@dataclass(frozen=True, slots=True)
class Pulled:
    """*attempts* pulls of an entry came to nothing, the last of them at *last_attempt_at*, as *last_outcome* says."""

    attempts: int
    last_attempt_at: int
    last_outcome: str

    def ending(self, state: EntryState) -> Entry:
        """Return the entry in *state* after these pulls."""
        return Entry(state, self.attempts, self.last_attempt_at, self.last_outcome)


PULLED = Declaration(
    Pulled,
    pulled_key,
    "what came of the pulls of an entry that its group was handed",
    "3 days after the expiry",
    "pull (pulled again, given back)",
    ttl=Beside("seconds", optional=False),
)


def last_pull(known: Pulled | None, pulls: int, now: int) -> Pulled:
    """Return what is known of the last of so many *pulls* that came to nothing; nobody may have told of it by *now*.

    >>> last_pull(Pulled(1, 5, "returned"), 1, 9)
    Pulled(attempts=1, last_attempt_at=5, last_outcome='returned')
    >>> last_pull(Pulled(1, 5, "returned"), 2, 9)
    Pulled(attempts=2, last_attempt_at=9, last_outcome='not acknowledged in time')
    """
    if known is None or known.attempts < pulls:  # Whoever was to write of the last one did not come to it.
        return Pulled(pulls, now, NOT_ACKNOWLEDGED)
    return known


def pulled_put(topic: str, message_id: str, ordinal: int, pulled: Pulled, expires_at: int) -> Put:
    """Return the write of what is known of an entry; whoever knows of the later pull writes last, near enough."""
    row = {**PULLED.row_of(pulled), "ttl": expires_at // 1000 + GARBAGE_S}
    return Put(pulled_key(topic, message_id, ordinal), row)


def ordinal_pulled(row: Row) -> int:
    """Return of whose entry a row tells."""
    return int(cast("str", row["sk"]))
