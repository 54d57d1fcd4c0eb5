"""The state map of one message, computed from its rows (docs/semantics.md, The state map; docs/tables.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from tagcast.model import Entry, EntryState

FINISH_OFFSET_MS_MAX = 0xFFFF
FIRST_ATTEMPT_OUTCOME = "delivered at the first attempt"


@dataclass(frozen=True, slots=True)
class AddedLater:
    """The time at which a late entry was added, and the version of the group's filter that matched."""

    added_at: int
    filter_version: int


@dataclass(frozen=True, slots=True)
class Round:
    """The first round of an audience, which began at *at*.

    *finishes* maps each delivery that succeeded at the first attempt to the attempt's end, in milliseconds after *at*.
    *ended* has the other ended entries. *enqueued* has the pending entries in the queues of their groups. All other
    pending entries are in backlogs. Deliveries are identified by ordinal.
    """

    at: int
    finishes: Mapping[int, int] = field(default_factory=dict)
    ended: Mapping[int, Entry] = field(default_factory=dict)
    enqueued: frozenset[int] = frozenset()

    @classmethod
    def of(cls, at: int, entries: Mapping[int, Entry], enqueued: Set[int] = frozenset()) -> Round:
        """Return the round, begun at *at*, in which *entries* ended and the *enqueued* deliveries went to their queues.

        Successes at the first attempt become *finishes*, to save bytes.

        >>> Round.of(1_000, {1: Entry(EntryState.DELIVERED, 1, 1_030), 2: Entry(EntryState.EXPIRED)}).finishes
        {1: 30}
        """
        offsets = {
            ordinal: entry.last_attempt_at - at
            for ordinal, entry in entries.items()
            if entry.state is EntryState.DELIVERED and entry.attempts == 1 and entry.last_attempt_at is not None
        }
        finishes = {ordinal: offset for ordinal, offset in offsets.items() if 0 <= offset <= FINISH_OFFSET_MS_MAX}
        others = {ordinal: entry for ordinal, entry in entries.items() if ordinal not in finishes}
        return cls(at, finishes, others, frozenset(enqueued))

    def entries(self) -> dict[int, Entry]:
        """Return the entries that ended in the round, by ordinal."""
        delivered = {
            ordinal: Entry(EntryState.DELIVERED, 1, self.at + offset, FIRST_ATTEMPT_OUTCOME)
            for ordinal, offset in self.finishes.items()
        }
        return {**delivered, **self.ended}


RoundPart = tuple[frozenset[int], Round | None]
"""The ordinals of subscriptions that share a first round, and the round, which is None while it is open."""


@dataclass(frozen=True, slots=True)
class StateMap:
    """Entries by subscription ordinal.

    *waiting* are the pending entries whose first round is open. *enqueued* are the pending entries in the queues of
    their groups. All other *pending* entries are in backlogs. *ended* has the terminal entries. *added_later* has the
    late entries, whose groups are younger than the message; *matched* includes them.
    """

    matched: frozenset[int]
    pending: frozenset[int]
    waiting: frozenset[int] = frozenset()
    enqueued: frozenset[int] = frozenset()
    ended: Mapping[int, Entry] = field(default_factory=dict)
    added_later: Mapping[int, AddedLater] = field(default_factory=dict)

    @classmethod
    def of(cls, matched: Iterable[int]) -> StateMap:
        """Return the map of a newly accepted message: all *matched* entries are pending.

        >>> StateMap.of([2, 5]).pending_count
        2
        """
        everyone = frozenset(matched)
        return cls(everyone, everyone, everyone)

    @classmethod
    def fold(
        cls,
        parts: Iterable[RoundPart],
        ends: Mapping[int, Entry],
        enqueued: Set[int] = frozenset(),
        late: Mapping[int, AddedLater] | None = None,
    ) -> StateMap:
        """Return the map computed from the first rounds and the separate rows of a message.

        *parts* are the first rounds, each with the ordinals of its subscriptions. The other arguments are from separate
        rows: *ends* are the ends outside of rounds, *enqueued* the ordinals of deliveries that moved from a backlog to
        a queue, *late* the late entries (None if there are none).

        >>> got, open_part = Round(1_000, {1: 30}), (frozenset({4}), None)
        >>> one = StateMap.fold([(frozenset({1, 2, 3}), got), open_part], {2: Entry(EntryState.EXPIRED)})
        >>> sorted(one.pending), sorted(one.waiting), one.entry(1).last_attempt_at, one.entry(2).state.value
        ([3, 4], [4], 1030, 'expired')
        """
        matched, waiting, queued, ended = set[int](), set[int](), set[int](enqueued), dict[int, Entry]()
        for members, its_round in parts:
            matched |= members
            if its_round is None:
                waiting |= members
            else:
                queued |= its_round.enqueued
                ended |= its_round.entries()
        ended |= ends
        everyone = frozenset(matched.union(late or ()))
        pending = everyone - ended.keys()
        return cls(everyone, pending, pending & waiting, pending & queued, ended, late or {})

    @property
    def pending_count(self) -> int:
        """The number of pending entries."""
        return len(self.pending)

    def is_with_lane(self, ordinal: int) -> bool:
        """Return whether the delivery is pending and not handed over. If not, its due row, if any, is stale."""
        return ordinal in self.pending and ordinal not in self.enqueued

    def within(self, ordinals: Set[int]) -> StateMap:
        """Return the part of the map with these *ordinals*."""
        ended = {ordinal: entry for ordinal, entry in self.ended.items() if ordinal in ordinals}
        late = {ordinal: added for ordinal, added in self.added_later.items() if ordinal in ordinals}
        return replace(
            self,
            matched=self.matched & ordinals,
            pending=self.pending & ordinals,
            waiting=self.waiting & ordinals,
            enqueued=self.enqueued & ordinals,
            ended=ended,
            added_later=late,
        )

    def entry(self, ordinal: int) -> Entry:
        """Return one entry. If it is pending, it has no attempts, because these are in other rows."""
        return Entry(EntryState.PENDING) if ordinal in self.pending else self.ended[ordinal]
