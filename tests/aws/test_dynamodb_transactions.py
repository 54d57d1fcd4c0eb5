"""Transactions: all or nothing, the reasons they are cancelled for, and what happens beside one that is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.aws import limits
from tests.aws.client import RETRYABLE_CODES
from tests.aws.faults import ApiError
from tests.aws.small_account import SmallAccount, code_of, item, key, scripted


def put(sk: str, condition: str | None = None, **more: Any) -> dict[str, Any]:
    conditional = {} if condition is None else {"ConditionExpression": condition}
    return {"Put": {"TableName": "rows", "Item": item(sk, **more), **conditional}}


def transact(client: Any, *writes: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.transact_write_items(TransactItems=list(writes), **more)
    return answer


def reasons(client: Any, *writes: dict[str, Any]) -> list[str]:
    with pytest.raises(client.exceptions.TransactionCanceledException) as caught:
        transact(client, *writes)
    return [reason["Code"] for reason in caught.value.response["CancellationReasons"]]


def while_held(account: SmallAccount, act: Callable[[], None]) -> None:
    """Let *act* happen once while a transaction holds rows."""
    acted: list[bool] = []

    def look() -> None:
        if account.rows.held and not acted:
            acted.append(True)
            act()

    for ms in range(40):
        account.time.at(account.time.now + ms, look)


def refusals_while_held(account: SmallAccount, operation: str, **parameters: Any) -> list[ApiError]:
    """Let a request arrive while a transaction holds rows; the list gets the error that it ends with."""
    seen: list[ApiError] = []

    def ask() -> None:
        with pytest.raises(ApiError) as caught:
            account.at_once("dynamodb", operation, **parameters)
        seen.append(caught.value)

    while_held(account, ask)
    return seen


def test_all_writes_are_done(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    client.put_item(TableName="rows", Item=item("gone"))
    client.put_item(TableName="rows", Item=item("checked", n=1))
    transact(
        client,
        put("new"),
        {"Update": {"TableName": "rows", "Key": key("counted"), "UpdateExpression": "ADD n :n",
                    "ExpressionAttributeValues": {":n": {"N": "2"}}}},
        {"Delete": {"TableName": "rows", "Key": key("gone")}},
        {"ConditionCheck": {"TableName": "rows", "Key": key("checked"), "ConditionExpression": "n = :n",
                            "ExpressionAttributeValues": {":n": {"N": "1"}}}},
    )  # fmt: skip
    assert list(account.rows.rows()) == [item("checked", n=1), item("counted", n=2), item("new")]


def test_an_item_too_large_is_a_reason(account: SmallAccount) -> None:
    too_large = {"Put": {"TableName": "rows", "Item": {**item("a"), "b": {"B": bytes(limits.ITEM_BYTES_MAX)}}}}
    assert reasons(account.client("dynamodb"), put("b"), too_large) == ["None", "ValidationError"]


def test_an_overlapping_transaction_is_cancelled_for_the_conflict_alone(account: SmallAccount) -> None:
    items = [put("a", who="second"), put("b")]
    seen = refusals_while_held(account, "transact_write_items", TransactItems=items, ClientRequestToken="second")
    transact(account.client("dynamodb"), put("a", who="first"))
    assert [error.shape for error in seen] == ["TransactionCanceledException"]
    assert [reason["Code"] for reason in seen[0].members["CancellationReasons"]] == ["TransactionConflict", "None"]
    assert list(account.rows.rows()) == [item("a", who="first")]
    transact(account.client("dynamodb"), *items)
    assert list(account.rows.rows()) == [item("a", who="second"), item("b")]


@pytest.mark.parametrize("operation", ["put_item", "update_item", "delete_item"])
def test_a_single_write_that_meets_a_transaction_is_refused(account: SmallAccount, operation: str) -> None:
    what = {"Item": item("a", who="single")} if operation == "put_item" else {"Key": key("a")}
    seen = refusals_while_held(account, operation, TableName="rows", **what)
    transact(account.client("dynamodb"), put("a", who="transaction"), put("b"))
    assert [error.shape for error in seen] == ["TransactionConflictException"]
    assert list(account.rows.rows()) == [item("a", who="transaction"), item("b")]


def test_reads_beside_a_transaction_see_nothing_of_it(account: SmallAccount) -> None:
    client, other = account.client("dynamodb"), account.client("dynamodb")
    account.box.chance.seed(0)
    seen: list[Any] = []

    def look() -> None:
        row = account.rows.get(("p", "a"))
        seen.append(row and row.item)

    while_held(account, look)
    transact(client, put("a"), put("b"))
    assert seen == [None]
    assert other.get_item(TableName="rows", Key=key("a"), ConsistentRead=True)["Item"] == item("a")


def test_a_transaction_is_done_although_its_caller_is_gone(account: SmallAccount) -> None:
    class GoneError(Exception):
        pass

    def die() -> None:
        raise GoneError

    while_held(account, die)
    with pytest.raises(GoneError):
        transact(account.client("dynamodb"), put("a"), put("b"))
    account.time.spend(100)
    assert len(list(account.rows.rows())) == 2
    assert not account.rows.held


def test_the_same_token_again_does_nothing_for_ten_minutes(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    add = {"Update": {"TableName": "rows", "Key": key("a"), "UpdateExpression": "ADD n :n",
                      "ExpressionAttributeValues": {":n": {"N": "1"}}}}  # fmt: skip
    transact(client, add, ClientRequestToken="once")
    transact(client, add, ClientRequestToken="once")
    assert list(account.rows.rows()) == [item("a", n=1)]
    account.time.spend(1000 * limits.TRANSACTION_TOKEN_S + 1000)
    transact(client, add, ClientRequestToken="once")
    assert list(account.rows.rows()) == [item("a", n=2)]


def test_the_same_token_while_its_transaction_is_under_way_is_told_so(account: SmallAccount) -> None:
    seen = refusals_while_held(account, "transact_write_items", TransactItems=[put("a")], ClientRequestToken="once")
    transact(account.client("dynamodb"), put("a"), ClientRequestToken="once")
    assert [error.shape for error in seen] == ["TransactionInProgressException"]
    assert seen[0].shape in RETRYABLE_CODES


def test_a_cancelled_transaction_leaves_its_token_free(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    conditional = put("a", "attribute_exists(sk)")
    assert code_of(lambda: transact(client, conditional, ClientRequestToken="t")) == "TransactionCanceledException"
    client.put_item(TableName="rows", Item=item("a"))
    transact(client, conditional, ClientRequestToken="t")


def test_a_transaction_has_100_writes_and_at_most_4_mb(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    transact(client, *(put(str(place)) for place in range(100)))
    large = {"b": {"B": bytes(390 * 1024)}}
    over = [{"Put": {"TableName": "rows", "Item": {**item("x", pk=f"p{place}"), **large}}} for place in range(11)]
    account.time.spend(2000)
    assert code_of(lambda: transact(client, *over)) == "ValidationException"


def test_a_check_alone_in_a_place_of_a_write_is_refused(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    both = {**put("a"), "Delete": {"TableName": "rows", "Key": key("b")}}
    assert code_of(lambda: transact(client, both)) == "ValidationException"


def test_accidents_cancel_a_transaction_for_conflicts_and_for_its_load() -> None:
    codes = set()
    for seed in range(20):
        account = SmallAccount(scripted(entries=[1]), seed)
        (first, second) = reasons(account.client("dynamodb"), put("a"), put("b"))
        codes.add(second)
        assert first == "None"
        assert not list(account.rows.rows())
    assert codes == {"TransactionConflict", "ThrottlingError"}
