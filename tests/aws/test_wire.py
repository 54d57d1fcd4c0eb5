"""botocore itself before the box: its retries and its error classes."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from tests.aws.faults import Kind
from tests.aws.small_account import SmallAccount, item, key, scripted
from tests.aws.wire import wired

ONCE = Config(retries={"total_max_attempts": 1})


@pytest.mark.parametrize("kind", [Kind.THROTTLED, Kind.FAILED_BEFORE, Kind.LOST_ANSWER, Kind.UNREACHABLE])
def test_botocore_tries_again_after_the_same_accidents_as_the_box_s_own_client(kind: Kind) -> None:
    attempts = []
    for make in (wired, lambda box, service: box.client(service, "administrator")):
        account = SmallAccount(scripted(kind))
        answer = make(account.box, "dynamodb").put_item(TableName="rows", Item=item("a"))
        attempts.append(answer["ResponseMetadata"]["RetryAttempts"])
    assert attempts == [1, 1]


def test_a_token_stays_the_same_while_botocore_tries_again() -> None:
    account = SmallAccount(scripted(Kind.LOST_ANSWER))
    add = {"Update": {"TableName": "rows", "Key": key("a"), "UpdateExpression": "ADD n :n",
                      "ExpressionAttributeValues": {":n": {"N": "1"}}}}  # fmt: skip
    wired(account.box, "dynamodb").transact_write_items(TransactItems=[add])
    assert list(account.rows.rows()) == [item("a", n=1)]


@pytest.mark.parametrize(
    ("kind", "error"), [(Kind.LOST_ANSWER, ConnectionClosedError), (Kind.UNANSWERED, ReadTimeoutError)]
)
def test_lost_answers_are_the_same_errors(kind: Kind, error: type[Exception]) -> None:
    for make in (wired, lambda box, service, config: box.client(service, "administrator", config)):
        account = SmallAccount(scripted(kind))
        client = make(account.box, "dynamodb", config=ONCE)
        with pytest.raises(error):
            client.get_item(TableName="rows", Key=key("a"))


CANCELLED = {"Put": {"TableName": "rows", "Item": item("a"), "ConditionExpression": "attribute_exists(pk)"}}
LOST = {"TableName": "rows", "Key": key("b"), "ConditionExpression": "attribute_exists(pk)"}


@pytest.mark.parametrize(
    ("service", "operation", "parameters"),
    [
        ("dynamodb", "transact_write_items", {"TransactItems": [CANCELLED]}),
        ("dynamodb", "delete_item", LOST),
        ("dynamodb", "get_item", {"TableName": "absent", "Key": key("a")}),
        ("dynamodb", "update_item", {"TableName": "rows", "Key": key("a"), "UpdateExpression": "REMOVE pk"}),
        ("sqs", "receive_message", {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/absent"}),
        ("firehose", "put_record_batch", {"DeliveryStreamName": "absent", "Records": [{"Data": b""}]}),
    ],
)
def test_errors_are_the_same_up_to_their_metadata(service: str, operation: str, parameters: Any) -> None:
    told = []
    account = SmallAccount()
    for client in (wired(account.box, service), account.client(service)):
        with pytest.raises(ClientError) as caught:
            getattr(client, operation)(**parameters)
        response: dict[str, Any] = dict(caught.value.response)
        response["Error"].pop("Type", None)
        status = response.pop("ResponseMetadata")["HTTPStatusCode"]
        told.append((type(caught.value).__name__, status, response, str(caught.value)))
    assert told[0] == told[1]
