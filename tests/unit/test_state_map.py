"""The state map of one message: what ended keeps everything about it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tagcast.model import Entry, EntryState
from tagcast.state_map import FINISH_OFFSET_MS_MAX, StateMap

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


def test_a_second_close_moves_neither_the_begin_of_the_round_nor_the_ends_counted_from_it():
    first = StateMap.of([1, 2, 3]).settle({1: Entry(EntryState.DELIVERED, 1, 1_030)}, round_at=1_000)
    second = first.settle({2: Entry(EntryState.DELIVERED, 1, 9_050)}, round_at=9_000)

    assert second.round_at == 1_000
    assert second.entry(1).last_attempt_at == 1_030
    assert second.entry(2) == Entry(EntryState.DELIVERED, 1, 9_050)
    assert second.owed == {3}


@given(st.lists(st.tuples(entries, st.sampled_from([None, 1_000, 2_000])), max_size=6))
def test_what_ended_never_changes_in_any_field_whatever_is_settled_later(steps):
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
