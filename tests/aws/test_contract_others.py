"""SQS and S3 in the box and in the local engine: the same calls, the same answers.

Left out are Firehose (the engine does not answer in part, and what a stream took cannot be read without its
destination), whatever needs time to pass (five minutes of deduplication, visibility) and load (throttling, transactions
that overlap): the tests of the box alone show those.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.aws import limits
from tests.aws.contract import Case, Cases, World, refusal, refused

CASES = Cases()
case = CASES.case
FIFO = {"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}


def send(world: World, url: str, body: str, group: str | None = None, deduplication: str | None = None) -> Any:
    named = {} if group is None else {"MessageGroupId": group}
    if group is not None:
        named["MessageDeduplicationId"] = deduplication or body
    return world.client("sqs").send_message(QueueUrl=url, MessageBody=body, **named)


def receive(world: World, url: str, most: int = 10) -> list[dict[str, Any]]:
    answer = world.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=most, WaitTimeSeconds=0)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


@case
def group_in_order(world: World) -> Any:
    url = world.queue("order.fifo", **FIFO)
    for body in ("1", "2", "3"):
        send(world, url, body, "g")
    first = receive(world, url, 2)
    between = receive(world, url)
    for message in first:
        world.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [bodies(first), bodies(between), bodies(receive(world, url))]


@case
def groups_beside_each_other(world: World) -> Any:
    url = world.queue("groups.fifo", **FIFO)
    for body in ("a1", "b1", "a2"):
        send(world, url, body, body[0])
    return [bodies(receive(world, url, 1)), bodies(receive(world, url))]


@case
def deduplicated(world: World) -> Any:
    url = world.queue("once.fifo", **FIFO)
    first, second = send(world, url, "x", "g", "d"), send(world, url, "y", "g", "d")
    other = send(world, url, "z", "h", "d")
    same = [first["MessageId"] == second["MessageId"], first["MessageId"] == other["MessageId"]]
    return [same, sorted(bodies(receive(world, url)))]


@case
def deduplicated_in_the_whole_queue(world: World) -> Any:
    url = world.queue("whole.fifo", FifoQueue="true")
    send(world, url, "x", "g", "d")
    send(world, url, "y", "h", "d")
    return bodies(receive(world, url))


@case
def queues_come_and_go(world: World) -> Any:
    client = world.client("sqs")
    made = [client.create_queue(QueueName=f"group-{n}.fifo", Attributes=FIFO)["QueueUrl"] for n in (1, 2, 1)]
    pages = client.get_paginator("list_queues").paginate(QueueNamePrefix="group-", PaginationConfig={"PageSize": 1})
    listed = [url.rpartition("/")[2] for page in pages for url in page.get("QueueUrls", ())]
    send(world, made[0], "x", "g")
    send(world, made[0], "y", "h")
    client.receive_message(QueueUrl=made[0], MaxNumberOfMessages=1)
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    held = client.get_queue_attributes(QueueUrl=made[0], AttributeNames=counts)["Attributes"]
    client.delete_queue(QueueUrl=made[0])
    return [made[0] == made[2], sorted(listed), held, refusal(client.receive_message, QueueUrl=made[0])]


@case
def queue_of_another_kind(world: World) -> Any:
    client = world.client("sqs")
    client.create_queue(QueueName="kind.fifo", Attributes=FIFO)
    other = {**FIFO, "MessageRetentionPeriod": "86400"}
    return [
        refusal(client.create_queue, QueueName="kind.fifo", Attributes=other),
        refusal(client.create_queue, QueueName="kind", Attributes=FIFO),
    ]


@case
def batch_in_part(world: World) -> Any:
    url = world.queue("part.fifo", **FIFO)
    entries = [
        {"Id": "0", "MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "a"},
        {"Id": "1", "MessageBody": "b\x00", "MessageGroupId": "g", "MessageDeduplicationId": "b"},
    ]
    answer = world.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
    return [[each["Id"] for each in answer.get(part, [])] for part in ("Successful", "Failed")]


@case
def batches_that_are_none(world: World) -> Any:
    url = world.queue("batches")
    batch = world.client("sqs").send_message_batch
    entry = {"Id": "a", "MessageBody": "x"}
    half = "x" * (limits.SQS_MESSAGE_BYTES_MAX // 2 + 1)
    return [
        refusal(batch, QueueUrl=url, Entries=[{**entry, "Id": str(place)} for place in range(11)]),
        refusal(batch, QueueUrl=url, Entries=[entry, entry]),
        refusal(batch, QueueUrl=url, Entries=[{**entry, "Id": "a b"}]),
        refusal(batch, QueueUrl=url, Entries=[{"Id": each, "MessageBody": half} for each in "ab"]),
    ]


@case
def message_of_1_mib(world: World) -> Any:
    url = world.queue("sizes")
    fits = "x" * limits.SQS_MESSAGE_BYTES_MAX
    sends = world.client("sqs").send_message
    return [refusal(sends, QueueUrl=url, MessageBody=fits), refusal(sends, QueueUrl=url, MessageBody=fits + "x")]


@case
def absent_queue(world: World) -> Any:
    url = world.queue("present").replace("present", "absent")
    return refusal(world.client("sqs").send_message, QueueUrl=url, MessageBody="x")


@case
def receipts(world: World) -> Any:
    url = world.queue("receipts")
    client = world.client("sqs")
    send(world, url, "x")
    (message,) = receive(world, url)
    entry = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
    client.change_message_visibility_batch(QueueUrl=url, Entries=[entry])
    again = bodies(receive(world, url))
    return [again, refusal(client.delete_message, QueueUrl=url, ReceiptHandle="nonsense")]


# S3.


@case
def objects(world: World) -> Any:
    client = world.client("s3")
    put = client.put_object(Bucket="bucket", Key="a/b", Body=b"content")
    answer = client.get_object(Bucket="bucket", Key="a/b")
    return [answer["Body"].read(), answer["ETag"] == put["ETag"], answer["ContentLength"], put["ETag"]]


@case
def absent_objects(world: World) -> Any:
    client = world.client("s3")
    return [
        refusal(client.get_object, Bucket="bucket", Key="absent"),
        refusal(client.get_object, Bucket="absent", Key="absent"),
        refusal(client.delete_object, Bucket="bucket", Key="absent"),
    ]


REFUSALS: dict[str, Case] = {
    "without_a_group": lambda world: world.client("sqs").send_message(
        QueueUrl=world.queue("groupless.fifo", **FIFO), MessageBody="x", MessageDeduplicationId="d"
    ),
    "without_a_deduplication_id": lambda world: world.client("sqs").send_message(
        QueueUrl=world.queue("idless.fifo", **FIFO), MessageBody="x", MessageGroupId="g"
    ),
    "characters": lambda world: world.client("sqs").send_message(QueueUrl=world.queue("chars"), MessageBody="\x0b"),
}
CASES |= {name: refused(call) for name, call in REFUSALS.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_box_answers_as_the_engine_does(name: str, engine: World) -> None:
    CASES.compare(name, engine)


def test_the_engine_keeps_the_conditions_of_a_put_and_lists_in_pages(engine: World) -> None:
    client = engine.client("s3")
    put = partial(refusal, client.put_object, Bucket="bucket", Key="l/1")
    assert [put(IfNoneMatch="*", Body=b"1"), put(IfNoneMatch="*", Body=b"2")] == ["done", "PreconditionFailed"]
    etag = client.get_object(Bucket="bucket", Key="l/1")["ETag"]
    assert [put(IfMatch=etag, Body=b"2"), put(IfMatch=etag, Body=b"3")] == ["done", "PreconditionFailed"]
    for name in ("l/2", "l/3/a", "l/3/b"):
        client.put_object(Bucket="bucket", Key=name, Body=b"1")
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="bucket", Prefix="l/", PaginationConfig={"PageSize": 3}
    )
    assert [[each["Key"] for each in page["Contents"]] for page in pages] == [["l/1", "l/2", "l/3/a"], ["l/3/b"]]
