"""Reads: pages, order, indexes, and reads that are some writes behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.aws import limits
from tests.aws.small_account import SmallAccount, code_of, item, key, scripted


def fill(account: SmallAccount, count: int, pk: str = "p", **more: Any) -> Any:
    client = account.client("dynamodb")
    for place in range(count):
        client.put_item(TableName="rows", Item=item(f"{place:04}", pk=pk, **more))
        account.time.spend(200)
    account.time.spend(limits.STALE_MS + 1000)
    return client


def query(client: Any, condition: str = "pk = :p", pk: str = "p", **more: Any) -> dict[str, Any]:
    values = {":p": {"S": pk}, **more.pop("values", {})}
    answer: dict[str, Any] = client.query(
        TableName="rows", KeyConditionExpression=condition, ExpressionAttributeValues=values, **more
    )
    return answer


def names(answer: dict[str, Any]) -> list[str]:
    return [row["sk"]["S"] for row in answer["Items"]]


@pytest.mark.parametrize(
    ("condition", "values", "found"),
    [
        ("pk = :p AND sk = :a", ("0001",), ["0001"]),
        ("pk = :p AND sk <= :a", ("0001",), ["0000", "0001"]),
        ("sk <= :a AND pk = :p", ("0001",), ["0000", "0001"]),
        ("pk = :p AND sk BETWEEN :a AND :b", ("0001", "0002"), ["0001", "0002"]),
        ("pk = :p AND sk = :a", ("1",), []),
    ],
)
@pytest.mark.parametrize("consistent", [True, False])
def test_a_query_finds_the_rows_of_its_range_in_order(
    account: SmallAccount, condition: str, values: tuple[str, ...], found: list[str], consistent: bool
) -> None:
    client = fill(account, 5)
    marks = {mark: {"S": value} for mark, value in zip((":a", ":b"), values, strict=False)}
    answer = query(client, condition, values=marks, ConsistentRead=consistent)
    assert names(answer) == found
    assert answer["Count"] == answer["ScannedCount"] == len(found)


@pytest.mark.parametrize(
    "condition",
    ["sk = :p", "pk > :p", "pk = :p AND n = :p", "pk = :p OR sk = :p", "pk = :p AND sk = :p AND sk = :p", "pk <> :p"],
)
def test_a_key_condition_names_the_hash_key_and_at_most_a_range(account: SmallAccount, condition: str) -> None:
    assert code_of(lambda: query(account.client("dynamodb"), condition)) == "ValidationException"


def test_the_bounds_of_a_range_are_in_order(account: SmallAccount) -> None:
    bounds = {":a": {"S": "2"}, ":b": {"S": "1"}}
    bad = code_of(lambda: query(account.client("dynamodb"), "pk = :p AND sk BETWEEN :a AND :b", values=bounds))
    assert bad == "ValidationException"


def test_a_projection_answers_what_it_names(account: SmallAccount) -> None:
    client = fill(account, 1, n=1, t="x")
    more: dict[str, Any] = {"ProjectionExpression": "#t, sk", "ExpressionAttributeNames": {"#t": "t"}}
    assert query(client, **more)["Items"] == [{"t": {"S": "x"}, "sk": {"S": "0000"}}]
    assert client.get_item(TableName="rows", Key=key("0000"), **more)["Item"] == {"t": {"S": "x"}, "sk": {"S": "0000"}}


def test_an_index_has_the_rows_with_its_attributes_in_its_order(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    for sk, due in (("a", 30), ("b", 4)):
        client.put_item(TableName="rows", Item=item(sk, keeper="o", due=due))
    account.time.spend(limits.STALE_MS + 1000)
    asked = {"IndexName": "keepers", "condition": "keeper = :p", "pk": "o"}
    first = query(client, **asked, Limit=1)
    second = query(client, **asked, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert (names(first), names(second)) == (["b"], ["a"])
    client.update_item(TableName="rows", Key=key("a"), UpdateExpression="REMOVE keeper")
    account.time.spend(limits.STALE_MS + 1000)
    assert names(query(client, **asked)) == ["b"]


def test_an_eventual_read_is_sometimes_behind_and_a_consistent_one_never(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    behind = {"get": 0, "query": 0, "index": 0}
    for place in range(60):
        sk = f"{place:04}"
        client.put_item(TableName="rows", Item=item(sk, keeper="o", due=place))
        assert client.get_item(TableName="rows", Key=key(sk), ConsistentRead=True)["Item"]["sk"] == {"S": sk}
        assert sk in names(query(client, ConsistentRead=True))
        behind["get"] += "Item" not in client.get_item(TableName="rows", Key=key(sk))
        behind["query"] += sk not in names(query(client))
        behind["index"] += sk not in names(query(client, "keeper = :p", pk="o", IndexName="keepers"))
    assert all(5 < count < 55 for count in behind.values()), behind


def test_an_eventual_read_is_never_more_than_a_second_behind(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    for place in range(60):
        client.put_item(TableName="rows", Item=item(f"{place:04}"))
        account.time.spend(limits.STALE_MS + 1)
        assert "Item" in client.get_item(TableName="rows", Key=key(f"{place:04}"))


def test_a_reader_behind_sees_rows_that_are_gone_and_old_values(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    seen: set[tuple[Any, ...]] = set()
    for _ in range(60):
        client.put_item(TableName="rows", Item=item("a", keeper="old", due=1))
        client.put_item(TableName="rows", Item=item("b"))
        account.time.spend(limits.STALE_MS + 1000)
        client.put_item(TableName="rows", Item=item("a", keeper="new", due=1))
        client.delete_item(TableName="rows", Key=key("b"))
        rows = query(client)["Items"]
        seen.add((rows[0]["keeper"]["S"], len(rows)))
        seen.add(tuple(names(query(client, "keeper = :p", pk="old", IndexName="keepers"))))
    assert {("new", 1), ("old", 2), ("a",), ()} <= seen


def test_a_scan_reads_every_row_in_no_order_of_the_hash_key(account: SmallAccount) -> None:
    for letter in "abcdefgh":
        fill(account, 2, pk=letter)
    client = account.client("dynamodb")
    read: list[str] = []
    answer = client.scan(TableName="rows", Limit=3)
    while "LastEvaluatedKey" in answer:
        read += [row["pk"]["S"] + row["sk"]["S"] for row in answer["Items"]]
        answer = client.scan(TableName="rows", Limit=3, ExclusiveStartKey=answer["LastEvaluatedKey"])
    read += [row["pk"]["S"] + row["sk"]["S"] for row in answer["Items"]]
    assert sorted(read) == [letter + sk for letter in "abcdefgh" for sk in ("0000", "0001")]
    assert read != sorted(read)


def test_a_batch_of_keys_stops_at_16_mb(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    keys = [key("a", pk=f"p{place}") for place in range(45)]
    for each in keys:
        client.put_item(TableName="rows", Item={**each, "body": {"B": bytes(390 * 1024)}})
        account.time.spend(1000)
    answer = client.batch_get_item(RequestItems={"rows": {"Keys": keys, "ConsistentRead": True}})
    left = answer["UnprocessedKeys"]["rows"]
    assert (len(answer["Responses"]["rows"]), left["Keys"]) == (42, keys[42:])
    assert left["ConsistentRead"]


def test_accidents_leave_keys_of_batches_unprocessed() -> None:
    account = SmallAccount(scripted(entries=[0]))
    client = account.client("dynamodb")
    for sk in "ab":
        client.put_item(TableName="rows", Item=item(sk))
    answer = client.batch_get_item(RequestItems={"rows": {"Keys": [key("a"), key("b")], "ConsistentRead": True}})
    assert answer["UnprocessedKeys"]["rows"]["Keys"] == [key("a")]
    assert answer["Responses"]["rows"] == [item("b")]
