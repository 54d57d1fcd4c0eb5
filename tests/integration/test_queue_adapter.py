"""What the queue's adapter does with the answers of SQS: in part, in full, or none at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from tagcast.ports import QueueEntry
from tagcast.queues import Audience, own_group
from tagcast_aws import wiring
from tagcast_aws.dispatch.queue import SqsQueue

from tests.integration.scripted import ScriptedClient


class Sqs:
    """Answers each request as it is told; keeps what it took, in order."""

    def __init__(self, *answers: Callable[[Collection[str]], Collection[str]]) -> None:
        self._answers = list(answers)
        self.requests: list[list[Mapping[str, str]]] = []
        self.taken: list[str] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, str]]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == "queue"
        assert 0 < len(Entries) <= 10
        self.requests.append(list(Entries))
        ids = [re.sub("-everybody-[0-9a-f]{32}$", "", entry["MessageDeduplicationId"]) for entry in Entries]
        refused = self._answers.pop(0)(ids) if self._answers else ()
        self.taken += [message_id for message_id in ids if message_id not in refused]
        failed = [
            {"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"}
            for entry, message_id in zip(Entries, ids, strict=True)
            if message_id in refused
        ]
        return {"Successful": [], "Failed": failed} if failed else {"Successful": []}


def refuse(*ids: str) -> Callable[[Collection[str]], Collection[str]]:
    return lambda asked: ids


def fail(error: Exception) -> Callable[[Collection[str]], Collection[str]]:
    def failing(asked: Collection[str]) -> Collection[str]:
        raise error

    return failing


def numbered(count: int, group: str = "g") -> list[QueueEntry]:
    return [QueueEntry("t", f"{group}{number:02d}", group) for number in range(count)]


def send(sqs: Sqs, entries: Sequence[QueueEntry]) -> list[str]:
    queue = SqsQueue(sqs, "queue", wiring.logger())  # type: ignore[arg-type]
    return [entry.message_id for entry in queue.send(entries)]


def test_everything_is_sent_in_order_ten_a_request() -> None:
    sqs = Sqs()

    assert send(sqs, numbered(23)) == []
    assert sqs.taken == [entry.message_id for entry in numbered(23)]
    assert [len(request) for request in sqs.requests] == [10, 10, 3]
    assert [entry["Id"] for entry in sqs.requests[0]] == [str(place) for place in range(10)]


def test_nothing_is_asked_of_the_queue_for_nothing() -> None:
    sqs = Sqs()

    assert send(sqs, []) == []
    assert sqs.requests == []


def test_an_entry_is_named_by_its_message_so_that_a_repetition_is_dropped() -> None:
    sqs = Sqs()
    entry = QueueEntry("orders", "07", "its order")

    send(sqs, [entry])

    [[request]] = sqs.requests
    assert json.loads(request["MessageBody"]) == {"topic": "orders", "message_ids": ["07"], "audience": "everybody"}
    assert (request["MessageDeduplicationId"], request["MessageGroupId"]) == (
        "07-everybody-1c168adb00d208e42f93314529f1fa9c",
        "its order",
    )


@pytest.mark.parametrize(
    "error",
    [ClientError({"Error": {"Code": "Throttled"}}, "SendMessageBatch"), EndpointConnectionError(endpoint_url="u")],
    ids=["refused", "unreachable"],
)
def test_behind_a_failed_request_nothing_of_its_order_is_sent(error: Exception) -> None:
    sqs = Sqs(fail(error))

    assert send(sqs, numbered(23)) == [entry.message_id for entry in numbered(23)]
    assert len(sqs.requests) == 1


def test_behind_an_entry_that_failed_nothing_of_its_order_counts_as_taken() -> None:
    sqs = Sqs(refuse("g03"))

    assert send(sqs, numbered(23)) == [entry.message_id for entry in numbered(23)[3:]]
    assert len(sqs.requests) == 1


def test_without_an_answer_the_rest_is_not_tried_and_what_was_refused_before_is_returned_too() -> None:
    sqs = Sqs(refuse("m01"), fail(EndpointConnectionError(endpoint_url="u")))
    entries = [QueueEntry("t", f"m{number:02d}", f"g{number}") for number in range(30)]

    assert send(sqs, entries) == ["m01", *(entry.message_id for entry in entries[10:])]
    assert len(sqs.requests) == 2


def test_what_is_served_is_deleted_and_what_is_given_back_is_visible_at_once() -> None:
    client: Any = ScriptedClient([{}, {}])
    queue = SqsQueue(client, "queue", wiring.logger())

    queue.delete(["r1", "r2"])
    queue.give_back(["r1", "r2"])

    assert [request["QueueUrl"] for request in client.requests] == ["queue", "queue"]
    deleted, given_back = (request["Entries"] for request in client.requests)
    assert [each["ReceiptHandle"] for each in deleted] == ["r1", "r2"]
    assert [(each["ReceiptHandle"], each["VisibilityTimeout"]) for each in given_back] == [("r1", 0), ("r2", 0)]
    assert {len({each["Id"] for each in entries}) for entries in (deleted, given_back)} == {2}


SECTIONS = [QueueEntry("t", "1", "g", Audience.IN_ORDER, section=section) for section in range(2)]
PACKS = [QueueEntry("t", "1", "g", Audience.IN_ORDER, ("x",)), QueueEntry("t", "1 last", "g")]


@pytest.mark.parametrize("entries", [SECTIONS, PACKS], ids=["sections", "packs"])
def test_what_one_publish_sends_in_one_order_is_never_taken_behind_what_was_refused(entries: list[QueueEntry]) -> None:
    sqs = Sqs(refuse(entries[0].deduplication_id))
    other = QueueEntry("t", "2", "other")

    assert send(sqs, [*entries, other]) == ["1", entries[1].message_id]
    assert sqs.taken == ["2"]


def test_sections_of_different_orders_share_a_request() -> None:
    sqs = Sqs()
    send(sqs, [QueueEntry("t", "1", own_group("1", section), section=section) for section in range(12)])

    assert [len(request) for request in sqs.requests] == [10, 2]


def test_other_orders_go_on_beside_one_that_failed() -> None:
    entries = [entry for pair in zip(numbered(12, "a"), numbered(12, "b"), strict=True) for entry in pair]
    sqs = Sqs(refuse("a01"))

    assert send(sqs, entries) == [entry.message_id for entry in numbered(12, "a")[1:]]
    assert [message_id for message_id in sqs.taken if message_id[0] == "b"] == [f"b{n:02d}" for n in range(12)]
    assert not [message_id for message_id in sqs.taken if message_id > "a04" and message_id[0] == "a"]
