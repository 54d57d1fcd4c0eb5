"""DynamoDB in the box and in the local engine: the same calls, the same answers.

Where they differ the documentation of DynamoDB decides: `DIFFERENCES` says what the engine does, and why it is not what
DynamoDB does. A difference that is gone fails as well, so that the list stays true.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.aws import limits
from tests.aws.contract import BoxWorld, Case, Cases, World, refusal, refused, seen
from tests.aws.small_account import item, key

CASES = Cases()
case = CASES.case


def put(world: World, row: Any, **more: Any) -> Any:
    return world.client("dynamodb").put_item(TableName="rows", Item=row, **more)


def get(world: World, pk: str, sk: str = "a") -> Any:
    answer = world.client("dynamodb").get_item(TableName="rows", Key=key(sk, pk), ConsistentRead=True)
    return answer.get("Item")


def update(world: World, pk: str, text: str, **more: Any) -> Any:
    values = {f":{name}": value for name, value in more.pop("values", {}).items()}
    if values:
        more["ExpressionAttributeValues"] = values
    return world.client("dynamodb").update_item(TableName="rows", Key=key("a", pk), UpdateExpression=text, **more)


def query(world: World, pk: str, **more: Any) -> Any:
    values = {":p": {"S": pk}, **more.pop("values", {})}
    condition = more.pop("condition", "pk = :p")
    if "IndexName" not in more:
        more["ConsistentRead"] = True
    return world.client("dynamodb").query(
        TableName="rows", KeyConditionExpression=condition, ExpressionAttributeValues=values, **more
    )


def names(answer: Any) -> list[str]:
    return [row["sk"]["S"] for row in answer["Items"]]


def transact(world: World, *writes: Any, **more: Any) -> Any:
    answer = world.client("dynamodb").transact_write_items(TransactItems=list(writes), **more)
    return sorted(answer.keys() - {"ResponseMetadata"})


def putting(row: Any, **more: Any) -> Any:
    return {"Put": {"TableName": "rows", "Item": row, **more}}


@case
def typed_values(world: World) -> Any:
    put(world, {**item("a", "types"), "n": {"N": "007.50"}, "b": {"B": b"\x00"}, "z": {"NULL": True}})
    return get(world, "types")


@case
def nested_values(world: World) -> Any:
    put(world, {**item("a", "nested"), "m": {"M": {"l": {"L": [{"S": "x"}, {"M": {}}]}}}})
    return get(world, "nested")


@case
def lost_condition(world: World) -> Any:
    put(world, item("a", "lost"))
    return seen(lambda w: put(w, item("a", "lost"), ConditionExpression="attribute_not_exists(pk)"), world)


@case
def comparison_of_numbers(world: World) -> Any:
    put(world, item("a", "numbers", n=5))
    condition = {"ConditionExpression": "n = :n", "ExpressionAttributeValues": {":n": {"N": "5.0"}}}
    return refusal(put, world=world, row=item("a", "numbers", n=6), **condition)


@case
def update_of_many_sections(world: World) -> Any:
    put(world, item("a", "sections", n=5, gone="x"))
    values = {"t": {"S": "t"}, "n": {"N": "2"}}
    update(world, "sections", "SET t = :t REMOVE gone ADD n :n", values=values)
    return get(world, "sections")


@case
def update_of_what_is_absent(world: World) -> Any:
    update(world, "upsert", "REMOVE nothing ADD n :n", values={"n": {"N": "1"}})
    return get(world, "upsert")


@case
def item_of_400_kb(world: World) -> Any:
    row = {**item("a", "large"), "b": {"B": bytes(limits.ITEM_BYTES_MAX - len("pklargeskab"))}}
    over = {**item("a", "large"), "b": {"B": bytes(limits.ITEM_BYTES_MAX - len("pklargeskab") + 1)}}
    return [refusal(put, world=world, row=row), refusal(put, world=world, row=over)]


@case
def update_beyond_400_kb(world: World) -> Any:
    put(world, {**item("a", "grown"), "b": {"B": bytes(390 * 1024)}})
    return refusal(update, world=world, pk="grown", text="SET c = :v", values={"v": {"B": bytes(20 * 1024)}})


@case
def query_of_a_range(world: World) -> Any:
    for sk in ("b", "a", "c"):
        put(world, item(sk, "order"))
    bounds = {"condition": "pk = :p AND sk BETWEEN :a AND :b", "values": {":a": {"S": "a"}, ":b": {"S": "b"}}}
    return [names(query(world, "order")), names(query(world, "order", **bounds))]


@case
def pages_by_limit(world: World) -> Any:
    for sk in "abc":
        put(world, item(sk, "pages"))
    first = query(world, "pages", Limit=2)
    rest = query(world, "pages", Limit=2, ExclusiveStartKey=first["LastEvaluatedKey"])
    return [names(first), first["LastEvaluatedKey"], names(rest), "LastEvaluatedKey" in rest]


@case
def page_that_is_just_full(world: World) -> Any:
    for sk in "ab":
        put(world, item(sk, "full"))
    return "LastEvaluatedKey" in query(world, "full", Limit=2)


@case
def page_of_1_mb(world: World) -> Any:
    for sk in "abcd":
        put(world, {**item(sk, "mb"), "b": {"B": bytes(300 * 1024)}})
    answer = query(world, "mb")
    return [names(answer), answer.get("LastEvaluatedKey")]


@case
def filtered_page(world: World) -> Any:
    for place, sk in enumerate("abc"):
        put(world, item(sk, "filtered", n=place))
    answer = query(world, "filtered", FilterExpression="n > :n", values={":n": {"N": "0"}}, Limit=2)
    return [names(answer), answer["Count"], answer["ScannedCount"]]


@case
def index_in_order(world: World) -> Any:
    for sk, due in (("a", 30), ("b", 4), ("c", 200)):
        put(world, item(sk, "sorted", keeper="sorted", due=due))
    put(world, item("sparse", "sorted", keeper="sorted"))
    if isinstance(world, BoxWorld):
        world.account.time.spend(limits.STALE_MS + 1000)
    asked = {"condition": "keeper = :p AND due <= :d", "values": {":d": {"N": "100"}}, "IndexName": "keepers"}
    first = query(world, "sorted", Limit=1, **asked)
    return [names(query(world, "sorted", **asked)), first["LastEvaluatedKey"]]


@case
def batch_of_keys(world: World) -> Any:
    for sk in "ab":
        put(world, item(sk, "batch"))
    keys = [key(sk, "batch") for sk in ("a", "b", "absent")]
    answer = world.client("dynamodb").batch_get_item(RequestItems={"rows": {"Keys": keys, "ConsistentRead": True}})
    return [sorted(row["sk"]["S"] for row in answer["Responses"]["rows"]), answer["UnprocessedKeys"]]


@case
def many_updates(world: World) -> Any:
    for sk in "abc":
        put(world, {**item(sk, "many", n=1), "body": {"B": b"x"}})
    text = 'UPDATE "rows" SET "n"=? SET "b"=? REMOVE "body" REMOVE "absent" WHERE "pk"=? AND "sk"=? AND "n"=?'
    expected = {"a": "1", "b": "7", "c": "1", "absent": "1"}
    statements = [
        {"Statement": text, "Parameters": [{"N": "2"}, {"B": b"\x00"}, {"S": "many"}, {"S": sk}, {"N": n}]}
        for sk, n in expected.items()
    ]
    answers = world.client("dynamodb").batch_execute_statement(Statements=statements)["Responses"]
    told = [each.get("Error", {}).get("Code") for each in answers]
    return [told, [get(world, "many", sk) for sk in "abc"]]


@case
def transaction(world: World) -> Any:
    put(world, item("c", "transacted", n=1))
    check = {"TableName": "rows", "Key": key("c", "transacted"), "ConditionExpression": "attribute_exists(pk)"}
    told = transact(world, putting(item("a", "transacted")), {"ConditionCheck": check})
    return [told, names(query(world, "transacted"))]


@case
def cancelled_transaction(world: World) -> Any:
    lost = putting(item("b", "cancelled"), ConditionExpression="attribute_exists(pk)")
    told = seen(lambda w: transact(w, putting(item("a", "cancelled")), lost), world)
    return [told, names(query(world, "cancelled"))]


@case
def transaction_with_an_item_too_large(world: World) -> Any:
    large = {**item("b", "toolarge"), "b": {"B": bytes(limits.ITEM_BYTES_MAX)}}
    return seen(lambda w: transact(w, putting(item("a", "toolarge")), putting(large)), world)


@case
def token_again(world: World) -> Any:
    add = {"Update": {"TableName": "rows", "Key": key("a", "token"), "UpdateExpression": "ADD n :n",
                      "ExpressionAttributeValues": {":n": {"N": "1"}}}}  # fmt: skip
    for _ in range(2):
        transact(world, add, ClientRequestToken="contract-token")
    return get(world, "token")


@case
def token_for_another_request(world: World) -> Any:
    transact(world, putting(item("a", "mismatch")), ClientRequestToken="contract-mismatch")
    return seen(lambda w: transact(w, putting(item("b", "mismatch")), ClientRequestToken="contract-mismatch"), world)


X = {"v": {"S": "x"}}
REFUSALS: dict[str, Case] = {
    "update_of_a_key": lambda world: update(world, "keys", "SET sk = :v", values=X),
    "reserved_word": lambda world: update(world, "words", "SET ttl = :v", values=X),
    "unused_value": lambda world: update(world, "unused", "SET a = :v", values={**X, "w": {"S": "x"}}),
    "undefined_value": lambda world: update(world, "undefined", "SET a = :w", values=X),
    "overlapping_paths": lambda world: update(world, "paths", "SET a = :v, a = :v", values=X),
    "empty_key": lambda world: put(world, item("", "empty")),
    "missing_key": lambda world: put(world, {"pk": {"S": "p"}}),
    "index_key_of_another_type": lambda world: put(world, {**item("a", "indexed"), "keeper": {"N": "1"}}),
    "number_of_39_digits": lambda world: put(world, {**item("a", "digits"), "n": {"N": "1" * 39}}),
    "absent_table": lambda world: world.client("dynamodb").get_item(TableName="other", Key=key("a")),
    "lost_condition_of_what_is_absent": lambda world: world.client("dynamodb").delete_item(
        TableName="rows", Key=key("a", "absent"), ConditionExpression="attribute_exists(pk)"
    ),
    "consistent_read_of_an_index": lambda world: query(
        world, "x", condition="keeper = :p", IndexName="keepers", ConsistentRead=True
    ),
    "batch_of_101_keys": lambda world: world.client("dynamodb").batch_get_item(
        RequestItems={"rows": {"Keys": [key(str(place)) for place in range(101)]}}
    ),
    "batch_with_a_key_twice": lambda world: world.client("dynamodb").batch_get_item(
        RequestItems={"rows": {"Keys": [key("a")] * 2}}
    ),
    "transaction_of_101_rows": lambda world: transact(world, *(putting(item(str(n), "many")) for n in range(101))),
    "transaction_of_a_row_twice": lambda world: transact(
        world, putting(item("a", "twice")), {"Delete": {"TableName": "rows", "Key": key("a", "twice")}}
    ),
}
"""Calls of which the code of the error is compared."""
CASES |= {name: refused(call) for name, call in REFUSALS.items()}

# Case: what the engine says, and the page (of docs.aws.amazon.com/amazondynamodb/latest) that says otherwise.
DIFFERENCES: dict[str, tuple[Any, str]] = {
    "transaction_with_an_item_too_large": (
        "ValidationException",
        "APIReference/API_TransactWriteItems.html: an item larger than 400 KB cancels with the reason ValidationError",
    ),
    "overlapping_paths": (
        "done",
        "developerguide/Expressions.UpdateExpressions.html: the paths of one expression may not overlap",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_box_answers_as_the_engine_does(name: str, engine: World) -> None:
    CASES.compare(name, engine, DIFFERENCES)
