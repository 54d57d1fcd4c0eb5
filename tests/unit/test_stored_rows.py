"""Every kind of row, literally as it is stored: a renamed attribute loses what stands in the tables."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from tagcast.membership import Client, Member, Mode, Registration
from tagcast.model import (
    ContentFormat,
    Draft,
    Endpoint,
    Entry,
    EntryState,
    FilterType,
    LaneState,
    Message,
    Ordering,
    PastAttempt,
    Protocol,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
    Topic,
)
from tagcast.ports import Key, Table
from tagcast.queues import Audience
from tagcast.rows import keys
from tagcast.rows.claim import SIGNED_ROWS, Signed, signed_put
from tagcast.rows.codec import Codec
from tagcast.rows.due import DUES, PLACES, PendingDelivery, position
from tagcast.rows.host import HOSTS, Host, host_put
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.member import MEMBERS, REGISTRATIONS, member_gone
from tagcast.rows.message import FILTER_ERROR_NAMES_MAX, MESSAGES, MessageRow
from tagcast.rows.message_transitions import (
    ENDS,
    LATE,
    ROUNDS,
    End,
    Late,
    Origin,
    RoundRow,
    completion,
    end_writes,
    enqueued_put,
    late_writes,
    round_writes,
)
from tagcast.rows.state_map import FIRST_ATTEMPT_OUTCOME, AddedLater, Round, StateMap
from tagcast.rows.subscription import SUBSCRIPTIONS
from tagcast.rows.tail import TAIL_ROWS, WATCHES, Counts, EventKind, TailBatch, TailEvent, TopicWatch, batch_put
from tagcast.rows.topic import TOPICS
from tagcast.tables import ABSENT, Delete, Put, Update, Value
from tagcast.topic_settings import TopicSettings
from tagcast.trace_context import TraceContext

TOPIC = Topic("t", "07457000000000000001", TopicSettings(3_600, ordering=Ordering.KEY), 1_000, 2_000, 7, 2, 3)
SUBSCRIPTION = Subscription(
    topic="t",
    name="A",
    topic_id="07457000000000000001",
    ordinal=2,
    settings=SubscriptionSettings(
        endpoint=Endpoint(Protocol.HTTPS, "https://a.test/"),
        filter={"kind": "tags", "all": ["x"]},
        retry=RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 176, 9, 64),
        timeout_s=15,
        content_format=ContentFormat.CLOUDEVENTS,
        secret="whsec_x",
    ),
    version=4,
    created_at=1_000,
    updated_at=2_000,
)
DRAFT = Draft(b"\x00body", False, ("x", "y"), "a.b", {"price": "5"}, "k", "text/plain")
MESSAGE = Message("t", "07457000000000000042", DRAFT, 10_000, 70_500, "07457000000000000007")
MATCHED = frozenset({0, 2, 3, 4})
EVERYBODY = Audience.EVERYBODY
OPEN_ROUND: dict[Audience, Round | None] = {EVERYBODY: None}
FIRST_ROUND = MessageRow(
    MESSAGE, StateMap.of(MATCHED), 7, ("B", "C"), 12, in_order=MATCHED, rounds=OPEN_ROUND, partial={EVERYBODY: 0}
)
ENDED = {
    2: Entry(EntryState.DELIVERED, 1, 10_950, FIRST_ATTEMPT_OUTCOME),
    3: Entry(EntryState.DISCARDED, 4, 19_000, "http 500"),
    4: Entry(EntryState.EXPIRED),
}
ORIGIN: dict[str, Value] = {
    "topic": "t",
    "message_id": "07457000000000000042",
    "subscriptions_version": 7,
    "accepted_at": 10_000,
    "expires_at": 70_500,
    "ttl": 70 + 30 * 86_400,
}
GARBAGE_S = 3 * 86_400


def closed_round() -> MessageRow:
    update, *_ = round_writes(FIRST_ROUND, 10_900, [EVERYBODY], ENDED, frozenset())
    assert isinstance(update, Update)
    return MESSAGES.value_of({**MESSAGES.row_of(FIRST_ROUND), **update.changes})


def without(row: Mapping[str, Value], *names: str) -> dict[str, Value]:
    return {name: value for name, value in row.items() if name not in names}


def stored(key: Key, row: object) -> dict[str, Value]:
    return {"pk": key.pk, "sk": key.sk, **row}  # type: ignore[dict-item]


TOPIC_ROW: dict[str, Value] = {
    "topic": "t",
    "topic_id": "07457000000000000001",
    "retention_s": 3_600,
    "body_bytes_max": 65_536,
    "ordering": "key",
    "keep": "pending",
    "created_at": 1_000,
    "updated_at": 2_000,
    "subscriptions_version": 7,
    "subscription_count": 2,
    "next_ordinal": 3,
    "unindexed_characters": 0,
    "filling_quota_until": 0,
}
SUBSCRIPTION_ROW: dict[str, Value] = {
    "topic": "t",
    "name": "A",
    "topic_id": "07457000000000000001",
    "ordinal": 2,
    "protocol": "https",
    "target": "https://a.test/",
    "filter": '{"all": ["x"], "kind": "tags"}',
    "strategy": "EXPONENTIAL_DECAY_RETRY",
    "max_retries": 176,
    "interval_s": 9,
    "interval_s_max": 64,
    "timeout_s": 15,
    "content_format": "cloudevents",
    "signature": "v1",
    "secret": "whsec_x",
    "version": 4,
    "created_at": 1_000,
    "updated_at": 2_000,
}
BARE = replace(
    SUBSCRIPTION,
    settings=replace(SUBSCRIPTION.settings, filter=None, secret=None, retry=RetryPolicy(Strategy.BACKOFF_RETRY, 3)),
)
MESSAGE_ROW: dict[str, Value] = {
    "topic": "t",
    "message_id": "07457000000000000042",
    "body": b"\x00body",
    "is_text": 0,
    "tags": ["x", "y"],
    "routing_key": "a.b",
    "properties": {"price": "5"},
    "ordering_key": "k",
    "content_type": "text/plain",
    "accepted_at": 10_000,
    "expires_at": 70_500,
    "replay_of": "07457000000000000007",
    "subscriptions_version": 7,
    "filter_errors": ["B", "C"],
    "filter_error_count": 12,
    "matched": b"\x01\x1d",
    "late": 0,
    "round": "open",
    "partial": 0,
    "pending": 1,
}
PLAIN = MessageRow(
    Message("t", "1", Draft(b"x"), 10_000, 70_500), StateMap.of([1]), 7, rounds=OPEN_ROUND, partial={EVERYBODY: 0}
)
CLOSED: dict[str, Value] = {
    "round": "done",
    "round_at": 10_900,
    "delivered": b"\x00\x02",
    "offsets": b"\x00\x32",
    "ended": b"\x01\x18",
    "ends": zlib.compress(b'[[1,2],[4,0],[9000,null],[0,null],["http 500"]]'),
}
ROUND = RoundRow(Origin.of(FIRST_ROUND), 2, EVERYBODY, Round.of(10_900, ENDED, frozenset({0})), 0)
LANE = Lane("t", "07457000000000000001.2", LaneState.LOST_CONTACT, "g", 3, 5, 1_000, 2_000, 9)
ASLEEP = replace(LANE, next_attempt_at=None, wake_at=None, ttl=None)
LANE_ROW: dict[str, Value] = {"topic": "t", "state": "lost_contact", "generation": "g", "appended": 3, "claim": 5}
DUE = PendingDelivery(
    "07457000000000000001.2", "00000000000000000049", "m", 2, 1_800_000_070_500, 60_000, "http 500", True
)
FRESH = replace(DUE, attempts=0, last_attempt_at=None, last_outcome=None, unjudged=False)
LIFE: dict[str, Value] = {"expires_at": 1_800_000_070_500, "ttl": 1_800_000_070 + GARBAGE_S}
MEMBER = Member(Client("10.0.0.1@7", "1.4"), "0123456789abcdef", 1_000, 2_000, 86_400)
MEMBER_ROW: dict[str, Value] = {
    "member_version": "1.4", "digest": "0123456789abcdef", "joined_at": 1_000, "seen_at": 2_000, "silence_s": 86_400,
    "ttl": 2 + 2 * 86_400,
}  # fmt: skip
STORED: dict[str, tuple[Any, Any, Mapping[str, Value], Key | None]] = {
    "a topic": (TOPICS, TOPIC, TOPIC_ROW, None),
    "a topic of CMQ, which says what its filters read": (
        TOPICS, replace(TOPIC, filter_type=FilterType.ROUTING_KEY), {**TOPIC_ROW, "filter_type": "routing_key"}, None,
    ),
    "a subscription": (SUBSCRIPTIONS, SUBSCRIPTION, SUBSCRIPTION_ROW, None),
    "a subscription that leaves things open": (
        SUBSCRIPTIONS, BARE,
        {**without(SUBSCRIPTION_ROW, "filter", "secret", "interval_s"), "max_retries": 3, "interval_s_max": 512,
         "strategy": "BACKOFF_RETRY"},
        None,
    ),
    "an accepted message": (MESSAGES, FIRST_ROUND, MESSAGE_ROW, None),
    "a message with nothing but a body": (
        MESSAGES, PLAIN,
        {"topic": "t", "message_id": "1", "body": b"x", "is_text": 1, "accepted_at": 10_000, "expires_at": 70_500,
         "subscriptions_version": 7, "matched": b"\x00\x01", "unordered": 1, "late": 0, "round": "open", "partial": 0,
         "pending": 1},
        None,
    ),
    "a round of a wide message": (
        ROUNDS, ROUND, {**ORIGIN, **CLOSED, "partial": 0, "enqueued": b"\x00\x00"},
        keys.round_key("t", "m", 2, "everybody"),
    ),
    "a lane": (
        LANES, LANE, {**LANE_ROW, "next_attempt_at": 1_000, "wake_at": 2_000, "wake_shard": "3", "ttl": 9}, LANE.key,
    ),
    "a lane that nobody has to wake, in no index": (LANES, ASLEEP, LANE_ROW, LANE.key),
    "a pending delivery": (
        DUES, DUE,
        {**LIFE, "attempts": 2, "last_attempt_at": 60_000, "last_outcome": "http 500", "unjudged": 1}, DUE.key,
    ),
    "a delivery that was never tried": (DUES, FRESH, {**LIFE, "attempts": 0}, DUE.key),
    "a member of a group": (MEMBERS, MEMBER, MEMBER_ROW, keys.member_key("t", "workers", "10.0.0.1@7")),
    "what heartbeats made": (
        REGISTRATIONS, Registration("t", "fans", "fans-1", Mode.BROADCASTING, Client("c", "1.4"), 3, 600, 1_000),
        {"topic": "t", "name": "fans", "subscription": "fans-1", "mode": "broadcasting", "member_id": "c",
         "member_version": "1.4", "version": 3, "silence_s": 600, "renewed_at": 1_000},
        None,
    ),
    "that somebody watches": (
        WATCHES, TopicWatch("t", "07457000000000000001", 1_000, 61_000),
        {"topic_id": "07457000000000000001", "since": 1_000, "until": 61_000, "ttl": 661}, keys.watch_key("t"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_a_row_is_stored_as_it_always_was_and_read_back(name: str) -> None:
    kind, value, row, key = STORED[name]

    assert kind.row_of(value) == row
    assert kind.value_of(row if key is None else stored(key, row)) == value


def test_a_member_that_left_is_stored_as_gone() -> None:
    gone = {**MEMBER_ROW, **member_gone("t", "workers", MEMBER).changes}
    assert MEMBERS.value_of(stored(keys.member_key("t", "workers", "10.0.0.1@7"), gone)) == replace(
        MEMBER, is_gone=True
    )


def test_a_signed_request_is_stored_under_what_it_is_known_by() -> None:
    signed = Signed("07457000000000000042", 1_800_000_600)
    put = signed_put(signed, "AKID1", "OszPbk2WxCbGJl82Q2bl2WY+7fg=")

    named = ("SIGNED#AKID1#OszPbk2WxCbGJl82Q2bl2WY+7fg=", "SIGNED")
    assert (put.key.pk, put.key.sk, put.expect) == (*named, {"pk": ABSENT})
    assert put.row == {"taken_by": "07457000000000000042", "ttl": 1_800_000_600}
    assert SIGNED_ROWS.value_of(put.row).taken_by == "07457000000000000042"


def test_a_trace_is_stored_with_its_message_and_only_if_its_producer_named_it() -> None:
    for trace in (TraceContext("00-a-b-01"), TraceContext("00-a-b-01", "v=a b,w=c")):
        traced = replace(FIRST_ROUND, message=replace(MESSAGE, draft=replace(DRAFT, trace=trace)))
        row = MESSAGES.row_of(traced)
        assert row == {**MESSAGES.row_of(FIRST_ROUND), "trace": f"00-a-b-01 {trace.state}".strip()}
        assert MESSAGES.value_of(row).message.draft.trace == trace


def test_a_message_that_matches_nobody_is_stored_without_a_body_and_read_back() -> None:
    nobody = replace(FIRST_ROUND, map=StateMap.of([]), in_order=frozenset(), has_body=False, is_pending=False)

    row = MESSAGES.row_of(nobody)

    assert not {"body", "deflated"} & row.keys()
    assert (row["pending"], row["round"]) == (0, "done")
    closed = {EVERYBODY: Round(MESSAGE.accepted_at)}
    without_body = replace(MESSAGE, draft=replace(DRAFT, body=b""))
    assert MESSAGES.value_of(row) == replace(nobody, message=without_body, rounds=closed)


def test_a_closed_round_is_stored_in_its_message_and_read_back() -> None:
    update, listed = round_writes(FIRST_ROUND, 10_900, [EVERYBODY], ENDED, frozenset())
    assert isinstance(update, Update)
    assert (update.changes, update.remove) == (CLOSED, ())
    assert update.expect == {"round": "open", "partial": 0}
    assert listed.key == keys.retained_key("t", MESSAGE.message_id)
    assert dict(closed_round().map.ended) == ENDED
    assert closed_round().map.pending == {0}


def test_of_two_halves_the_one_apart_stands_under_its_own_names_and_names_the_state_of_the_other() -> None:
    split = replace(FIRST_ROUND, is_split=True, in_order=frozenset({0, 2}))
    read = MESSAGES.value_of(MESSAGES.row_of(split))

    update, *_ = round_writes(read, 10_900, [Audience.APART], {3: ENDED[3], 4: ENDED[4]}, frozenset())

    assert isinstance(update, Update)
    assert update.changes.keys() == {"apart_round", "apart_round_at", "apart_ended", "apart_ends"}
    assert update.expect == {"round": "open", "apart_round": "open", "partial": 0}


def test_an_end_is_stored_in_a_row_of_its_own_and_read_back() -> None:
    history = (PastAttempt(1, 60_000, 41, "http 500", 500, "no"),)
    entry = Entry(EntryState.DISCARDED, 4, 19_000, "http 500", history=history)
    [put] = end_writes(closed_round(), {0: entry})
    assert isinstance(put, Put)
    assert (put.key, put.expect) == (
        Key(Table.MESSAGES, f"MSG#t#{MESSAGE.message_id}", "END#0000000000"),
        {"pk": ABSENT},
    )

    row = dict(put.row)
    assert json.loads(zlib.decompress(cast("bytes", row.pop("history")))) == [[1, 60_000, 41, "http 500", 500, "no"]]
    assert row == {
        **ORIGIN,
        "ordinal": 0,
        "state": "discarded",
        "attempts": 4,
        "last_attempt_at": 19_000,
        "last_outcome": "http 500",
    }
    assert ENDS.value_of(stored(put.key, put.row)) == End(Origin.of(FIRST_ROUND), 0, entry)


def test_a_round_after_which_nothing_is_pending_keeps_attempts_and_takes_its_message_from_the_list() -> None:
    entry = Entry(EntryState.DISCARDED, 4, 19_000, "http 500", history=(PastAttempt(1, 60_000, 41, "http 500"),))
    late = replace(FIRST_ROUND, late=1)

    over, end, unlisted = round_writes(late, 10_900, [EVERYBODY], {**ENDED, 0: entry}, frozenset())

    assert isinstance(over, Update)
    assert over.changes.items() >= {"pending": 0, "ttl": 70 + GARBAGE_S}.items()
    assert (over.remove, over.expect) == (("body", "deflated"), {"round": "open", "partial": 0, "late": 1})
    assert (end,) == end_writes(closed_round(), {0: entry})
    assert unlisted == Delete(keys.retained_key("t", MESSAGE.message_id))


def test_an_end_before_its_round_was_closed_is_counted() -> None:
    _, counted = end_writes(FIRST_ROUND, {0: Entry(EntryState.EXPIRED)})

    assert counted == Update(
        keys.message_key("t", MESSAGE.message_id), {"partial": 1}, expect={"round": "open", "partial": 0}
    )


def test_the_round_of_a_section_replaces_the_row_that_counts_its_earlier_ends_unless_one_more_came() -> None:
    counting = [replace(FIRST_ROUND, section=2, partial={EVERYBODY: known}) for known in range(3)]
    [_, first], [_, second] = (end_writes(row, {0: Entry(EntryState.EXPIRED)}) for row in counting[:2])
    closed, *_ = round_writes(counting[2], 10_900, [EVERYBODY], ENDED, frozenset({0}))

    key, origin = keys.round_key("t", MESSAGE.message_id, 2, "everybody"), ORIGIN
    assert first == Put(key, {**origin, "partial": 1, "round": "open"}, {"pk": ABSENT})
    assert second == Update(key, {**origin, "partial": 2, "round": "open"}, expect={"partial": 1, "round": "open"})
    assert closed == Update(
        key, {**origin, **CLOSED, "partial": 2, "enqueued": b"\x00\x00"}, expect={"partial": 2, "round": "open"}
    )


def test_what_left_its_backlog_for_a_queue_is_stored_under_its_message() -> None:
    put = enqueued_put(FIRST_ROUND, 3)

    assert put.key == keys.enqueued_key("t", MESSAGE.message_id, 3)
    assert (put.row, put.expect) == ({"ordinal": 3, "ttl": 70 + 30 * 86_400}, {"pk": ABSENT})


def test_a_late_entry_is_stored_in_a_row_of_its_own_and_read_back() -> None:
    late, counted, _ = late_writes(FIRST_ROUND, 9, AddedLater(50_000, 3))

    assert isinstance(late, Put)
    assert late.row == {**ORIGIN, "ordinal": 9, "added_at": 50_000, "filter_version": 3}
    assert LATE.value_of(late.row) == Late(Origin.of(FIRST_ROUND), 9, AddedLater(50_000, 3))
    assert counted == Update(
        keys.message_key("t", MESSAGE.message_id), {"late": 1, "pending": 1}, ("ttl",), {"pending": 1, "late": 0}
    )


def test_a_message_of_which_nothing_is_owed_loses_its_body_unless_an_entry_was_added() -> None:
    update, listed = completion(closed_round(), [None])

    assert isinstance(update, Update)
    assert update.remove == ("body", "deflated")
    assert update.changes == {"pending": 0, "round": "done", "ttl": 70 + GARBAGE_S}
    assert update.expect == {"pending": 1, "late": 0}
    assert listed.key == keys.retained_key("t", MESSAGE.message_id)


def test_the_time_to_live_takes_nothing_that_is_owed() -> None:
    """A row gets one with its last end, and loses it when an entry is added: no delay of a repair loses a delivery."""
    assert "ttl" not in MESSAGES.row_of(FIRST_ROUND)
    assert "ttl" not in MESSAGES.row_of(closed_round())

    _, back, _ = late_writes(replace(closed_round(), is_pending=False, is_kept=True), 9, AddedLater(50_000, 3))
    assert isinstance(back, Update)
    assert "ttl" in back.remove


def test_of_many_failing_filters_a_hundred_names_are_stored_and_all_are_counted() -> None:
    names = tuple(f"S{number}" for number in range(FILTER_ERROR_NAMES_MAX + 1))
    row = MESSAGES.row_of(replace(FIRST_ROUND, filter_errors=names, filter_error_count=len(names)))

    assert row["filter_errors"] == [f"S{number}" for number in range(100)]
    assert row["filter_error_count"] == 101


def test_a_delivery_remembers_its_attempts_as_it_always_did() -> None:
    tried = replace(
        DUE, history=(PastAttempt(2, 60_000, 41, "http 500", 500, "no"), PastAttempt(3, 61_000, 0, "timeout"))
    )
    row = DUES.row_of(tried)

    assert json.loads(zlib.decompress(cast("bytes", row["history"]))) == [
        [2, 60_000, 41, "http 500", 500, "no"],
        [3, 61_000, 0, "timeout", None, ""],
    ]
    assert DUES.value_of(stored(DUE.key, row)) == tried


def test_positions_sort_by_batch_and_place_within_twenty_digits() -> None:
    assert position(3, 1) == "00000000000000000049"
    assert position(0, 0) == "0" * 20
    assert position(0, PLACES - 1) < position(1, 0)
    with pytest.raises(AssertionError):
        position(1, -1)


KEYS = [
    (keys.topic_key, ("t",), Key(Table.REGISTRY, "TOPIC#t", "TOPIC")),
    (keys.directory_key, ("t",), Key(Table.REGISTRY, "TOPICS", "t")),
    (keys.counters_key, ("t",), Key(Table.REGISTRY, "TOPIC#t", "GRAVE")),
    (keys.subscription_key, ("t", "A"), Key(Table.REGISTRY, "TOPIC#t", "SUB#A")),
    (keys.name_key, ("t", 7), Key(Table.REGISTRY, "TOPIC#t", "NAME#0000000007")),
    (keys.version_key, ("t", 7, 12), Key(Table.REGISTRY, "TOPIC#t", "VERSION#0000000007#9999999987")),
    (keys.shadow_key, ("t", "A"), Key(Table.REGISTRY, "TOPIC#t", "SHADOW#A")),
    (keys.secrets_key, ("t", "A"), Key(Table.REGISTRY, "SECRETS#t", "A")),
    (keys.exchange_key, (1_000, "t", "A"), Key(Table.REGISTRY, "EXCHANGED", "000000000001000#t#A")),
    (keys.shadow_count_key, ("p", 3), Key(Table.MESSAGES, "p", "COUNTS#3")),
    (keys.shadow_sample_key, ("p", "lost", 7), Key(Table.MESSAGES, "p", "SAMPLE#lost#07")),
    (keys.message_key, ("t", "m"), Key(Table.MESSAGES, "MSG#t#m", "MSG")),
    (keys.round_key, ("t", "m", 3, "apart"), Key(Table.MESSAGES, "MSG#t#m", "ROUND#00003#apart")),
    (keys.end_key, ("t", "m", 7), Key(Table.MESSAGES, "MSG#t#m", "END#0000000007")),
    (keys.enqueued_key, ("t", "m", 7), Key(Table.MESSAGES, "MSG#t#m", "ENQUEUED#0000000007")),
    (keys.late_key, ("t", "m", 7), Key(Table.MESSAGES, "MSG#t#m", "LATE#0000000007")),
    (keys.lane_key, ("t", "t.2"), Key(Table.MESSAGES, "LANES#t", "t.2")),
    (keys.due_key, ("t.2", "0049", "m"), Key(Table.MESSAGES, "DUE#t.2", "0049#m")),
    (keys.rate_key, ("t.2",), Key(Table.MESSAGES, "RATE#t.2", "RATE")),
    (keys.pulled_key, ("t", "m", 7), Key(Table.MESSAGES, "PULLED#t#m", "0000000007")),
    (keys.member_key, ("t", "g", "c"), Key(Table.MESSAGES, "MEMBERS#t#g", "c")),
    (keys.registration_key, ("t", "g", "g-1"), Key(Table.MESSAGES, "GROUPS", "t#g#g-1")),
    (keys.sweep_key, (), Key(Table.MESSAGES, "SWEEP", "SWEEP")),
    (keys.signed_key, ("AKID", "s="), Key(Table.MESSAGES, "SIGNED#AKID#s=", "SIGNED")),
    (keys.watch_key, ("t",), Key(Table.MESSAGES, "WATCHED", "t")),
    (keys.waiting_key, ("t",), Key(Table.MESSAGES, "WAITING#t", "WAITING")),
    (keys.claim_key, ("t", "k#0"), Key(Table.MESSAGES, "IDEM#t#k#0", "IDEM")),
    (keys.host_key, ("https://a.test",), Key(Table.MESSAGES, "HOSTS", "93fb074e7b13b63568afcc41e2ed3c4b")),
    (keys.retained_key, ("t", "m"), Key(Table.MESSAGES, "RETAINED#t", "m")),
    (keys.retained_key, ("t", "m", 3), Key(Table.MESSAGES, "RETAINED#t", "m#00003")),
    (keys.unsent_key, ("t", "m"), Key(Table.MESSAGES, "UNSENT#0", "m#t")),
    (keys.unsent_key, ("t", "m", "apart"), Key(Table.MESSAGES, "UNSENT#0", "m#t#apart")),
    (keys.tail_key, ("7", "0" * 19 + "1"), Key(Table.MESSAGES, "TAIL#7", "9" * 19 + "8")),
]


@pytest.mark.parametrize(("make", "given", "expected"), KEYS)
def test_rows_have_the_keys_they_always_had(make: Callable[..., Key], given: tuple[Any, ...], expected: Key) -> None:
    assert make(*given) == expected


def test_every_kind_of_key_is_among_them() -> None:
    made = {each for name, each in vars(keys).items() if name.endswith("_key")} - {keys.topic_in_key}
    assert {make for make, *_ in KEYS} == made


def test_a_host_that_gave_no_answer_is_stored_as_it_always_was_and_read_back() -> None:
    host = Host("https://dead.test", 7, {"t.1": 2_000, "t.2": 3_000}, 3_603_000, 1_000, 1_500, 13_000, 14_000)
    put = host_put(replace(host, version=6), host)

    assert (put.key.pk, len(put.key.sk), put.expect) == ("HOSTS", 32, {"version": 6})
    assert put.row == {
        "host": "https://dead.test",
        "version": 7,
        "failures": {"t.1": "2000", "t.2": "3000"},
        "opened_at": 1_000,
        "closed_at": 1_500,
        "probe_at": 13_000,
        "first_probe_at": 14_000,
        "ttl": 3_603,
    }
    assert HOSTS.value_of(put.row) == host
    assert host_put(None, host).expect == {"version": ABSENT}


def test_what_watchers_are_told_is_stored_as_it_always_was_and_read_back() -> None:
    events = (
        TailEvent(1_000, EventKind.MESSAGE, "accepted", "07457000000000000042"),
        TailEvent(2_000, EventKind.DELIVERY, "blocked", "07457000000000000042", 3, 1, "http 500"),
        TailEvent(2_000, EventKind.LANE, "blocked", None, 3),
    )
    batch = TailBatch(f"{5_000 << 22 | 7:020d}", events, 4, Counts(5, 6, 7))
    put = batch_put("07457000000000000001", batch)

    key = Key(Table.MESSAGES, "TAIL#07457000000000000001", f"{10**20 - 1 - (5_000 << 22 | 7):020d}")
    assert (put.key, put.expect) == (key, {})
    kept = json.loads(zlib.decompress(cast("bytes", put.row["events"])))
    assert kept == [
        [1_000, "message", "accepted", "07457000000000000042", None, None, None],
        [2_000, "delivery", "blocked", "07457000000000000042", 3, 1, "http 500"],
        [2_000, "lane", "blocked", None, 3, None, None],
    ]
    counts = {"left_out": 4, "published": 5, "delivered": 6, "failed": 7, "ttl": 605}
    assert put.row == {"events": put.row["events"], **counts}
    assert TAIL_ROWS.value_of(stored(key, put.row)) == batch


def test_a_setting_whose_default_is_neither_none_nor_false_cannot_be_left_out_of_a_row() -> None:
    @dataclass
    class On:
        on: bool = True

    with pytest.raises(TypeError, match="on: a missing attribute means None or False"):
        Codec(On).attributes(On())
