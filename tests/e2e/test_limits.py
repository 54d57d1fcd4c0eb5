"""The running stack has AWS's limits: what is over one is refused by the guard, the engine, the host or the front."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local.rules import limits
from tests.running_stack import RunningStack

pytestmark = pytest.mark.e2e


@pytest.fixture
def owner(stack: RunningStack) -> Any:
    def client(service: Any) -> Any:
        return stack.owner(service, Config(retries={"total_max_attempts": 1}, parameter_validation=False))

    return client


@pytest.fixture
def table(owner: Any) -> Iterator[tuple[Any, str]]:
    dynamodb = owner("dynamodb")
    attributes = [{"AttributeName": "pk", "AttributeType": "S"}]
    schema = [{"AttributeName": "pk", "KeyType": "HASH"}]
    dynamodb.create_table(
        TableName="limits", AttributeDefinitions=attributes, KeySchema=schema, BillingMode="PAY_PER_REQUEST"
    )
    yield dynamodb, "limits"
    dynamodb.delete_table(TableName="limits")


def row(number: int, size: int) -> dict[str, Any]:
    return {"pk": {"S": f"{number:04d}"}, "b": {"S": "x" * size}}


def put(number: int, size: int) -> dict[str, Any]:
    return {"Put": {"TableName": "limits", "Item": row(number, size)}}


def test_an_item_has_at_most_400_kb(table: tuple[Any, str]) -> None:
    dynamodb, name = table
    frame = len("pk") + 4 + len("b")
    dynamodb.put_item(TableName=name, Item=row(1, limits.ITEM_BYTES_MAX - frame))
    with pytest.raises(ClientError, match="Item size"):
        dynamodb.put_item(TableName=name, Item=row(1, limits.ITEM_BYTES_MAX - frame + 1))


def test_a_transaction_has_at_most_100_items_and_4_mb(table: tuple[Any, str]) -> None:
    dynamodb, _ = table
    dynamodb.transact_write_items(TransactItems=[put(n, 1) for n in range(limits.TRANSACTION_ITEMS_MAX)])
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.transact_write_items(TransactItems=[put(n, 1) for n in range(limits.TRANSACTION_ITEMS_MAX + 1)])
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.transact_write_items(TransactItems=[put(n, 400_000) for n in range(11)])


def test_reads_end_at_100_keys_16_mb_and_pages_of_1_mb(table: tuple[Any, str]) -> None:
    dynamodb, name = table
    for n in range(60):
        dynamodb.put_item(TableName=name, Item=row(n, 300_000))
    keys = [{"pk": {"S": f"{n:04d}"}} for n in range(60)]
    answer = dynamodb.batch_get_item(RequestItems={name: {"Keys": keys}})
    left = answer["UnprocessedKeys"][name]["Keys"]
    assert len(answer["Responses"][name]) + len(left) == 60
    assert len(answer["Responses"][name]) == limits.BATCH_GET_BYTES_MAX // 300_050
    assert len(dynamodb.scan(TableName=name)["Items"]) <= limits.PAGE_BYTES_MAX // 300_000 + 1
    many = [{"pk": {"S": str(n)}} for n in range(limits.BATCH_GET_KEYS_MAX + 1)]
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.batch_get_item(RequestItems={name: {"Keys": many}})


def test_messages_of_queues_have_at_most_1_mib_alone_and_together_and_come_by_ten(owner: Any) -> None:
    sqs = owner("sqs")
    url = sqs.create_queue(QueueName="limits")["QueueUrl"]

    def batch(count: int, size: int) -> list[dict[str, str]]:
        return [{"Id": str(n), "MessageBody": "x" * size} for n in range(count)]

    sqs.send_message(QueueUrl=url, MessageBody="x" * limits.SQS_MESSAGE_BYTES_MAX)
    refused: list[Callable[[], object]] = [
        lambda: sqs.send_message(QueueUrl=url, MessageBody="x" * (limits.SQS_MESSAGE_BYTES_MAX + 1)),
        lambda: sqs.send_message_batch(QueueUrl=url, Entries=batch(2, limits.SQS_MESSAGE_BYTES_MAX // 2 + 1)),
        lambda: sqs.send_message_batch(QueueUrl=url, Entries=batch(limits.SQS_BATCH_MAX + 1, 1)),
    ]
    for send in refused:
        with pytest.raises(ClientError):
            send()


def test_an_execution_is_given_at_most_256_kib(stack: RunningStack, owner: Any) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        owner("stepfunctions").start_execution(
            stateMachineArn=stack.where["outputs"]["StateMachineArn"],
            name="too-large",
            input=json.dumps("x" * limits.EXECUTION_INPUT_BYTES_MAX),
        )


def test_a_delivery_stream_takes_500_records_of_1000_kib_and_4_mib_in_all(owner: Any) -> None:
    firehose = owner("firehose")
    for sizes in ([limits.FIREHOSE_RECORD_BYTES_MAX + 1], [1_000_000] * 5, [1] * 501):
        with pytest.raises(ClientError, match="InvalidArgumentException"):
            firehose.put_record_batch(
                DeliveryStreamName="tagcast-archive-lanes", Records=[{"Data": b"x" * size} for size in sizes]
            )


def test_a_function_takes_6_mb(owner: Any) -> None:
    with pytest.raises(ClientError, match="RequestTooLargeException"):
        owner("lambda").invoke(FunctionName="tagcast-manage", Payload=b" " * (limits.LAMBDA_PAYLOAD_BYTES_MAX + 1))


@pytest.mark.parametrize("size", [limits.LAMBDA_PAYLOAD_BYTES_MAX, limits.HTTP_API_PAYLOAD_BYTES_MAX + 1])
def test_a_request_that_no_function_could_take_is_413(stack: RunningStack, size: int) -> None:
    connection = http.client.HTTPConnection(str(urlsplit(stack.url).netloc), timeout=30)
    connection.request("POST", "/filters/test", b" " * size, {"content-type": "application/json"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (413, "application/problem+json")
