"""A message's row never outgrows what DynamoDB takes, whatever its receivers answer, and what ended stays as it is."""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.errors import TooLargeError
from tagcast.model import BODY_BYTES_MAX, Draft, Entry, EntryState, Message, Topic
from tagcast.ports import Row
from tagcast.queues import Audience
from tagcast.rows.ended_entries import OUTCOME_BYTES_MAX, bound_outcome
from tagcast.rows.keys import message_key, topic_key
from tagcast.rows.message import MESSAGES, MessageRow, bounds_of, may_outgrow, outgrows
from tagcast.rows.message_transitions import accepted_put, round_writes
from tagcast.rows.state_map import Round, StateMap
from tagcast.topic_settings import TopicSettings

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
    return MessageRow(message, StateMap.of(matched), 1, in_order=frozenset(matched))


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
    return replace(row, filter_errors=tuple(f"{number:064d}" for number in range(100)), filter_error_count=10_000)


class Written:
    """The row of a message in a table; *apart* are those of its subscriptions that keep no order."""

    def __init__(self, row: MessageRow, apart: Sequence[int] = ()) -> None:
        self.store = MemoryStore()
        split = replace(row, in_order=row.map.matched - set(apart), is_split=True) if apart else row
        self.store.write(accepted_put(split))

    @property
    def row(self) -> Row:
        row = self.store.get(KEY)
        assert row is not None
        return row

    @property
    def value(self) -> MessageRow:
        return MESSAGES.value_of(self.row)

    def close(self, audience: Audience, entries: dict[int, Entry], at: int = ACCEPTED_AT) -> None:
        self.store.transact(round_writes(self.value, at, [audience], entries, frozenset()))


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
    apart = matched[::3]
    table = Written(largest(matched), apart)
    ended: dict[int, Entry] = {}
    for audience in (Audience.APART, Audience.IN_ORDER):
        now = {
            ordinal: Entry(
                dice.choice(ENDS),
                dice.randrange(177),
                ACCEPTED_AT + dice.randrange(86_400_000),
                "".join(dice.choices(ALPHABETS[alphabet], k=300)),
            )
            for ordinal in table.value.of(audience)
        }
        table.close(audience, now)
        assert row_size(table.row) <= ITEM_BYTES_MAX
        known = table.value.map.ended
        assert ended.items() <= known.items()
        ended = dict(known)

    assert ended.keys() == set(matched)
    assert not table.value.has_body


def noisy(dice: Random, count: int) -> dict[int, Entry]:
    return {each: entry("".join(dice.choices(ALPHABETS["any letters"], k=300))) for each in range(count)}


def test_outcomes_of_a_round_make_no_row_larger_than_300_000_bytes() -> None:
    dice = Random(7)
    for count, cut_off in ((200, False), (990, True)):
        table = Written(accepted(range(1_000), dice.randbytes(240_000)))
        table.close(Audience.EVERYBODY, noisy(dice, count))
        assert 240_000 < row_size(table.row) <= 300_000
        assert any(len(each.last_outcome or "") < 100 for each in table.value.map.ended.values()) is cut_off


def test_outcomes_of_two_halves_make_no_row_larger_than_300_000_bytes() -> None:
    dice = Random(7)
    table = Written(accepted(range(1_000), dice.randbytes(150_000)), apart=range(500))
    outcomes = noisy(dice, 999)
    for audience in (Audience.APART, Audience.IN_ORDER):
        table.close(audience, {each: outcomes[each] for each in table.value.of(audience) & outcomes.keys()})

    assert row_size(table.row) <= 300_000


def test_a_thousand_first_failures_of_a_large_message_keep_their_outcomes() -> None:
    table = Written(largest(range(1_000)))
    table.close(Audience.EVERYBODY, {each: entry("tls: certificate verify failed") for each in range(1_000)})

    assert {ended.last_outcome for ended in table.value.map.ended.values()} == {"tls: certificate verify failed"}


def test_what_was_delivered_at_the_first_attempt_stands_beside_what_ended_otherwise() -> None:
    table = Written(accepted(range(6)))
    first = {ordinal: Entry(EntryState.DELIVERED, 1, ACCEPTED_AT + 100 + ordinal) for ordinal in (0, 3)}
    table.close(Audience.EVERYBODY, {**first, 1: entry("http 500")})

    closed = table.value.rounds[Audience.EVERYBODY]
    assert closed == Round(ACCEPTED_AT, {0: 100, 3: 103}, {1: entry("http 500")})
    assert table.value.map.pending == {2, 4, 5}


MANY = 100_000


def everybody(gap: int, body: bytes, *, mixed: bool) -> MessageRow:
    """The largest message but for its *body*, matched by a hundred thousand who stand so far from each other."""
    matched = range(0, MANY * gap, gap)
    row = largest(matched)
    in_order = frozenset(matched[1:] if mixed else matched)
    message = replace(row.message, draft=replace(row.message.draft, body=body))
    return replace(row, message=message, in_order=in_order, bounds=bounds_of(matched, 1_000))


def topic_of(gap: int) -> Topic:
    return Topic("t", "1", TopicSettings(60, BODY_BYTES_MAX), 1, 1, 1, MANY, MANY * gap)


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

    with pytest.raises(TooLargeError, match="is too large to store"):
        fake.publish("fits", Random(1).randbytes(400_000).hex(), topic="wide")

    assert fake.store.rows.keys() == stored


@given(st.text(st.characters(), max_size=400))
def test_an_outcome_is_bounded_by_its_bytes_in_a_row_and_keeps_its_beginning(outcome: str) -> None:
    kept = bound_outcome(outcome)

    assert kept is not None
    assert len(json.dumps(kept, ensure_ascii=False).encode()) - 2 <= OUTCOME_BYTES_MAX
    assert outcome.encode(errors="replace").decode().startswith(kept.removesuffix("…"))
