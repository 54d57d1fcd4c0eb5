"""The state map is the fold of what was put once: rounds, ends, and what came later."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.model import Entry, EntryState
from tagcast.rows.state_map import FINISH_OFFSET_MS_MAX, FIRST_ATTEMPT_OUTCOME, AddedLater, Round, StateMap

FIRST = Entry(EntryState.DELIVERED, 1, 1_030, "http 200")
LATER = Entry(EntryState.DELIVERED, 2, 9_000, "http 204")
BOTH = frozenset((1, 2))


def test_whoever_neither_ended_nor_was_enqueued_in_a_round_stands_in_a_backlog() -> None:
    everyone = frozenset((1, 2, 3, 4))
    done = Round.of(1_000, {1: FIRST, 2: Entry(EntryState.EXPIRED)}, {3})

    known = StateMap.fold([(everyone, done)], {})

    assert (set(known.pending), set(known.waiting), set(known.enqueued)) == ({3, 4}, set(), {3})
    assert [known.is_with_lane(ordinal) for ordinal in (1, 2, 3, 4)] == [False, False, False, True]
    assert known.entry(1) == Entry(EntryState.DELIVERED, 1, 1_030, FIRST_ATTEMPT_OUTCOME)


def test_the_members_of_an_open_round_wait_but_for_those_that_ended_before_it_was_closed() -> None:
    known = StateMap.fold([(BOTH, None), (frozenset((3,)), Round(1_000))], {2: LATER})

    assert (set(known.pending), set(known.waiting)) == ({1, 3}, {1})
    assert known.entry(2) == LATER


def test_a_late_entry_is_matched_and_owed_until_it_ends() -> None:
    late = {7: AddedLater(5_000, 2)}

    added = StateMap.fold([(BOTH, Round(1_000, {1: 3, 2: 4}))], {}, late=late)
    ended = StateMap.fold([(BOTH, Round(1_000, {1: 3, 2: 4}))], {7: LATER}, late=late)

    assert (set(added.matched), set(added.pending), set(added.waiting)) == ({1, 2, 7}, {7}, set())
    assert (ended.pending_count, ended.entry(7)) == (0, LATER)


@pytest.mark.parametrize(("took_ms", "compact"), [(0, True), (0xFFFF, True), (0x1_0000, False), (-1, False)])
def test_first_attempts_are_compact_within_sixteen_bits_of_their_round(took_ms: int, compact: bool) -> None:
    entry = Entry(EntryState.DELIVERED, 1, 1_000 + took_ms, "http 200")

    done = Round.of(1_000, {1: entry})

    assert done.finishes == ({1: took_ms} if compact else {})
    assert done.ended == ({} if compact else {1: entry})
    assert (done.entries()[1].attempts, done.entries()[1].last_attempt_at) == (1, 1_000 + took_ms)


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
    done = Round.of(1_000, {1: entry})

    assert (done.finishes, done.ended, done.entries()) == ({}, {1: entry}, {1: entry})


def test_an_owed_entry_is_pending_and_one_that_is_not_matched_is_none_at_all() -> None:
    some = StateMap.of([1, 2])

    assert some.entry(1) == Entry(EntryState.PENDING)
    assert (some.pending_count, some.matched, some.waiting) == (2, BOTH, BOTH)
    with pytest.raises(KeyError):
        some.entry(3)


def test_a_section_sees_its_own_entries_only() -> None:
    known = StateMap.fold([(BOTH, Round.of(1_000, {1: FIRST}, {2}))], {}, late={7: AddedLater(5, 1)})

    assert known.within(frozenset((1,))) == StateMap.fold([(frozenset((1,)), Round.of(1_000, {1: FIRST}))], {})
    assert known.within(frozenset((7,))).pending == {7}


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


@given(entries, entries, st.booleans())
def test_every_matched_entry_is_owed_or_ended_whatever_was_put(
    in_round: dict[int, Entry], behind: dict[int, Entry], is_closed: bool
) -> None:
    everyone = frozenset(range(21))
    behind = {ordinal: entry for ordinal, entry in behind.items() if ordinal not in in_round or not is_closed}
    known = StateMap.fold([(everyone, Round.of(1_000, in_round) if is_closed else None)], behind)

    assert known.pending | known.ended.keys() == everyone
    assert not known.pending & known.ended.keys()
    assert known.waiting == (frozenset() if is_closed else known.pending)
    for ordinal, entry in behind.items():
        assert known.entry(ordinal) == entry
