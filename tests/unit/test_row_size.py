"""A message's row never outgrows what DynamoDB takes, whatever its receivers answer, and what ended stays as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.model import Draft, Entry, EntryState, Message
from tagcast.ports import Put, Row
from tagcast.rows.ended_entries import OUTCOME_BYTES_MAX, bounded
from tagcast.rows.keys import message_key
from tagcast.rows.message import TEXT_ROW_BYTES_MAX, MessageRow, message_row, message_row_of
from tagcast.rows.message_writes import map_writes
from tagcast.state_map import StateMap

from tests.fakes.memory_store import MemoryStore
from tests.item_size import ITEM_BYTES_MAX, row_size

ACCEPTED_AT = 1_800_000_000_000
KEY = message_key("t", f"{ACCEPTED_AT << 22:020d}")
SUBSCRIPTIONS_MAX = 10_000
ENDS = (EntryState.DELIVERED, EntryState.DISCARDED, EntryState.EXPIRED, EntryState.CANCELLED, EntryState.FILTERED)


def accepted(matched: Sequence[int], body: bytes = b"1", **envelope: Any) -> MessageRow:
    draft = Draft(body, **envelope)
    message = Message("t", KEY.pk.rpartition("#")[2], draft, ACCEPTED_AT, ACCEPTED_AT + 86_400_000)
    return MessageRow(message, StateMap.of(matched), 1, 1)


def largest(matched: Sequence[int]) -> MessageRow:
    """A message at every limit of the API."""
    row = accepted(
        matched,
        b"x" * 256 * 1024,
        tags=tuple("😀" * 64 for _ in range(10)),
        routing_key="k" * 64,
        properties={f"{number:064d}": "v" * 263 for number in range(50)},
        ordering_key="😀" * 128,
        content_type="c" * 128,
    )
    return MessageRow(row.message, row.map, 1, 1, tuple(f"{number:064d}" for number in range(100)), 10_000)


class Written:
    """The row of a message in a table."""

    def __init__(self, row: MessageRow) -> None:
        self.store = MemoryStore()
        self.store.write(Put(KEY, message_row(row)))

    @property
    def row(self) -> Row:
        row = self.store.get(KEY)
        assert row is not None
        return row

    @property
    def value(self) -> MessageRow:
        return message_row_of(self.row)

    def settle(self, entries: dict[int, Entry], round_at: int | None = None) -> None:
        before = self.value
        self.store.transact(map_writes(before, before.settled(entries, round_at=round_at)))


def entry(outcome: str | None, attempts: int = 4, state: EntryState = EntryState.DISCARDED) -> Entry:
    return Entry(state, attempts, ACCEPTED_AT + 1_234, outcome)


DENSE = range(SUBSCRIPTIONS_MAX)
SPARSE = range(0, SUBSCRIPTIONS_MAX * 9_999, 9_999)
ALPHABETS = {
    "emoji": [chr(code) for code in range(0x1F300, 0x1F5FF)],
    "control characters": [chr(code) for code in (*range(32), *range(0x7F, 0xA0))],
    "halves": [chr(code) for code in range(0xD800, 0xDFFF)],
    "any letters": [chr(code) for code in range(0x21, 0x7F)],
}


@pytest.mark.parametrize(
    ("alphabet", "matched"),
    [("any letters", SPARSE), ("emoji", DENSE), ("control characters", DENSE), ("halves", DENSE)],
)
def test_ten_thousand_hostile_outcomes_of_the_largest_message_fit_and_what_ended_stays(
    alphabet: str, matched: Sequence[int]
) -> None:
    dice = Random(alphabet)
    table = Written(largest(matched))
    left = list(matched)
    dice.shuffle(left)
    ended: dict[int, Entry] = {}
    while left:
        now, left = left[:1_250], left[1_250:]
        table.settle(
            {
                ordinal: Entry(
                    dice.choice(ENDS),
                    dice.randrange(177),
                    ACCEPTED_AT + dice.randrange(86_400_000),
                    "".join(dice.choices(ALPHABETS[alphabet], k=300)),
                )
                for ordinal in now
            }
        )
        assert row_size(table.row) <= ITEM_BYTES_MAX
        known = table.value.map.settled
        assert ended.items() <= known.items()
        ended = dict(known)

    assert ended.keys() == set(matched)
    assert not table.value.has_body


def test_a_thousand_first_failures_and_ends_at_the_second_attempt_of_a_large_message_keep_their_outcomes() -> None:
    table = Written(largest(range(1_000)))
    for first in range(0, 1_000, 10):
        table.settle({ordinal: entry("tls: certificate verify failed") for ordinal in range(first, first + 10)})

    assert {ended.last_outcome for ended in table.value.map.settled.values()} == {"tls: certificate verify failed"}


def test_a_small_row_has_its_ended_entries_as_text_that_the_release_before_reads() -> None:
    table = Written(accepted([1, 2, 3]))
    table.settle({1: entry("http 500"), 2: Entry(EntryState.CANCELLED, last_outcome="skipped: 😀")})

    assert json.loads(str(table.row["exceptions"])) == {
        "1": ["discarded", 4, ACCEPTED_AT + 1_234, "http 500"],
        "2": ["cancelled", 0, None, "skipped: 😀"],
    }
    assert "ended" not in table.row


def test_a_row_that_the_release_before_wrote_is_read() -> None:
    row = {**message_row(accepted([1])), "owed": None, "exceptions": '{"1":["expired",2,5,"\\ud83d\\ude00"]}'}

    assert message_row_of(row).map.settled == {1: Entry(EntryState.EXPIRED, 2, 5, "😀")}


def test_a_row_has_one_form_of_its_ended_entries_and_the_text_again_once_the_body_is_gone() -> None:
    table = Written(accepted([1, 2, 3], b"x" * (TEXT_ROW_BYTES_MAX - 500)))
    table.settle({1: entry("a")})
    assert "exceptions" in table.row
    table.settle({2: entry("b" * 190)})
    assert "exceptions" not in table.row
    assert table.value.map.settled == {1: entry("a"), 2: entry("b" * 190)}
    table.settle({3: entry("c")})

    assert "ended" not in table.row
    assert table.value.map.settled == {1: entry("a"), 2: entry("b" * 190), 3: entry("c")}


def test_what_was_delivered_at_the_first_attempt_stays_beside_the_compact_form() -> None:
    table = Written(accepted(range(6), b"x" * (TEXT_ROW_BYTES_MAX + 1)))
    first = {ordinal: Entry(EntryState.DELIVERED, 1, ACCEPTED_AT + 100 + ordinal) for ordinal in (0, 3)}
    table.settle({**first, 1: entry("http 500")}, round_at=ACCEPTED_AT)
    table.settle({5: entry("http 503", attempts=2)})

    found = table.value.map
    assert "ended" in table.row
    assert found.finishes == {0: 100, 3: 103}
    assert found.settled == {1: entry("http 500"), 5: entry("http 503", attempts=2)}
    assert found.owed == {2, 4}


@given(st.text(st.characters(), max_size=400))
def test_an_outcome_is_bounded_by_its_bytes_in_a_row_and_keeps_its_beginning(outcome: str) -> None:
    kept = bounded(outcome)

    assert kept is not None
    assert len(json.dumps(kept, ensure_ascii=False).encode()) - 2 <= OUTCOME_BYTES_MAX
    assert outcome.encode(errors="replace").decode().startswith(kept.removesuffix("…"))


def test_an_outcome_of_ordinary_length_is_kept_as_it_is() -> None:
    for outcome in ("http 500", "ü" * 100, "😀" * 50, "x" * OUTCOME_BYTES_MAX):
        assert bounded(outcome) == outcome
