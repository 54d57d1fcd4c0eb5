"""The state map: what is terminal stays, and the first round is closed once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.model import Entry, EntryState
from tagcast.state_map import FINISH_OFFSET_MS_MAX, FIRST_ATTEMPT_OUTCOME, StateMap

FIRST = Entry(EntryState.DELIVERED, 1, 1_030, "http 200")
LATER = Entry(EntryState.DELIVERED, 2, 9_000, "http 204")


def test_an_entry_that_ended_keeps_everything_it_has() -> None:
    once = StateMap.of([1, 2, 3]).settle({1: FIRST, 2: LATER}, round_at=1_000)

    again = once.settle({1: Entry(EntryState.EXPIRED, 7, 1, "x"), 2: Entry(EntryState.CANCELLED)}, round_at=5_000)

    assert again == once


def test_a_round_is_closed_once_and_keeps_the_instant_at_which_it_was() -> None:
    closed = StateMap.of([1, 2]).settle({1: FIRST}, round_at=1_000)

    again = closed.settle({2: Entry(EntryState.DELIVERED, 1, 7_020)}, round_at=7_000)

    assert (closed.round_open, closed.round_at) == (False, 1_000)
    assert (again.round_open, again.round_at) == (False, 1_000)
    assert again.entry(1) == Entry(EntryState.DELIVERED, 1, 1_030, FIRST_ATTEMPT_OUTCOME)
    assert again.settled == {2: Entry(EntryState.DELIVERED, 1, 7_020)}


def test_a_round_stays_open_until_it_is_closed() -> None:
    part = StateMap.of([1, 2]).settle({1: FIRST})

    assert (part.round_open, part.round_at, part.owed) == (True, None, frozenset({2}))
    assert part.entry(1) == FIRST
    assert StateMap.of([]).round_open is False


@pytest.mark.parametrize(("took_ms", "compact"), [(0, True), (0xFFFF, True), (0x1_0000, False), (-1, False)])
def test_first_attempts_are_compact_within_sixteen_bits_of_their_round(took_ms: int, compact: bool) -> None:
    entry = Entry(EntryState.DELIVERED, 1, 1_000 + took_ms, "http 200")

    after = StateMap.of([1]).settle({1: entry}, round_at=1_000)

    assert after.finishes == ({1: took_ms} if compact else {})
    assert after.settled == ({} if compact else {1: entry})
    assert (after.entry(1).attempts, after.entry(1).last_attempt_at) == (1, 1_000 + took_ms)


@pytest.mark.parametrize(
    "entry",
    [
        LATER,
        Entry(EntryState.DISCARDED, 1, 1_030, "http 500"),
        Entry(EntryState.FILTERED, 0, None),
        Entry(EntryState.DELIVERED, 1, None),
    ],
)
def test_everything_but_a_first_delivery_is_kept_in_full(entry: Entry) -> None:
    after = StateMap.of([1]).settle({1: entry}, round_at=1_000)

    assert (after.finishes, after.settled) == ({}, {1: entry})
    assert after.entry(1) == entry


def test_an_owed_entry_is_pending_and_one_that_is_not_matched_is_none_at_all() -> None:
    some = StateMap.of([1, 2])

    assert some.entry(1) == Entry(EntryState.PENDING)
    assert (some.pending, some.matched) == (2, frozenset({1, 2}))
    with pytest.raises(KeyError):
        some.entry(3)


def test_an_entry_that_is_not_over_cannot_be_settled() -> None:
    with pytest.raises(AssertionError):
        StateMap.of([1]).settle({1: Entry(EntryState.BLOCKED)})


ENDS = [state for state in EntryState if state.is_terminal]
entries = st.dictionaries(
    st.integers(0, 20),
    st.builds(
        Entry,
        st.sampled_from(ENDS),
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(900, 1_000 + 2 * FINISH_OFFSET_MS_MAX)),
        st.sampled_from([None, "http 500"]),
    ),
)


@given(st.lists(st.tuples(entries, st.sampled_from([None, 1_000, 2_000])), max_size=6))
def test_what_ended_never_changes_in_any_field_whatever_is_settled_later(
    steps: list[tuple[dict[int, Entry], int | None]],
) -> None:
    known = StateMap.of(range(21))
    ended: dict[int, Entry] = {}
    for settled, round_at in steps:
        known = known.settle(settled, round_at=round_at)
        for ordinal, entry in ended.items():
            assert known.entry(ordinal) == entry
        ended = {ordinal: known.entry(ordinal) for ordinal in known.matched - known.owed}
        for ordinal in settled:
            assert ordinal in ended
        assert len(known.owed) + len(known.finishes) + len(known.settled) == 21
