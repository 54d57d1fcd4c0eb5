"""The running stack has AWS's limits: what is over one is refused by the guard, the engine, the host or the front."""

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.aws import limits
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


def test_a_delivery_stream_takes_500_records_of_1000_kib_and_4_mib_in_all(owner: Any) -> None:
    firehose = owner("firehose")
    for sizes in ([limits.FIREHOSE_RECORD_BYTES_MAX + 1], [1_000_000] * 5, [1] * 501):
        with pytest.raises(ClientError, match="InvalidArgumentException"):
            firehose.put_record_batch(
                DeliveryStreamName="tagcast-archive-lanes", Records=[{"Data": b"x" * size} for size in sizes]
            )


@pytest.mark.parametrize("size", [limits.LAMBDA_PAYLOAD_BYTES_MAX, limits.HTTP_API_PAYLOAD_BYTES_MAX + 1])
def test_a_request_that_no_function_could_take_is_413(stack: RunningStack, size: int) -> None:
    connection = http.client.HTTPConnection(str(urlsplit(stack.url).netloc), timeout=30)
    connection.request("POST", "/filters/test", b" " * size, {"content-type": "application/json"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (413, "application/problem+json")
