"""What is sent to the FIFO queue: each message under its order's group, deduplicated by its own id."""

from __future__ import annotations

import json

from aws_lambda_powertools import Logger
from botocore.exceptions import EndpointConnectionError
from tagcast.ports import QueueEntry
from tagcast_aws.dispatch.queue import SqsQueue

from tests.integration.scripted import ScriptedClient

SECOND_REQUEST = 10


def entry(number: int) -> QueueEntry:
    return QueueEntry("t", f"m{number}", f"g{number}")


def test_ten_messages_go_into_one_request_each_under_its_group_and_its_own_id() -> None:
    client = ScriptedClient([{}, {}])
    queue = SqsQueue(client, "https://queue.test/q.fifo", Logger(service="test"))  # type: ignore[arg-type]

    assert queue.send([entry(number) for number in range(11)]) == ()

    assert client.operations == ["send_message_batch"] * 2
    assert [request["QueueUrl"] for request in client.requests] == ["https://queue.test/q.fifo"] * 2
    first, second = (request["Entries"] for request in client.requests)
    assert len(first) == SECOND_REQUEST
    [last] = second
    assert json.loads(last.pop("MessageBody")) == {"topic": "t", "message_ids": ["m10"], "audience": "everybody"}
    assert last == {"Id": "0", "MessageGroupId": "g10", "MessageDeduplicationId": "m10-everybody"}
    assert [each["Id"] for each in first] == [str(place) for place in range(10)]


def test_what_a_request_refuses_is_returned_and_nothing_else() -> None:
    client = ScriptedClient([{"Failed": [{"Id": "1"}]}, {"Failed": []}])
    queue = SqsQueue(client, "q", Logger(service="test"))  # type: ignore[arg-type]

    assert queue.send([entry(number) for number in range(12)]) == (entry(1),)


def test_without_an_answer_the_rest_is_not_tried_and_what_was_refused_before_is_returned_too() -> None:
    client = ScriptedClient([{"Failed": [{"Id": "1"}]}, EndpointConnectionError(endpoint_url="https://sqs")])
    queue = SqsQueue(client, "q", Logger(service="test"))  # type: ignore[arg-type]

    assert queue.send([entry(number) for number in range(30)]) == (entry(1), *map(entry, range(10, 30)))
    assert len(client.asked) == 2


def test_nothing_is_asked_of_the_queue_for_nothing() -> None:
    client = ScriptedClient([])

    assert SqsQueue(client, "q", Logger(service="test")).send(()) == ()  # type: ignore[arg-type]
    assert client.asked == []


def test_what_is_served_is_deleted_by_its_receipts() -> None:
    client = ScriptedClient([{}])

    SqsQueue(client, "q", Logger(service="test")).delete(["r1", "r2"])  # type: ignore[arg-type]

    [request] = client.requests
    assert [each["ReceiptHandle"] for each in request["Entries"]] == ["r1", "r2"]
    assert len({each["Id"] for each in request["Entries"]}) == 2


def test_what_is_given_back_is_visible_at_once() -> None:
    client = ScriptedClient([{}])

    SqsQueue(client, "q", Logger(service="test")).give_back(["r1", "r2"])  # type: ignore[arg-type]

    [request] = client.requests
    assert [(each["ReceiptHandle"], each["VisibilityTimeout"]) for each in request["Entries"]] == [("r1", 0), ("r2", 0)]
    assert len({each["Id"] for each in request["Entries"]}) == 2
