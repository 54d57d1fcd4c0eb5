"""The time to live as the local stack plays it: what has expired goes, what was renewed meanwhile stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.sources.expiry import Expiry

NOW_S = 1_800_000_000
ROWS: dict[str, dict[str, Any]] = {
    "before": {"ttl": {"N": str(NOW_S - 1)}},
    "now": {"ttl": {"N": str(NOW_S)}},
    "later": {"ttl": {"N": str(NOW_S + 1)}},
    "never": {},
}


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="us-east-1")
        client.create_table(
            TableName="T",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        )
        for name, row in ROWS.items():
            client.put_item(TableName="T", Item={"pk": {"S": name}, "sk": {"S": "row"}, **row})
        yield client


def left(dynamodb: Any) -> set[str]:
    return {row["pk"]["S"] for row in dynamodb.scan(TableName="T")["Items"]}


def test_rows_go_when_their_time_is_over_and_no_others(dynamodb: Any) -> None:
    expiry = Expiry(dynamodb, "T", "ttl")

    assert expiry.collect(NOW_S) == 2
    assert left(dynamodb) == {"later", "never"}
    assert expiry.collect(NOW_S) == 0


def test_a_row_that_is_renewed_after_it_was_found_stays(dynamodb: Any) -> None:
    def renew(**_: Any) -> None:
        dynamodb.meta.events.unregister("before-call.dynamodb.DeleteItem", renew)
        for name in ("before", "now"):
            row = {"pk": {"S": name}, "sk": {"S": "row"}, "ttl": {"N": str(NOW_S + 60)}}
            dynamodb.put_item(TableName="T", Item=row)

    dynamodb.meta.events.register("before-call.dynamodb.DeleteItem", renew)

    assert Expiry(dynamodb, "T", "ttl").collect(NOW_S) == 0
    assert left(dynamodb) == set(ROWS)
