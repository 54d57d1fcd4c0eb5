"""Updates in PartiQL on the local stack: answered as the engine does by itself, and told to the table's stream."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from ministack.services import dynamodb

from local.engine import statements

TABLE = "of-statements"
SET = f'UPDATE "{TABLE}" SET "pending"=? REMOVE "body" WHERE "pk"=? AND "sk"=? AND "version"=?'
BATCHES: list[list[tuple[str, list[Any]]]] = [
    [(SET, [{"N": "0"}, {"S": "a"}, {"S": "1"}, {"N": "7"}]), (SET, [{"N": "0"}, {"S": "b"}, {"S": "1"}, {"N": "8"}])],
    [(SET, [{"N": "0"}, {"S": "nowhere"}, {"S": "1"}, {"N": "7"}])],
    [(f'UPDATE "{TABLE}" REMOVE "body" WHERE "pk"=? AND "sk"=?', [{"S": "b"}, {"S": "1"}])],
    [(f'UPDATE "{TABLE}" SET "pending"=? WHERE "pk"=?', [{"N": "0"}, {"S": "a"}])],
    [(SET, [{"N": "0"}, {"S": "a"}])],
    [('UPDATE "no-table" SET "pending"=? WHERE "pk"=? AND "sk"=?', [{"N": "0"}, {"S": "a"}, {"S": "1"}])],
    [(f'SELECT * FROM "{TABLE}" WHERE "pk"=? AND "sk"=?', [{"S": "a"}, {"S": "1"}])],
    [],
]


@contextmanager
def table() -> Iterator[None]:
    """A table with two rows and a stream."""
    dynamodb._create_table({
        "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    })  # fmt: skip
    for pk in "ab":
        row = {"pk": {"S": pk}, "sk": {"S": "1"}, "version": {"N": "7"}, "body": {"B": "AA=="}}
        dynamodb._put_item({"TableName": TABLE, "Item": row})
    yield
    dynamodb._delete_table({"TableName": TABLE})


@pytest.fixture
def ours() -> ModuleType:
    """The engine's service of tables with our way, without touching the real one."""
    made = ModuleType("made")
    vars(made).update(vars(dynamodb))
    statements.install(made)
    return made


def played(service: ModuleType) -> tuple[list[tuple[int, Any]], list[dict[str, Any]]]:
    """What a service answers to all batches, whatever words it has for a fault, and the rows after them."""
    answers = []
    for batch in BATCHES:
        asked = [{"Statement": text, "Parameters": parameters} for text, parameters in batch]
        status, _, body = service._batch_execute_statement({"Statements": asked})
        found = json.loads(body)
        for response in found.get("Responses", ()):
            response.get("Error", {}).pop("Message", None)
        answers.append((status, found))
    return answers, json.loads(dynamodb._scan({"TableName": TABLE})[2])["Items"]


def test_updates_are_answered_and_carried_out_as_the_engine_does_by_itself(ours: ModuleType) -> None:
    with table():
        answers, rows = played(ours)
    with table():
        assert (answers, rows) == played(dynamodb)
    assert {"N": "0"} in [row.get("pending") for row in rows]


def test_the_stream_tells_of_every_update_that_was_carried_out(ours: ModuleType) -> None:
    with table():
        before = len(dynamodb._stream_records[TABLE])
        played(ours)
        told = [record["dynamodb"] for record in dynamodb._stream_records[TABLE][before:]]
    assert [(each["Keys"]["pk"]["S"], "body" in each["OldImage"], "body" in each["NewImage"]) for each in told] == [
        ("a", True, False),
        ("b", True, False),
    ]
