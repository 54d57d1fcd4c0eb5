"""Queues: order, deduplication, visibility, batches in part, and what SQS refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.aws import limits
from tests.aws.small_account import SmallAccount, code_of, scripted

ORDER = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/"


def send(client: Any, body: str, group: str = "g", queue: str = "fast.fifo", **more: Any) -> dict[str, Any]:
    named = {"MessageDeduplicationId": body, **more}
    answer: dict[str, Any] = client.send_message(QueueUrl=URL + queue, MessageBody=body, MessageGroupId=group, **named)
    return answer


def receive(client: Any, most: int = 10, queue: str = "fast.fifo", **more: Any) -> list[dict[str, Any]]:
    answer = client.receive_message(QueueUrl=URL + queue, MaxNumberOfMessages=most, AttributeNames=["All"], **more)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def test_what_is_not_deleted_comes_again_in_its_place(account: SmallAccount) -> None:
    client = account.client("sqs")
    for body in ("a1", "a2", "a3"):
        send(client, body)
    first = receive(client, 2)
    client.delete_message(QueueUrl=URL + "fast.fifo", ReceiptHandle=first[0]["ReceiptHandle"])
    account.time.spend(30_000)
    again = receive(client)
    assert bodies(again) == ["a2", "a3"]
    assert [each["Attributes"]["ApproximateReceiveCount"] for each in again] == ["2", "1"]
    old = code_of(lambda: client.delete_message(QueueUrl=URL + "fast.fifo", ReceiptHandle=first[1]["ReceiptHandle"]))
    assert old == "InvalidParameterValue"


def test_visibility_is_what_the_consumer_says(account: SmallAccount) -> None:
    client = account.client("sqs")
    send(client, "a1")
    send(client, "b1", group="h")
    taken = receive(client, VisibilityTimeout=5)

    def hide(seconds: int) -> list[str]:
        entries = [
            {"Id": str(place), "ReceiptHandle": each["ReceiptHandle"], "VisibilityTimeout": seconds}
            for place, each in enumerate(taken)
        ]
        answer = client.change_message_visibility_batch(QueueUrl=URL + "fast.fifo", Entries=entries)
        return [each["Code"] for each in answer.get("Failed", ())]

    assert hide(100) == []
    account.time.spend(50_000)
    assert receive(client) == []
    assert hide(0) == []
    assert bodies(receive(client)) == ["a1", "b1"]
    account.time.spend(31_000)
    assert hide(1) == ["MessageNotInflight"] * 2
    assert hide(43_201) == ["InvalidParameterValue"] * 2


def test_a_deduplication_id_counts_even_when_its_message_is_deleted(account: SmallAccount) -> None:
    client = account.client("sqs")
    first = send(client, "a", MessageDeduplicationId="once")
    (message,) = receive(client)
    client.delete_message(QueueUrl=URL + "fast.fifo", ReceiptHandle=message["ReceiptHandle"])
    again = send(client, "another", MessageDeduplicationId="once")
    assert again["MessageId"] == first["MessageId"]
    assert receive(client) == []


def test_a_deduplication_id_is_free_again_when_the_five_minutes_are_over(account: SmallAccount) -> None:
    account.fast.send("first", "g", "once", {})
    account.time.spend(1000 * limits.SQS_DEDUPLICATION_S - 1)
    account.fast.send("second", "g", "once", {})
    account.time.spend(1)
    account.fast.send("third", "g", "once", {})
    assert [message.body for message in account.fast.receive()] == ["first", "third"]


def test_a_group_waits_for_a_later_message_that_is_in_flight(account: SmallAccount) -> None:
    for body in ("a1", "a2"):
        account.fast.send(body, "a", body, {})
    first, _ = account.fast.receive()
    account.fast.change_visibility(first.receipt, 0)
    assert account.fast.receive() == []
    account.time.spend(30_000)
    assert [message.body for message in account.fast.receive()] == ["a1", "a2"]


def test_a_message_is_kept_for_its_days(account: SmallAccount) -> None:
    client = account.client("sqs")
    send(client, "a")
    account.time.spend(345_600 * 1000)
    assert receive(client) == []


def test_a_batch_succeeds_and_fails_by_its_entries(account: SmallAccount) -> None:
    client = account.client("sqs")
    entries = [
        {"Id": "0", "MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "a"},
        {"Id": "1", "MessageBody": "b", "MessageDeduplicationId": "b"},
        {"Id": "2", "MessageBody": "c\x00", "MessageGroupId": "g", "MessageDeduplicationId": "c"},
        {"Id": "3", "MessageBody": "d", "MessageGroupId": "g", "MessageDeduplicationId": "d"},
    ]
    answer = client.send_message_batch(QueueUrl=URL + "fast.fifo", Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["0", "3"]
    assert [(each["Id"], each["Code"], each["SenderFault"]) for each in answer["Failed"]] == [
        ("1", "MissingParameter", True),
        ("2", "InvalidMessageContents", True),
    ]
    assert bodies(receive(client)) == ["a", "d"]


def test_accidents_fail_entries_of_a_batch_for_the_service() -> None:
    account = SmallAccount(scripted(entries=[1]))
    client = account.client("sqs")
    entries = [
        {"Id": str(place), "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": str(place)}
        for place in range(3)
    ]
    answer = client.send_message_batch(QueueUrl=URL + "fast.fifo", Entries=entries)
    assert [(each["Id"], each["SenderFault"]) for each in answer["Failed"]] == [("1", False)]
    received = receive(client)
    assert len(received) == 2
    handles = [{"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]} for place, each in enumerate(received)]
    deleted = client.delete_message_batch(QueueUrl=URL + "fast.fifo", Entries=handles)
    assert [each["Id"] for each in deleted["Successful"]] == ["0"]


@pytest.mark.parametrize(
    ("queue", "parameters", "code"),
    [
        ("fast.fifo", {**ORDER, "MessageGroupId": "a b"}, "InvalidParameterValue"),
        ("fast.fifo", {**ORDER, "MessageDeduplicationId": "d" * 129}, "InvalidParameterValue"),
        ("plain", {"MessageBody": "x", "MessageDeduplicationId": "d"}, "InvalidParameterValue"),
        ("plain", {"MessageBody": ""}, "MissingParameter"),
        ("plain", {"MessageBody": "x", "MessageAttributes": {
            f"a{place}": {"DataType": "String", "StringValue": "v"} for place in range(11)}}, "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_a_message_that_breaks_a_rule_is_refused(
    account: SmallAccount, queue: str, parameters: dict[str, Any], code: str
) -> None:
    assert code_of(lambda: account.client("sqs").send_message(QueueUrl=URL + queue, **parameters)) == code


def test_attributes_count_for_the_size(account: SmallAccount) -> None:
    attributes = {"name": {"DataType": "String", "StringValue": "v" * 100}}
    body = "x" * (limits.SQS_MESSAGE_BYTES_MAX - 110)
    client = account.client("sqs")
    client.send_message(QueueUrl=URL + "plain", MessageBody=body, MessageAttributes=attributes)
    too_large = {"MessageBody": body + "x", "MessageAttributes": attributes}
    assert code_of(lambda: client.send_message(QueueUrl=URL + "plain", **too_large)) == "InvalidParameterValue"


def test_a_standard_queue_hands_out_whatever_is_visible(account: SmallAccount) -> None:
    client = account.client("sqs")
    attributes = {"kind": {"DataType": "String", "StringValue": "v"}}
    client.send_message(QueueUrl=URL + "plain", MessageBody="a", MessageAttributes=attributes)
    assert bodies(receive(client, queue="plain")) == ["a"]
    client.send_message(QueueUrl=URL + "plain", MessageBody="b")
    assert bodies(receive(client, queue="plain")) == ["b"]
    account.time.spend(30_000)
    (again,) = receive(client, 1, "plain", MessageAttributeNames=["All"])
    assert again["MessageAttributes"] == attributes


def test_a_function_gets_what_lambda_makes_of_a_message(account: SmallAccount) -> None:
    attributes = {"kind": {"DataType": "String", "StringValue": "v"}}
    sent = account.client("sqs").send_message(
        QueueUrl=URL + "fast.fifo", MessageBody="a", MessageGroupId="g", MessageDeduplicationId="d",
        MessageAttributes=attributes,
    )  # fmt: skip
    (message,) = account.fast.receive()
    event = account.fast.event_of(message, "us-east-1")
    assert event["messageId"] == sent["MessageId"]
    assert event["attributes"]["MessageGroupId"] == "g"
    assert event["messageAttributes"] == {"kind": {"dataType": "String", "stringValue": "v"}}
    assert event["eventSourceARN"] == account.fast.arn
