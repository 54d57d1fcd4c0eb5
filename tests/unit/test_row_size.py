"""A message's row never outgrows what DynamoDB takes, whatever its receivers answer, and what ended stays as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.errors import ConditionLostError, TooLargeError
from tagcast.model import BODY_BYTES_MAX, Draft, Entry, EntryState, Message, Ordering, Topic
from tagcast.ports import Put, Row
from tagcast.rows.ended_entries import OUTCOME_BYTES_MAX, bounded
from tagcast.rows.keys import message_key, topic_key
from tagcast.rows.message import MESSAGES, MessageRow, bounds_of, message_row
from tagcast.rows.message_writes import accepted_put, map_writes, may_outgrow, outgrows
from tagcast.state_map import StateMap

from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FakeWorld
from tests.item_size import ITEM_BYTES_MAX, row_size

ACCEPTED_AT = 1_800_000_000_000
KEY = message_key("t", f"{ACCEPTED_AT << 22:020d}")
SUBSCRIPTIONS_MAX = 10_000
ROOM_BYTES = 11_000
"""For the entries of a request, and a hundred late ones."""
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
        return MESSAGES.value_of(self.row)

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
    [
        ("any letters", SPARSE),
        ("emoji", DENSE),
        *(pytest.param(each, DENSE, marks=pytest.mark.nightly) for each in ("control characters", "halves")),
    ],
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
        now, left = left[:2_500], left[2_500:]
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


def test_outcomes_make_no_row_larger_than_300_000_bytes() -> None:
    dice, table = Random(7), Written(accepted(range(1_000), b"x" * 240_000))
    for first in range(0, 990, 110):
        letters = ["".join(dice.choices(ALPHABETS["any letters"], k=300)) for _ in range(110)]
        table.settle({first + number: entry(outcome) for number, outcome in enumerate(letters)})
    ended = table.value.map.settled.values()
    assert 290_000 < row_size(table.row) <= 300_000
    assert {each.last_outcome is None for each in ended} == {False, True}


def test_a_thousand_first_failures_and_ends_at_the_second_attempt_of_a_large_message_keep_their_outcomes() -> None:
    table = Written(largest(range(1_000)))
    for first in range(0, 1_000, 10):
        table.settle({ordinal: entry("tls: certificate verify failed") for ordinal in range(first, first + 10)})

    assert {ended.last_outcome for ended in table.value.map.settled.values()} == {"tls: certificate verify failed"}


def test_what_was_delivered_at_the_first_attempt_stays_beside_what_ended_later() -> None:
    table = Written(accepted(range(6)))
    first = {ordinal: Entry(EntryState.DELIVERED, 1, ACCEPTED_AT + 100 + ordinal) for ordinal in (0, 3)}
    table.settle({**first, 1: entry("http 500")}, round_at=ACCEPTED_AT)
    table.settle({5: entry("http 503", attempts=2)})

    found = table.value.map
    assert found.finishes == {0: 100, 3: 103}
    assert found.settled == {1: entry("http 500"), 5: entry("http 503", attempts=2)}
    assert found.owed == {2, 4}


def test_no_message_is_accepted_over_another() -> None:
    store = MemoryStore()
    store.write(accepted_put(accepted([1])))

    with pytest.raises(ConditionLostError):
        store.write(accepted_put(accepted([2])))


MANY = 100_000


def everybody(gap: int, body: bytes, *, mixed: bool) -> MessageRow:
    """The largest message but for its *body*, matched by a hundred thousand who stand so far from each other."""
    matched = range(0, MANY * gap, gap)
    row = largest(matched)
    in_order = frozenset(matched[1:] if mixed else matched)
    message = replace(row.message, draft=replace(row.message.draft, body=body))
    return replace(row, message=message, in_order=in_order, bounds=bounds_of(matched, 1_000))


def topic_of(gap: int) -> Topic:
    return Topic("t", "1", 60, BODY_BYTES_MAX, Ordering.TOPIC, 1, 1, 1, MANY, MANY * gap)


@pytest.mark.parametrize("gap", [4, 129])
@pytest.mark.parametrize("mixed", [False, True])
def test_no_message_that_may_be_published_outgrows_what_dynamodb_takes(gap: int, mixed: bool) -> None:
    noise = Random(gap).randbytes(BODY_BYTES_MAX)
    refused = {}
    for size in (1_024, 131_072, BODY_BYTES_MAX):
        row = everybody(gap, noise[:size], mixed=mixed)
        put = accepted_put(row)
        stored = row_size({"pk": put.key.pk, "sk": put.key.sk, **put.row})
        refused[size] = may_outgrow(topic_of(gap), noise[:size]) and outgrows(row)
        assert refused[size] or stored <= ITEM_BYTES_MAX - ROOM_BYTES, stored

    assert refused == {1_024: mixed and gap == 129, 131_072: mixed and gap == 129, BODY_BYTES_MAX: gap == 129}


def test_a_whole_map_of_the_largest_message_needs_no_look_at_whom_it_matched() -> None:
    for count in (1, 1_000):
        topic = replace(topic_of(1), subscription_count=count, next_ordinal=count * 9_999)
        row = replace(largest(range(0, count * 9_999, 9_999)), in_order=frozenset({0}))
        assert not may_outgrow(topic, b"x" * BODY_BYTES_MAX)
        assert not outgrows(row)


def test_a_large_body_that_deflates_leaves_room_for_whom_it_matched() -> None:
    row = everybody(129, b'{"order": 17}' * 20_000, mixed=False)

    assert may_outgrow(topic_of(129), row.message.draft.body)
    assert not outgrows(row)


def test_what_outgrows_its_row_is_refused_before_anything_of_its_request_is_stored() -> None:
    fake = FakeWorld()
    fake.topic("wide")
    fake.subscribe("s", topic="wide")
    fake.store.rows[topic_key("wide")]["body_bytes_max"] = 10**6
    stored = set(fake.store.rows)

    with pytest.raises(TooLargeError, match="take more than one row holds"):
        fake.publish("fits", Random(1).randbytes(400_000).hex(), topic="wide")

    assert fake.store.rows.keys() == stored


@given(st.text(st.characters(), max_size=400))
def test_an_outcome_is_bounded_by_its_bytes_in_a_row_and_keeps_its_beginning(outcome: str) -> None:
    kept = bounded(outcome)

    assert kept is not None
    assert len(json.dumps(kept, ensure_ascii=False).encode()) - 2 <= OUTCOME_BYTES_MAX
    assert outcome.encode(errors="replace").decode().startswith(kept.removesuffix("…"))


def test_an_outcome_of_ordinary_length_is_kept_as_it_is() -> None:
    for outcome in ("http 500", "ü" * 100, "😀" * 50, "x" * OUTCOME_BYTES_MAX):
        assert bounded(outcome) == outcome
