"""Writes of single rows: conditions, updates, and what DynamoDB refuses."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from tests.aws import limits
from tests.aws.attributes import item_bytes
from tests.aws.faults import UnplayedError
from tests.aws.small_account import SmallAccount, code_of, item, key


class Rows:
    """The table `rows` through a client."""

    def __init__(self) -> None:
        self.account = SmallAccount()
        self.client = self.account.client("dynamodb")

    def put(self, row: dict[str, Any], condition: str | None = None, values: Any = None) -> dict[str, Any]:
        request = {"TableName": "rows", "Item": row}
        if condition is not None:
            request["ConditionExpression"] = condition
        if values is not None:
            request["ExpressionAttributeValues"] = values
        answer: dict[str, Any] = self.client.put_item(**request)
        return answer

    def update(self, sk: str, text: str, values: Any = None, names: Any = None) -> dict[str, Any]:
        request = {"TableName": "rows", "Key": key(sk), "UpdateExpression": text}
        if values is not None:
            request["ExpressionAttributeValues"] = values
        if names is not None:
            request["ExpressionAttributeNames"] = names
        answer: dict[str, Any] = self.client.update_item(**request)
        return answer

    def get(self, sk: str) -> Any:
        return self.client.get_item(TableName="rows", Key=key(sk), ConsistentRead=True).get("Item")


@pytest.fixture
def rows() -> Rows:
    return Rows()


def test_numbers_are_answered_in_their_plain_form(rows: Rows) -> None:
    rows.put({**item("a"), "n": {"N": "007.50"}, "e": {"N": "1E3"}, "z": {"N": "-0"}})
    assert [rows.get("a")[name]["N"] for name in "nez"] == ["7.5", "1000", "0"]


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        ("attribute_exists(pk)", None, True),
        ("attribute_not_exists(pk)", None, False),
        ("attribute_not_exists(nowhere)", None, True),
        ("n = :v", {":v": {"N": "5.0"}}, True),
        ("n = :v", {":v": {"S": "5"}}, False),
        ("nowhere < :v", {":v": {"N": "5"}}, False),
        ("n < :v", {":v": {"N": "10"}}, True),
        ("n >= :v", {":v": {"N": "5"}}, True),
        ("begins_with(t, :v)", {":v": {"S": "te"}}, True),
        ("attribute_exists(nowhere) OR n = :v AND t = :w", {":v": {"N": "5"}, ":w": {"S": "text"}}, True),
        ("(attribute_exists(pk) OR n = :v) AND t = :w", {":v": {"N": "5"}, ":w": {"S": "x"}}, False),
    ],
)
def test_a_condition_decides_over_the_write(rows: Rows, condition: str, values: Any, holds: bool) -> None:
    old, new = item("a", n=5, t="text"), item("a", n=6)
    rows.put(old)
    if holds:
        rows.put(new, condition, values)
        assert rows.get("a") == new
    else:
        assert code_of(lambda: rows.put(new, condition, values)) == "ConditionalCheckFailedException"
        assert rows.get("a") == old


@pytest.mark.parametrize(
    ("text", "values", "names"),
    [
        ("SET n = :v SET t = :v", {":v": {"S": "x"}}, None),
        ("SET n = :v, n = :v", {":v": {"S": "x"}}, None),
        ("SET #n = :v", {":v": {"S": "x"}}, None),
        ("SET n = :v", {":v": {"S": "x"}}, {"#unused": "x"}),
        ("ADD t :v", {":v": {"N": "1"}}, None),
        ("ADD n :v", {":v": {"S": "1"}}, None),
        ("SET keeper = :v", {":v": {"N": "1"}}, None),  # The index wants a text.
        ("SET keeper = :v", {":v": {"S": ""}}, None),
        ("SET n = :v", {":v": {"N": "many"}}, None),
        ("SET", None, None),
        ("SET n == :v", {":v": {"S": "x"}}, None),
        ("UPSERT n = :v", {":v": {"S": "x"}}, None),
        ("SET " + "n" * limits.EXPRESSION_BYTES_MAX + " = :v", {":v": {"S": "x"}}, None),
    ],
)
def test_an_update_that_breaks_a_rule_is_refused_and_does_nothing(
    rows: Rows, text: str, values: Any, names: Any
) -> None:
    rows.put(item("a", n=1, t="x"))
    assert code_of(lambda: rows.update("a", text, values, names)) == "ValidationException"
    assert rows.get("a") == item("a", n=1, t="x")


@pytest.mark.parametrize(
    "bad",
    [
        {"pk": {"S": "p"}},
        {"pk": {"S": ""}, "sk": {"S": "a"}},
        {"pk": {"N": "1"}, "sk": {"S": "a"}},
        {"pk": {"S": "p" * (limits.HASH_KEY_BYTES_MAX + 1)}, "sk": {"S": "a"}},
        {"pk": {"S": "p"}, "sk": {"S": "é" * (limits.RANGE_KEY_BYTES_MAX // 2 + 1)}},
    ],
)
def test_a_key_has_its_attributes_types_and_sizes(rows: Rows, bad: Any) -> None:
    assert code_of(lambda: rows.put(bad)) == "ValidationException"
    assert code_of(lambda: rows.client.get_item(TableName="rows", Key=bad)) == "ValidationException"


def test_a_key_with_another_attribute_is_no_key(rows: Rows) -> None:
    assert code_of(lambda: rows.client.get_item(TableName="rows", Key=item("a", n=1))) == "ValidationException"


def test_an_empty_text_is_a_value_but_no_key(rows: Rows) -> None:
    rows.put({**item("a"), "t": {"S": ""}})
    assert rows.get("a")["t"] == {"S": ""}


def test_what_botocore_refuses_never_reaches_the_table(rows: Rows) -> None:
    with pytest.raises(ParamValidationError, match="Missing required parameter"):
        rows.client.put_item(TableName="rows")
    with pytest.raises(ParamValidationError, match="Unknown parameter"):
        rows.client.put_item(TableName="rows", Item=item("a"), Condition="x")
    with pytest.raises(ParamValidationError, match="Invalid type"):
        rows.put({**item("a"), "n": {"N": 5}})
    assert not rows.account.box.calls


def test_what_a_caller_does_with_its_request_and_the_answer_does_not_reach_the_table(rows: Rows) -> None:
    row = {**item("a"), "l": {"L": [{"S": "one"}]}}
    rows.put(row)
    row["l"]["L"].append({"S": "two"})
    answer = rows.get("a")
    answer["n"] = {"N": "1"}
    assert rows.get("a") == {**item("a"), "l": {"L": [{"S": "one"}]}}


@pytest.mark.parametrize(
    ("attribute", "size"),
    [
        ({"S": "aé"}, 3),
        ({"N": "5"}, 2),
        ({"N": "123"}, 3),
        ({"N": "12000"}, 2),
        ({"N": "-1.5"}, 3),
        ({"B": b"abc"}, 3),
        ({"NULL": True}, 1),
        ({"BOOL": False}, 1),
        ({"L": [{"S": "ab"}, {"N": "5"}]}, 3 + 1 + 2 + 1 + 2),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
    ],
)
def test_a_value_has_the_size_that_dynamodb_counts(attribute: Any, size: int) -> None:
    assert item_bytes({"name": attribute}) == len("name") + size


@pytest.mark.parametrize(
    "asked",
    [
        {"UpdateExpression": "SET m.k = :v"},
        {"UpdateExpression": "SET n = if_not_exists(n, :v)"},
        {"ConditionExpression": "size(t) = :v"},
        {"ConditionExpression": "n <> :v"},
        {"ConditionExpression": "n = :v", "ReturnValues": "ALL_OLD"},
    ],
)
def test_what_the_shipped_code_never_asks_for_is_no_answer_of_dynamodb(rows: Rows, asked: dict[str, Any]) -> None:
    values = {"ExpressionAttributeValues": {":v": {"S": "x"}}}
    with pytest.raises(UnplayedError, match="the box"):
        rows.client.update_item(TableName="rows", Key=key("a"), **asked, **values)
