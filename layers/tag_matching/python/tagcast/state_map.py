"""The state map of one message: which entries are owed, when others were delivered, and how all others ended.

See docs/semantics.md, The state map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from tagcast.model import Entry, EntryState

FINISH_OFFSET_MS_MAX = 0xFFFF
FIRST_ATTEMPT_OUTCOME = "delivered at the first attempt"


@dataclass(frozen=True, slots=True)
class AddedLater:
    """How an entry came to be after its message was accepted: when, and by which version of its group's filter."""

    added_at: int
    filter_version: int


@dataclass(frozen=True, slots=True)
class StateMap:
    """Entries by subscription ordinal.

    *owed* are the entries that are not terminal. Of these, *enqueued* lie in the queues of their groups,
    *first_round_done* had their first round while others wait for theirs, and *added_later* were added for groups that
    are younger than the message. The last two stand in backlogs.
    *finishes* holds, for those delivered at the first attempt, the milliseconds from *round_at* to the end of that
    attempt; *settled* holds all other terminal entries.
    """

    matched: frozenset[int]
    owed: frozenset[int]
    round_open: bool = True
    round_at: int | None = None
    finishes: Mapping[int, int] = field(default_factory=dict)
    settled: Mapping[int, Entry] = field(default_factory=dict)
    enqueued: frozenset[int] = frozenset()
    first_round_done: frozenset[int] = frozenset()
    added_later: Mapping[int, AddedLater] = field(default_factory=dict)

    @classmethod
    def of(cls, matched: Iterable[int]) -> StateMap:
        """Return the map of a message that was just accepted.

        >>> StateMap.of([2, 5]).pending
        2
        """
        everyone = frozenset(matched)
        return cls(matched=everyone, owed=everyone, round_open=bool(everyone))

    @property
    def pending(self) -> int:
        """Return the number of entries that are not terminal."""
        return len(self.owed)

    @property
    def waiting(self) -> frozenset[int]:
        """Return the entries whose first round is not done."""
        return (
            self.owed - self.first_round_done - self.enqueued - self.added_later.keys()
            if self.round_open
            else frozenset()
        )

    @property
    def is_retained(self) -> bool:
        """Say whether anything is owed after the first round that does not lie in the queue of a group."""
        return not self.round_open and bool(self.owed - self.enqueued)

    def retained_since(self, before: StateMap) -> tuple[bool, bool]:
        """Return whether the message was retained *before*, and whether it is now."""
        return before.is_retained, self.is_retained

    def is_with_lane(self, ordinal: int) -> bool:
        """Say whether an entry is owed and does not lie in its group's queue; a due row of any other one is stale."""
        return ordinal in self.owed and ordinal not in self.enqueued

    def adding(self, ordinal: int, added: AddedLater) -> StateMap:
        """Return the map with an entry more, which is owed.

        >>> StateMap.of([1]).settle({1: Entry(EntryState.DELIVERED)}, round_at=5).adding(2, AddedLater(9, 1)).pending
        1
        """
        assert ordinal not in self.matched
        one = frozenset((ordinal,))
        return replace(
            self, matched=self.matched | one, owed=self.owed | one, added_later={**self.added_later, ordinal: added}
        )

    def settle(
        self,
        entries: Mapping[int, Entry],
        *,
        round_at: int | None = None,
        served: Set[int] | None = None,
        enqueued: Set[int] = frozenset(),
    ) -> StateMap:
        """Return the map after *entries* became terminal; those that are terminal already keep what they have.

        What is in *enqueued* and still owed lies in its group's queue now. With *round_at* the first round of what
        is *served* (None: of all) is done, and its first-attempt deliveries take their compact form, counted from the
        instant at which the first part of it began. The round as a whole is over when nothing waits for it.

        >>> one = StateMap.of([1, 2]).settle({1: Entry(EntryState.DELIVERED, 1, 1_030)}, round_at=1_000)
        >>> one.pending, dict(one.finishes), one.settle({1: Entry(EntryState.EXPIRED)}) == one
        (1, {1: 30}, True)
        >>> half = StateMap.of([1, 2]).settle({}, round_at=1_000, served={1})
        >>> half.round_open, set(half.waiting), half.settle({}, round_at=2_000, served={2}).round_open
        (True, {2}, False)
        """
        assert all(entry.state.is_terminal for entry in entries.values())
        changed = {ordinal: entry for ordinal, entry in entries.items() if ordinal in self.owed}
        in_round = round_at is not None and self.round_open
        base = round_at if in_round and self.round_at is None else self.round_at
        finishes, settled = dict(self.finishes), dict(self.settled)
        for ordinal, entry in changed.items():
            offset = -1 if base is None or entry.last_attempt_at is None else entry.last_attempt_at - base
            first = entry.state is EntryState.DELIVERED and entry.attempts == 1
            if in_round and first and 0 <= offset <= FINISH_OFFSET_MS_MAX:
                finishes[ordinal] = offset
            else:
                settled[ordinal] = entry
        owed = self.owed - changed.keys()
        lies = (self.enqueued | enqueued) & owed
        done = owed & self.first_round_done
        if in_round:
            done = owed if served is None else done | owed & served
        round_open = self.round_open and bool(owed - done - lies - self.added_later.keys() or not (owed or in_round))
        return replace(
            self,
            owed=owed,
            enqueued=lies,
            first_round_done=done if round_open else frozenset(),
            round_open=round_open,
            round_at=base,
            finishes=finishes,
            settled=settled,
        )

    def entry(self, ordinal: int) -> Entry:
        """Return one entry as far as the message's row knows it; an owed one is pending here."""
        if ordinal in self.owed:
            return Entry(EntryState.PENDING)
        if ordinal in self.finishes and self.round_at is not None:
            return Entry(EntryState.DELIVERED, 1, self.round_at + self.finishes[ordinal], FIRST_ATTEMPT_OUTCOME)
        return self.settled[ordinal]
