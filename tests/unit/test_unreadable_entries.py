"""What fan-out cannot read of its queue, or what names nothing there is, holds up nothing that comes with it."""

import asyncio
import json
from typing import Any

import pytest
from tagcast.queues import PACK_MAX, entry_in
from tagcast_aws import wiring

from functions.fan_out.app import handle
from tests.fakes.log import Log
from tests.fakes.queue_records import batch_of
from tests.fakes.world import FakeWorld

UNREADABLE = {
    "nothing": "",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "a list": "[]",
    "a string": '"1"',
    "an event of S3": '{"Records": []}',
    "no topic": '{"message_id": "1"}',
    "no message": '{"topic": "test1"}',
    "a topic that is a number": '{"topic": 1, "message_id": "1"}',
    "a topic that no table takes": json.dumps({"topic": "t" * 3_000, "message_id": "1"}),
    "a message that is a number": '{"topic": "test1", "message_id": 1}',
    "a message that no table takes": json.dumps({"topic": "test1", "message_id": "1" * 3_000}),
    "a message of half a character": r'{"topic": "test1", "message_id": "\ud800"}',
    "an empty message": '{"topic": "test1", "message_id": ""}',
    "an empty pack": '{"topic": "test1", "message_ids": [], "audience": "apart"}',
    "no list": '{"topic": "test1", "message_ids": "12", "audience": "apart"}',
    "a pack with a number": '{"topic": "test1", "message_ids": ["1", 2], "audience": "apart"}',
    "a pack that is too long": json.dumps(
        {"topic": "test1", "message_ids": [str(each) for each in range(PACK_MAX + 1)], "audience": "apart"}
    ),
    "no audience": '{"topic": "test1", "message_ids": ["1"]}',
    "another audience": '{"topic": "test1", "message_ids": ["1"], "audience": "nobody"}',
    "an audience that is a list": '{"topic": "test1", "message_ids": ["1"], "audience": []}',
    "a section that is a word": '{"topic": "test1", "message_ids": ["1"], "audience": "apart", "section": "1"}',
    "a section before the first": '{"topic": "test1", "message_ids": ["1"], "audience": "apart", "section": -1}',
    "a section that is true": '{"topic": "test1", "message_ids": ["1"], "audience": "apart", "section": true}',
    "a section behind all": '{"topic": "test1", "message_ids": ["1"], "audience": "apart", "section": 100000}',
}
NAMES_NOTHING = {
    "another topic": {"topic": "elsewhere", "message_id": "1"},
    "another message": {"topic": "test1", "message_id": "99999999999999999999"},
    "a section of no map": {"topic": "test1", "message_ids": ["MINE"], "audience": "everybody", "section": 99_999},
    "a pack of the same": {"topic": "test1", "message_ids": ["MINE"] * PACK_MAX, "audience": "in_order"},
}


def served(fake: FakeWorld, text: str) -> list[dict[str, str]]:
    """Serve a batch with two good records around one with this *text*; return what has to come again."""
    first, second = batch_of(fake.queue.entries)["Records"]
    odd = {"messageId": "odd", "receiptHandle": "odd", "body": text, "attributes": first["attributes"]}
    answer: dict[str, Any] = asyncio.run(handle({"Records": [first, odd, second]}, fake.world))
    return list(answer["batchItemFailures"])


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("A")
    return fake


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=list(UNREADABLE))
def test_an_unreadable_entry_is_told_and_left_out_and_the_rest_is_served(text: str, fake: FakeWorld) -> None:
    fake.publish("1")
    fake.publish("2")

    assert entry_in(text, "its order") is None
    assert served(fake, text) == []
    assert fake.pusher.received["A"] == ["1", "2"]
    assert fake.telemetry.counts["UnreadableEntries"] == 1


def test_the_log_shows_how_an_unreadable_entry_begins(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(wiring, "logger", lambda: log.logger)
    fake.publish("1")
    fake.publish("2")
    newer = json.dumps({"topic": "test1", "message": {"id": "07532851253441891738"}, "rest": "x" * 1_000})
    served(fake, newer)

    [line] = [each for each in log.lines() if each["message"] == "unreadable entry of the queue"]
    assert (line["record"], line["entry"]) == ("odd", newer[:200])


@pytest.mark.parametrize("said", NAMES_NOTHING.values(), ids=list(NAMES_NOTHING))
def test_an_entry_that_names_nothing_there_is_holds_up_nothing(said: dict[str, object], fake: FakeWorld) -> None:
    [mine] = fake.publish("1")
    fake.publish("2")

    assert served(fake, json.dumps(said).replace("MINE", mine)) == []
    assert set(fake.pusher.received["A"]) == {"1", "2"}
