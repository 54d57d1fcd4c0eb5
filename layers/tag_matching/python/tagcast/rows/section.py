"""Which section of a wide message's map a row is, beside the others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """Which section of a wide message's map a row is, and what was read of the message and its other sections.

    *ended* are those in which nobody is owed anything, as the tally says in its *tally_version*, 0 before there is one;
    *message_version* is that of the message's own row.
    """

    number: int
    count: int
    ended: frozenset[int]
    tally_version: int
    message_version: int

    @property
    def is_beside_open(self) -> bool:
        """Say whether somebody is owed the message in another section."""
        return len(self.ended | {self.number}) < self.count
