"""What the event bus is told, and that it costs nobody a heartbeat when it is away."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError
from tagcast.membership import Client, MemberChange, MembershipChange
from tagcast_aws.dispatch.event_bus import EventBridgeBus

from tests.fakes.log import Log
from tests.integration.scripted import ScriptedClient, refusal

WORKFLOW = "arn:aws:states:eu-west-1:123456789012:stateMachine:shop-redelivery"
JOINED = MembershipChange("orders", "workers", Client("10.0.0.1@7", "1.4"), MemberChange.JOINED, 2)


def told(*answers: Any) -> tuple[ScriptedClient, Log]:
    client, log = ScriptedClient(list(answers)), Log()
    EventBridgeBus(lambda: client, WORKFLOW, log.logger).announce(JOINED)
    return client, log


def test_a_change_is_one_event_of_the_default_bus() -> None:
    client, log = told({"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]})
    [(operation, request)] = client.asked
    [entry] = request["Entries"]
    assert (operation, entry["Source"], entry["DetailType"]) == ("put_events", "tagcast", "Group Membership Changed")
    assert json.loads(entry["Detail"]) == {
        "topic": "orders",
        "group": "workers",
        "member_id": "10.0.0.1@7",
        "member_version": "1.4",
        "change": "joined",
        "members": 2,
    }
    assert log.lines() == []


def test_an_event_of_a_topic_has_its_type_as_detail_type_and_its_data_as_detail() -> None:
    client, data = ScriptedClient([{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}]), {"topic": "orders"}
    EventBridgeBus(lambda: client, WORKFLOW, Log().logger).publish(
        {"type": "tagcast.lane.blocked", "id": "7", "data": data}
    )

    [(_, request)] = client.asked
    [entry] = request["Entries"]
    assert (entry["Source"], entry["DetailType"]) == ("tagcast", "tagcast.lane.blocked")
    assert entry["Resources"] == [WORKFLOW], "another stack of the account has the same bus"
    assert json.loads(entry["Detail"]) == {"topic": "orders", "id": "7"}


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (refusal("ThrottlingException"), "ClientError"),
        (ConnectTimeoutError(endpoint_url="https://events.test/"), "ConnectTimeoutError"),
        ({"FailedEntryCount": 1, "Entries": [{"ErrorCode": "InternalFailure"}]}, "InternalFailure"),
    ],
)
def test_a_bus_that_is_away_is_told_of_in_the_log_only(answer: Any, word: str) -> None:
    _, log = told(answer)
    assert [line["error"] for line in log.lines()] == [word]
