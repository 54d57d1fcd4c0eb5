"""Ended entries as bytes: they tell the same when they are read, and are few."""

import pytest
from tagcast.model import Entry, EntryState
from tagcast.rows.ended_entries import (
    ENTRY_BYTES,
    OUTCOME_BYTES_MAX,
    bound_outcome,
    of_bytes,
    shorten_outcomes,
    to_bytes,
)

ENDED = {
    3: Entry(EntryState.DISCARDED, 4, 1_500, "http 500"),
    1: Entry(EntryState.DELIVERED, 2, 1_700, "http 200"),
    7: Entry(EntryState.EXPIRED),
    9: Entry(EntryState.CANCELLED, 1, 1_400, "http 500"),
    12: Entry(EntryState.FILTERED, 0, None, ""),
}


def test_the_order_of_terminal_states_is_that_of_the_stored_rows() -> None:
    terminal = [state.value for state in EntryState if state.is_terminal]
    assert terminal == ["delivered", "discarded", "expired", "cancelled", "filtered"]


def test_the_bytes_give_back_what_they_were_given() -> None:
    assert of_bytes(to_bytes(ENDED, 1_000), reversed(list(ENDED)), 1_000) == ENDED


def test_an_entry_without_its_outcome_takes_few_bytes() -> None:
    many = {place: Entry(EntryState.DISCARDED, place % 177, 10**6 + place * 7_919) for place in range(10_000)}

    assert len(to_bytes(many, 1_000)) <= ENTRY_BYTES * len(many)


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (None, None),
        ("x" * 100, "x" * 100),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "…"),
        ("é" * 100, "é" * 100),
        ("😀" * 50, "😀" * 50),
        ("é" * 101, "é" * 98 + "…"),
        ("\x00" * 33, "\x00" * 33),
        ("\x00" * 34, "\x00" * 32 + "…"),
        ("\ud800", "?"),
    ],
)
def test_an_outcome_is_kept_as_far_as_two_hundred_bytes_go(outcome: str | None, kept: str | None) -> None:
    assert bound_outcome(outcome) == kept
    assert len((bound_outcome(outcome) or "").encode()) <= OUTCOME_BYTES_MAX


def test_outcomes_are_shortened_and_nothing_else_of_their_entries() -> None:
    entry = Entry(EntryState.DISCARDED, 4, 1_500, "x" * 50)

    assert shorten_outcomes({3: entry}, 40) == {3: Entry(EntryState.DISCARDED, 4, 1_500, "x" * 37 + "…")}
    assert shorten_outcomes({3: entry}, 0) == {3: Entry(EntryState.DISCARDED, 4, 1_500)}
    assert shorten_outcomes({3: entry}, 100)[3] is entry
