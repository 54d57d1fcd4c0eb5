"""Records of the tables' streams: what asks for a repair, and what the archive is told."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from tagcast.archive.record import RowChange
from tagcast.model import Draft, Entry, EntryState, LaneState, Message
from tagcast.ports import Row
from tagcast.queues import Audience
from tagcast.repairing.relay import Arrival, EndedDelivery
from tagcast.rows.keys import message_key
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.message import MESSAGES, MessageRow
from tagcast.rows.message_transitions import ENDS, ROUNDS, End, Origin, RoundRow
from tagcast.rows.state_map import Round, StateMap
from tagcast_aws.store.attributes import to_attribute
from tagcast_aws.store.stream import arrival_of, change_of

from functions.relay.app import handle
from tests.fakes.world import FakeWorld

ACCEPTED = Message("t", "m", Draft(b"\x00\xff"), 10_000, 70_500)
EVERYBODY = Audience.EVERYBODY
MESSAGE = MessageRow(
    ACCEPTED, StateMap.of([1]), 7, in_order=frozenset({1}), rounds={EVERYBODY: None}, partial={EVERYBODY: 0}
)
ORIGIN = Origin.of(MESSAGE)
LANE = Lane("t", "t.1", LaneState.BLOCKED, "g1", 1, 0, 1_000, 1_000)
MESSAGE_ROW: Row = {"pk": "MSG#t#m", "sk": "MSG", **MESSAGES.row_of(MESSAGE)}
LANE_ROW: Row = {"pk": "LANES#t", "sk": "t.1", **LANES.row_of(LANE)}
CLAIMED_ROW: Row = {**LANE_ROW, "claim": 1, "is_claimed": 1}
NEXT_ROW: Row = {**CLAIMED_ROW, "generation": "g2"}
NEXT = LANES.value_of(NEXT_ROW)
ENDED = EndedDelivery("t", "m")
END_ROW: Row = {"pk": "MSG#t#m", "sk": "END#1", **ENDS.row_of(End(ORIGIN, 1, Entry(EntryState.EXPIRED)))}
CLOSED = RoundRow(ORIGIN, 0, EVERYBODY, Round(11_000, {1: 30}), 0)
ROUND_ROW: Row = {"pk": "MSG#t#m", "sk": "ROUND#0#everybody", **ROUNDS.row_of(CLOSED)}


def image(row: Row, *, in_lambda: bool = True) -> dict[str, Any]:
    typed = {name: to_attribute(value) for name, value in row.items()}
    if not in_lambda:
        return typed
    encode = base64.b64encode
    return {name: {"B": encode(value["B"]).decode()} if "B" in value else value for name, value in typed.items()}


def record(name: str, new: Row | None, old: Row | None = None, **more: Any) -> dict[str, Any]:
    change: dict[str, Any] = {"SequenceNumber": "111", "ApproximateCreationDateTime": 1_700_000_000.25}
    change |= {} if new is None else {"NewImage": image(new)}
    change |= {} if old is None else {"OldImage": image(old)}
    return {"eventName": name, "dynamodb": change, **more}


@pytest.mark.parametrize(
    ("name", "new", "old", "arrival"),
    [
        pytest.param("INSERT", MESSAGE_ROW, None, MESSAGE, id="a message"),
        pytest.param("MODIFY", MESSAGE_ROW, MESSAGE_ROW, None, id="a message that changed"),
        pytest.param("REMOVE", None, MESSAGE_ROW, None, id="a message that went"),
        pytest.param("INSERT", LANE_ROW, None, LANE, id="a lane"),
        pytest.param("MODIFY", LANE_ROW, {**LANE_ROW, "generation": "g0"}, LANE, id="a lane under a new generation"),
        pytest.param("MODIFY", LANE_ROW, LANE_ROW, None, id="a lane under the same generation"),
        pytest.param("MODIFY", LANE_ROW, {**LANE_ROW, "claim": 3}, None, id="a lane that was claimed"),
        pytest.param("INSERT", CLAIMED_ROW, None, None, id="a lane that a first round created under a claim"),
        pytest.param("MODIFY", NEXT_ROW, CLAIMED_ROW, NEXT, id="such a lane under its next generation"),
        pytest.param("INSERT", END_ROW, None, ENDED, id="an end"),
        pytest.param("MODIFY", END_ROW, END_ROW, ENDED, id="an end that changed"),
        pytest.param("REMOVE", None, END_ROW, None, id="an end that went"),
        pytest.param("INSERT", ROUND_ROW, None, ENDED, id="a round of a section"),
        pytest.param("MODIFY", ROUND_ROW, ROUND_ROW, ENDED, id="a round of a section that changed"),
        pytest.param("REMOVE", None, ROUND_ROW, None, id="a round of a section that went"),
        pytest.param("INSERT", {"pk": "DUE#t.1", "sk": "0#m", "generation": "g1"}, None, None, id="any other row"),
    ],
)
def test_what_asks_for_a_repair(name: str, new: Row | None, old: Row | None, arrival: Arrival | None) -> None:
    assert arrival_of(record(name, new, old)) == arrival


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_message_that_the_relay_cannot_read_holds_up_no_other(*, is_stored: bool) -> None:
    """It is unreadable in the stream itself, or in the table when the end of a delivery asks for it."""
    fake = FakeWorld()
    fake.topic()
    fake.subscribe("A")
    [odd], [sent] = fake.publish_unqueued("odd"), fake.publish_unqueued("sent")
    del fake.store.rows[message_key("test1", odd)]["matched"]
    rows = [fake.store.rows[message_key("test1", each)] for each in (odd, sent)]
    end = ENDS.row_of(End(replace(ORIGIN, topic="test1", message_id=odd), 1, Entry(EntryState.EXPIRED)))
    asks: Row = {"pk": rows[0]["pk"], "sk": "END#1", **end} if is_stored else rows[0]

    answer = handle({"Records": [record("INSERT", asks), record("INSERT", rows[1])]}, fake.world)

    assert answer == {"batchItemFailures": []}
    assert [entry.message_id for entry in fake.queue.entries] == [sent]
    assert fake.telemetry.counts["failed"] == 1


def test_the_archive_is_told_both_images_and_when_to_the_millisecond() -> None:
    change = change_of(record("MODIFY", MESSAGE_ROW, LANE_ROW))

    assert change == RowChange(LANE_ROW, MESSAGE_ROW, 1_700_000_000_250, removed_by_ttl=False)


def test_a_row_that_came_or_went_has_one_image() -> None:
    assert change_of(record("INSERT", LANE_ROW)).before is None
    assert change_of(record("REMOVE", None, LANE_ROW)).after is None


@pytest.mark.parametrize(
    ("identity", "by_ttl"),
    [
        ({"type": "Service", "principalId": "dynamodb.amazonaws.com"}, True),
        ({"type": "Service", "principalId": "replicator.amazonaws.com"}, False),
        ({}, False),
    ],
)
def test_the_archive_is_told_what_the_time_to_live_removed(identity: dict[str, str], by_ttl: bool) -> None:
    assert change_of(record("REMOVE", None, LANE_ROW, userIdentity=identity)).removed_by_ttl is by_ttl


def test_bytes_are_read_in_both_forms_in_which_streams_have_them() -> None:
    raw = {"eventName": "INSERT", "dynamodb": {"SequenceNumber": 111, "NewImage": image(MESSAGE_ROW, in_lambda=False)}}

    assert arrival_of(raw) == MESSAGE
