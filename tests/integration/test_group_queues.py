"""The port of groups' queues: what the fake does, SQS does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from tagcast.errors import UnavailableError
from tagcast.ports import GroupQueue, GroupQueues, QueueEntry
from tagcast_aws import wiring
from tagcast_aws.dispatch.group_queues import SqsGroupQueues

from tests.aws.small_account import SmallAccount
from tests.fakes.group_queues import FakeGroupQueues
from tests.fakes.world import FakeClock
from tests.integration.scripted import ScriptedClient

TOPIC_ID = "07457000000000000001"
PLAIN, ORDERED = GroupQueue(f"{TOPIC_ID}.3", ordered=False), GroupQueue(f"{TOPIC_ID}.4", ordered=True)
ABSENT = GroupQueue(f"{TOPIC_ID}.5", ordered=False)


def queues_by(client: Any, service: str = "https://queue.test/1/service") -> SqsGroupQueues:
    """Return queues beside that of the service, at the end of a client."""
    return SqsGroupQueues(client, lambda: client, service, "g-", wiring.logger())


def queues_of(account: SmallAccount) -> SqsGroupQueues:
    return queues_by(account.client("sqs"), account.plain.url)


@pytest.fixture(params=["fake", "sqs"])
def queues(request: pytest.FixtureRequest) -> GroupQueues:
    return FakeGroupQueues(FakeClock().now) if request.param == "fake" else queues_of(SmallAccount())


def entries(*ids: str, order: str = "o") -> list[QueueEntry]:
    return [QueueEntry("t", each, order) for each in ids]


def received(queues: GroupQueues, queue: GroupQueue, limit: int = 10) -> list[Any]:
    return list(queues.receive(queue, limit=limit, wait_s=0, visibility_timeout_s=60))


@pytest.mark.parametrize("queue", [PLAIN, ORDERED])
def test_what_is_sent_is_received_once_and_goes_when_it_is_deleted(queues: GroupQueues, queue: GroupQueue) -> None:
    queues.make(queue)
    queues.make(queue)
    assert queues.send(queue, entries("1", "2")) == ()

    found = received(queues, queue)
    assert [(each.message_id, each.times) for each in found] == [("1", 1), ("2", 1)]
    assert received(queues, queue) == []
    counts = queues.counts(queue)
    assert (counts.waiting, counts.in_flight) == (0, 2)

    queues.delete(queue, [each.receipt for each in found])
    counts = queues.counts(queue)
    assert (counts.waiting, counts.in_flight) == (0, 0)


@pytest.mark.parametrize("queue", [PLAIN, ORDERED])
def test_what_is_shown_again_comes_again_and_was_received_once_more(queues: GroupQueues, queue: GroupQueue) -> None:
    queues.make(queue)
    queues.send(queue, entries("1"))
    [first] = received(queues, queue)

    assert list(queues.hide(queue, {first.receipt: 0})) == []
    [second] = received(queues, queue)

    assert (second.message_id, second.times) == ("1", 2)
    assert second.receipt != first.receipt
    assert second.entry_id == first.entry_id


def test_a_queue_that_its_owner_changed_stays_as_it_is() -> None:
    account = SmallAccount()
    changed = account.sqs.create(f"g-{TOPIC_ID}-3", {"MessageRetentionPeriod": "1209600"})

    queues_of(account).make(PLAIN)

    assert [each for each in account.sqs.queues.values() if each.name.startswith("g-")] == [changed]


def test_what_is_sent_twice_are_two_entries(queues: GroupQueues) -> None:
    queues.make(PLAIN)
    for _ in range(2):
        queues.send(PLAIN, entries("1"))

    found = received(queues, PLAIN)
    assert [each.message_id for each in found] == ["1", "1"]
    assert len({each.entry_id for each in found}) == 2


def test_each_is_hidden_for_as_long_as_is_said_of_it(queues: GroupQueues) -> None:
    queues.make(PLAIN)
    queues.send(PLAIN, entries("1", "2"))
    first, second = received(queues, PLAIN)

    assert list(queues.hide(PLAIN, {first.receipt: 60, second.receipt: 0})) == []
    assert [each.message_id for each in received(queues, PLAIN)] == [second.message_id]


def test_an_order_is_in_flight_in_one_batch(queues: GroupQueues) -> None:
    queues.make(ORDERED)
    queues.send(ORDERED, [*entries("1", "2", order="a"), *entries("3", order="b")])

    [first] = received(queues, ORDERED, limit=1)
    assert first.message_id == "1"
    [other] = received(queues, ORDERED)
    assert other.message_id == "3"
    queues.delete(ORDERED, [first.receipt])
    assert [each.message_id for each in received(queues, ORDERED)] == ["2"]


def test_more_than_a_request_takes_is_sent_in_order(queues: GroupQueues) -> None:
    queues.make(ORDERED)
    ids = [f"{number:02}" for number in range(23)]
    assert queues.send(ORDERED, entries(*ids)) == ()

    found = []
    while part := received(queues, ORDERED):
        found += [each.message_id for each in part]
        queues.delete(ORDERED, [each.receipt for each in part])
    assert found == ids


def test_every_queue_of_a_group_is_listed_and_can_be_removed_twice(queues: GroupQueues) -> None:
    for queue in (PLAIN, ORDERED):
        queues.make(queue)
    assert set(queues.every()) == {PLAIN, ORDERED}

    for _ in range(2):
        queues.remove(PLAIN)
    assert set(queues.every()) == {ORDERED}


def test_a_queue_that_is_not_there_takes_nothing_and_gives_nothing(queues: GroupQueues) -> None:
    assert queues.send(ABSENT, entries("1")) == tuple(entries("1"))
    assert received(queues, ABSENT) == []
    assert set(queues.hide(ABSENT, {"r": 5})) == {"r"}
    counts = queues.counts(ABSENT)
    assert (counts.waiting, counts.in_flight) == (0, 0)
    queues.delete(ABSENT, ["r"])


def test_a_queue_of_another_name_is_no_groups_whatever_its_prefix() -> None:
    account = SmallAccount()
    queues = queues_of(account)
    account.sqs.create("g-reports", {})
    queues.make(PLAIN)

    assert list(queues.every()) == [PLAIN]


def test_without_an_answer_nothing_is_taken_for_done() -> None:
    queues = queues_by(ScriptedClient([EndpointConnectionError(endpoint_url="https://sqs")] * 7))

    for call in (
        lambda: queues.make(PLAIN),
        lambda: queues.remove(PLAIN),
        lambda: received(queues, PLAIN),
        lambda: queues.hide(PLAIN, {"r": 5}),
        lambda: queues.counts(PLAIN),
    ):
        with pytest.raises(UnavailableError):
            call()
    assert queues.send(PLAIN, entries("1")) == tuple(entries("1"))
    queues.delete(PLAIN, ["r"])


def test_an_ordered_queue_drops_repetitions_within_an_order_alone() -> None:
    client = ScriptedClient([{}])

    queues_by(client).make(ORDERED)

    [request] = client.requests
    assert request["QueueName"].endswith(".fifo")
    asked = {name: request["Attributes"][name] for name in ("FifoQueue", "DeduplicationScope", "FifoThroughputLimit")}
    assert asked == {
        "FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"
    }  # fmt: skip


def test_behind_what_an_ordered_queue_refused_nothing_of_its_order_is_sent() -> None:
    client = ScriptedClient([{"Failed": [{"Id": "0"}]}, {}])
    sent = [*entries("1", order="a"), *entries("2", order="b"), *entries("3", "4", order="a"), *entries("5", order="c")]

    assert [each.message_id for each in queues_by(client).send(ORDERED, sent)] == ["1", "3", "4"]
    asked = [
        [json.loads(each["MessageBody"])["message_ids"][0] for each in request["Entries"]]
        for request in client.requests
    ]
    assert asked == [["1", "2"], ["5"]]


def test_of_many_receipts_those_that_are_good_no_more_are_told() -> None:
    client = ScriptedClient([{}, {"Failed": [{"Id": "1", "SenderFault": True}]}])

    assert list(queues_by(client).hide(PLAIN, {f"r{place}": 5 for place in range(12)})) == ["r11"]


def test_what_the_queue_failed_to_hide_is_not_taken_for_over() -> None:
    trouble = {"Id": "0", "SenderFault": False, "Code": "InternalError"}
    client = ScriptedClient([{"Failed": [trouble]}])

    with pytest.raises(UnavailableError):
        queues_by(client).hide(PLAIN, {"r0": 5, "r1": 5})


def test_a_pull_asks_the_queue_for_what_it_wants_and_who_has_it_is_alone_with_it_so_long() -> None:
    client = ScriptedClient([{}])

    assert queues_by(client).receive(PLAIN, limit=3, wait_s=20, visibility_timeout_s=77) == []
    assert client.requests == [
        {
            "QueueUrl": f"https://queue.test/1/g-{TOPIC_ID}-3",
            "MaxNumberOfMessages": 3,
            "WaitTimeSeconds": 20,
            "VisibilityTimeout": 77,
            "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
        }
    ]


def test_no_request_names_more_entries_than_sqs_takes() -> None:
    client, receipts = ScriptedClient([{}] * 6), [f"r{number}" for number in range(21)]

    queues_by(client).delete(PLAIN, receipts)
    assert not queues_by(client).hide(PLAIN, dict.fromkeys(receipts, 5))
    assert [len(request["Entries"]) for request in client.requests] == [10, 10, 1] * 2
