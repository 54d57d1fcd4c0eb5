"""What the store asks DynamoDB for, and what it makes of answers that come in parts, late, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tagcast.errors import ConditionLostError, ContendedError
from tagcast.ports import ABSENT, Delete, Key, Put, Table, Update, Write
from tagcast.tables import Check
from tagcast_aws.runtime.aws_clients import client_factory, with_plain_rows
from tagcast_aws.runtime.system import CALLS_MAX
from tagcast_aws.store.attributes import from_attribute, to_attribute
from tagcast_aws.store.conflicts import CONFLICTS_MAX
from tagcast_aws.store.dynamodb import DynamoStore

from tests.aws.account import furnished
from tests.aws.solo_timeline import SoloTimeline
from tests.aws.stack import deployed
from tests.aws.wire import wired
from tests.integration.scripted import ScriptedClient, refusal

NAMES = {Table.REGISTRY: "Registry", Table.MESSAGES: "Messages"}
ROW = Key(Table.MESSAGES, "MSG#t#1", "MSG")
OTHER = Key(Table.REGISTRY, "TOPIC#t", "TOPIC")
ROW_KEY = {"pk": {"S": "MSG#t#1"}, "sk": {"S": "MSG"}}
OTHER_KEY = {"pk": {"S": "TOPIC#t"}, "sk": {"S": "TOPIC"}}


def store(
    *answers: Mapping[str, Any] | Exception, sleep: Callable[[float], object] = lambda pause_s: None
) -> tuple[DynamoStore, ScriptedClient]:
    client = ScriptedClient(list(answers))
    return DynamoStore(client, NAMES, sleep), client  # type: ignore[arg-type]


def test_a_row_is_read_strongly_consistent() -> None:
    dynamo, client = store({"Item": {**ROW_KEY, "n": {"N": "3"}}}, {})

    assert dynamo.get(ROW) == {"pk": "MSG#t#1", "sk": "MSG", "n": 3}
    assert dynamo.get(OTHER) is None
    assert client.asked == [
        ("get_item", {"TableName": "Messages", "Key": ROW_KEY, "ConsistentRead": True}),
        ("get_item", {"TableName": "Registry", "Key": OTHER_KEY, "ConsistentRead": True}),
    ]


def test_many_rows_are_read_strongly_consistent_and_what_was_left_is_asked_for_again() -> None:
    left = {"Registry": {"Keys": [OTHER_KEY], "ConsistentRead": True}}
    dynamo, client = store(
        {"Responses": {"Messages": [{**ROW_KEY, "n": {"N": "1"}}]}, "UnprocessedKeys": left},
        {"Responses": {"Registry": [{**OTHER_KEY, "n": {"N": "2"}}]}, "UnprocessedKeys": {}},
    )

    found = dynamo.get_many((ROW, OTHER, ROW))

    assert {key: row["n"] for key, row in found.items()} == {ROW: 1, OTHER: 2}
    assert client.asked == [
        ("batch_get_item", {"RequestItems": {"Messages": {"Keys": [ROW_KEY], "ConsistentRead": True}, **left}}),
        ("batch_get_item", {"RequestItems": left}),
    ]


def test_rows_that_a_client_hands_over_as_they_travel_are_the_rows_that_were_written() -> None:
    stack = deployed()
    client = with_plain_rows(wired(furnished(stack, SoloTimeline()), "dynamodb"))
    names = {Table.REGISTRY: stack.name_of("RegistryTable"), Table.MESSAGES: stack.name_of("MessagesTable")}
    dynamo, found = DynamoStore(client, names), {"pk": ROW.pk, "sk": ROW.sk, "b": b"\x00\xff", "m": {"k": "v"}, "n": 3}
    dynamo.write(Put(ROW, {"b": b"\x00\xff", "m": {"k": "v"}, "n": 3}, {"pk": ABSENT}))

    raw = client.get_item(TableName=names[Table.MESSAGES], Key=ROW_KEY, ConsistentRead=True)
    assert raw["Item"]["b"] == {"B": "AP8="}
    assert raw["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert dynamo.get(ROW) == found
    assert dynamo.get(OTHER) is None
    assert dynamo.get_many([ROW, OTHER]) == {ROW: found}
    assert dynamo.query(Table.MESSAGES, ROW.pk) == [found]
    with pytest.raises(ConditionLostError):
        dynamo.write(Put(ROW, {}, {"pk": ABSENT}))
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_item(TableName="no table", Key=ROW_KEY)


def test_more_than_a_hundred_rows_are_never_asked_for_at_once() -> None:
    dynamo, client = store({"Responses": {}})

    with pytest.raises(AssertionError):
        dynamo.get_many([Key(Table.MESSAGES, "p", str(number)) for number in range(101)])
    assert client.asked == []
    assert dynamo.get_many([Key(Table.MESSAGES, "p", str(number)) for number in range(100)]) == {}


def test_reading_no_rows_asks_for_nothing() -> None:
    dynamo, client = store()

    assert dynamo.get_many(()) == {}
    assert client.asked == []


def pages() -> list[dict[str, Any]]:
    """Three pages of a partition; the second shows nothing of what it read."""
    a, b = {"sk": {"S": "a"}}, {"sk": {"S": "b"}}
    return [
        {"Items": [a, b], "LastEvaluatedKey": b},
        {"Items": [], "LastEvaluatedKey": {"sk": {"S": "bb"}}},
        {"Items": [a]},
    ]


@pytest.mark.parametrize(("limit", "limits"), [(None, [None] * 3), (3, [3, 1, 1]), (9, [9, 7, 7])])
def test_a_query_is_strongly_consistent_and_goes_on_where_a_page_ended_for_what_its_limit_leaves(
    limit: int | None, limits: list[int | None]
) -> None:
    dynamo, client = store(*pages())
    request = {
        "TableName": "Messages",
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
        "ExpressionAttributeValues": {":pk": {"S": "p"}, ":low": {"S": "\x00"}, ":high": {"S": "\U0010ffff"}},
        "ConsistentRead": True,
    }

    assert dynamo.query(Table.MESSAGES, "p", limit=limit) == [{"sk": "a"}, {"sk": "b"}, {"sk": "a"}]
    starts = [{}, *({"ExclusiveStartKey": page["LastEvaluatedKey"]} for page in pages()[:2])]
    most = [{} if each is None else {"Limit": each} for each in limits]
    assert client.asked == [("query", request | start | each) for start, each in zip(starts, most, strict=True)]


def test_a_query_within_bounds_ends_when_it_has_enough() -> None:
    dynamo, client = store(pages()[0])

    assert len(dynamo.query(Table.REGISTRY, "p", sk_from="a", sk_to="c", limit=2)) == 2
    [request] = client.requests
    assert request["TableName"] == "Registry"
    assert request["ExpressionAttributeValues"] == {":pk": {"S": "p"}, ":low": {"S": "a"}, ":high": {"S": "c"}}


def test_pauses_between_tries_are_drawn_from_windows_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[tuple[float, float]] = []

    def longest(low: float, high: float) -> float:
        windows.append((low, high))
        return high

    slept: list[float] = []
    monkeypatch.setattr(random, "uniform", longest)
    dynamo, client = store(*[refusal("TransactionConflictException")] * CONFLICTS_MAX, sleep=slept.append)

    with pytest.raises(ContendedError):
        dynamo.write(Delete(ROW))

    assert len(client.asked) == CONFLICTS_MAX
    assert slept == pytest.approx([0.02, 0.08])
    assert windows == [(0.0, pause) for pause in slept]


EVERY_WRITE: list[tuple[Write, str, dict[str, Any]]] = [
    (
        Put(ROW, {"n": 1, "b": b"x"}, {"pk": ABSENT}),
        "put_item",
        {
            "TableName": "Messages",
            "Item": {**ROW_KEY, "n": {"N": "1"}, "b": {"B": b"x"}},
            "ConditionExpression": "attribute_not_exists(#n0)",
            "ExpressionAttributeNames": {"#n0": "pk"},
        },
    ),
    (Put(OTHER, {}), "put_item", {"TableName": "Registry", "Item": OTHER_KEY}),
    (
        Update(ROW, {"a": 1, "b": "x"}, ("c", "d"), {"a": 0, "e": ABSENT}, {"f": 2}),
        "update_item",
        {
            "TableName": "Messages",
            "Key": ROW_KEY,
            "UpdateExpression": "SET #n0 = :v0, #n1 = :v1 REMOVE #n2, #n3 ADD #n4 :v2",
            "ConditionExpression": "#n0 = :v3 AND attribute_not_exists(#n5)",
            "ExpressionAttributeNames": {"#n0": "a", "#n1": "b", "#n2": "c", "#n3": "d", "#n4": "f", "#n5": "e"},
            "ExpressionAttributeValues": {":v0": {"N": "1"}, ":v1": {"S": "x"}, ":v2": {"N": "2"}, ":v3": {"N": "0"}},
        },
    ),
    (
        Update(ROW, {}, ("c",)),
        "update_item",
        {
            "TableName": "Messages",
            "Key": ROW_KEY,
            "UpdateExpression": "REMOVE #n0",
            "ExpressionAttributeNames": {"#n0": "c"},
        },
    ),
    (
        Delete(ROW, {"claim": 3}),
        "delete_item",
        {
            "TableName": "Messages",
            "Key": ROW_KEY,
            "ConditionExpression": "#n0 = :v0",
            "ExpressionAttributeNames": {"#n0": "claim"},
            "ExpressionAttributeValues": {":v0": {"N": "3"}},
        },
    ),
]


@pytest.mark.parametrize(("write", "operation", "request_"), EVERY_WRITE)
def test_a_write_is_one_request_with_its_condition(write: Write, operation: str, request_: dict[str, Any]) -> None:
    dynamo, client = store({})

    dynamo.write(write)

    assert client.asked == [(operation, request_)]


def test_a_transaction_is_one_request_with_all_its_writes_in_order() -> None:
    dynamo, client = store({})

    dynamo.transact([*(write for write, _, _ in EVERY_WRITE), Check(OTHER, {"n": 1})])

    [(operation, request)] = client.asked
    kinds = {"put_item": "Put", "update_item": "Update", "delete_item": "Delete"}
    checked = {
        "TableName": "Registry",
        "Key": OTHER_KEY,
        "ConditionExpression": "#n0 = :v0",
        "ExpressionAttributeNames": {"#n0": "n"},
        "ExpressionAttributeValues": {":v0": {"N": "1"}},
    }
    assert operation == "transact_write_items"
    assert request["TransactItems"] == [
        *({kinds[name]: item} for _, name, item in EVERY_WRITE),
        {"ConditionCheck": checked},
    ]


def test_many_updates_are_one_request_in_which_each_has_its_condition() -> None:
    failed = {"Error": {"Code": "ConditionalCheckFailed"}, "TableName": "Messages"}
    dynamo, client = store({"Responses": [{"TableName": "Messages"}, failed]})

    done = dynamo.update_each(
        [Update(ROW, {"a": 1, "b": b"x"}, ("c", "d"), {"a": 0}), Update(OTHER, {"a": 1}, expect={"e": "x", "f": 2})]
    )

    assert done == [True, False]
    assert client.asked == [
        (
            "batch_execute_statement",
            {
                "Statements": [
                    {
                        "Statement": 'UPDATE "Messages" SET "a"=? SET "b"=? REMOVE "c" REMOVE "d"'
                        ' WHERE "pk"=? AND "sk"=? AND "a"=?',
                        "Parameters": [{"N": "1"}, {"B": b"x"}, *ROW_KEY.values(), {"N": "0"}],
                    },
                    {
                        "Statement": 'UPDATE "Registry" SET "a"=? WHERE "pk"=? AND "sk"=? AND "e"=? AND "f"=?',
                        "Parameters": [{"N": "1"}, *OTHER_KEY.values(), {"S": "x"}, {"N": "2"}],
                    },
                ]
            },
        )
    ]


@pytest.mark.parametrize("update", [Update(ROW, {"a": 1}), Update(ROW, {}, expect={"a": 1}, add={"n": 1})])
def test_an_update_without_a_condition_and_one_that_adds_never_travel_with_others(update: Update) -> None:
    dynamo, client = store()

    with pytest.raises(AssertionError):
        dynamo.update_each([update])
    assert client.asked == []


def test_a_check_alone_is_refused() -> None:
    dynamo, client = store({})

    with pytest.raises(TypeError, match="read"):
        dynamo.write(Check(ROW, {"n": 1}))
    assert client.asked == []


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        ("a", {"S": "a"}),
        (-3, {"N": "-3"}),
        (b"\x00", {"B": b"\x00"}),
        ({"k": "v"}, {"M": {"k": {"S": "v"}}}),
        (["a", "b"], {"L": [{"S": "a"}, {"S": "b"}]}),
        (None, {"NULL": True}),
    ],
)
def test_each_kind_of_value_has_its_type_in_the_table(value: Any, attribute: dict[str, Any]) -> None:
    assert to_attribute(value) == attribute
    assert from_attribute(attribute) == value


def test_a_boolean_is_no_value_of_a_row() -> None:
    with pytest.raises(TypeError, match="booleans"):
        to_attribute(True)


def test_a_client_has_a_connection_for_each_thread_and_compares_nothing_with_the_model() -> None:
    configs: list[Any] = []
    client_factory(lambda service, config: configs.append(config))("dynamodb")

    [config] = configs
    assert (config.max_pool_connections, config.parameter_validation) == (CALLS_MAX, False)
