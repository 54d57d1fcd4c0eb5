"""The store on DynamoDB: reads rows, and writes them under conditions or in transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError
from tagcast.ports import ABSENT, Delete, Key, Page, Put, Row, Table, Update, Write
from tagcast.rows.keys import MESSAGE_PARTITION, message_key
from tagcast.rows.listed import FOUND_ATTRIBUTES
from tagcast.tables import UPDATES_MAX, Check, Expectation, Value

from tagcast_aws.store.attributes import to_attribute, to_row
from tagcast_aws.store.conflicts import THROTTLED, back_off, codes_of, execute

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FILTER = (
    "begins_with(pk, :message) AND ("
    "(pending > :none AND ((accepted_at < :open_before AND (#round = :open OR apart_round = :open)) OR "
    "expires_at < :over_before)) OR "
    "(attribute_exists(kept) AND expires_at < :over_before))"
)
KEPT = (
    "begins_with(pk, :message) AND (attribute_exists(body) OR attribute_exists(deflated)) AND "
    "attribute_not_exists(replay_of) AND "
    "accepted_at >= :accepted_from AND subscriptions_version < :before_version AND expires_at > :alive_at"
)
KEPT_PAGE = 1_000
"""The maximum rows of a page of kept messages. The late entries for such a page are added within seconds."""
SHOWN = ", ".join(("pk", "sk", *("#round" if name == "round" else name for name in FOUND_ATTRIBUTES)))
"""The attributes that a search returns. ``round`` needs a placeholder: it is a reserved word of DynamoDB."""


def search_request(open_before: int, over_before: int, cursor: str | None) -> dict[str, Any]:
    """Return the parameters of the scan that searches one page (a megabyte of the table) for lost work.

    The page begins at *cursor*; None means the start of the table. The port ``Store.search`` explains the other
    arguments.
    """
    request: dict[str, Any] = {
        "FilterExpression": FILTER,
        "ProjectionExpression": SHOWN,
        "ExpressionAttributeNames": {"#round": "round"},
        "ExpressionAttributeValues": {
            ":message": {"S": MESSAGE_PARTITION},
            ":none": {"N": "0"},
            ":open": {"S": "open"},
            ":open_before": {"N": str(open_before)},
            ":over_before": {"N": str(over_before)},
        },
    }
    return request | _going_on(cursor)


def kept_request(
    topic: str, accepted_from: int, before_version: int, alive_at: int, cursor: str | None
) -> dict[str, Any]:
    """Return the parameters of the strongly consistent scan for one page of the kept messages of *topic*.

    The port ``Store.find_kept`` explains the arguments. *cursor* is the place at which the page begins.
    """
    numbers = {"accepted_from": accepted_from, "before_version": before_version, "alive_at": alive_at}
    request: dict[str, Any] = {
        "FilterExpression": KEPT,
        "ProjectionExpression": "message_id",
        "ExpressionAttributeValues": {
            ":message": {"S": message_key(topic, "").pk},
            **{f":{name}": {"N": str(number)} for name, number in numbers.items()},
        },
        "ConsistentRead": True,
        "Limit": KEPT_PAGE,
    }
    return request | _going_on(cursor)


def _going_on(cursor: str | None) -> dict[str, Any]:
    if cursor is None:
        return {}
    pk, _, sk = cursor.partition("\x00")
    return {"ExclusiveStartKey": {"pk": {"S": pk}, "sk": {"S": sk}}}


def cursor_at(last: Mapping[str, Any] | None) -> str | None:
    """Return the cursor of the next page from *last*, this page's last key; None if there are no more pages.

    >>> cursor_at({"pk": {"S": "MSG#t#1"}, "sk": {"S": "MSG"}}), cursor_at(None)
    ('MSG#t#1\\x00MSG', None)
    """
    return None if not last else f"{last['pk']['S']}\x00{last['sk']['S']}"


def statement_of(update: Update, tables: Mapping[Table, str]) -> dict[str, Any]:
    """Return the PartiQL statement that updates an existing row. *update* must have a condition and no additions.

    >>> from tagcast.ports import Key
    >>> update = Update(Key(Table.MESSAGES, "MSG#t#1", "MSG"), {"pending": 0}, ("body",), {"version": 3})
    >>> statement_of(update, {Table.MESSAGES: "messages"})["Statement"]
    'UPDATE "messages" SET "pending"=? REMOVE "body" WHERE "pk"=? AND "sk"=? AND "version"=?'
    """
    assert update.expect
    assert not update.add
    key = update.key
    text = _text(tables[key.table], tuple(update.changes), update.remove, tuple(update.expect))
    expected = [cast("Value", wanted) for wanted in update.expect.values()]
    values = (*update.changes.values(), key.pk, key.sk, *expected)
    return {"Statement": text, "Parameters": [to_attribute(value) for value in values]}


@lru_cache(maxsize=256)
def _text(table: str, changed: tuple[str, ...], removed: tuple[str, ...], expected: tuple[str, ...]) -> str:
    sets = "".join(f' SET "{name}"=?' for name in changed)
    removes = "".join(f' REMOVE "{name}"' for name in removed)
    where = " AND ".join(f'"{name}"=?' for name in ("pk", "sk", *expected))
    return f'UPDATE "{table}"{sets}{removes} WHERE {where}'


WAKE_INDEX = "wake"
BATCH_GET_MAX = 100


class DynamoStore:
    """Implements the port ``Store`` on two tables. Transaction conflicts are retried; failed conditions are not."""

    def __init__(
        self, client: DynamoDBClient, names: Mapping[Table, str], sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._client = client
        self._names = names
        self._sleep = sleep

    def get(self, key: Key) -> Row | None:
        """Return the row of *key*, strongly consistent, or None if there is no such row."""
        answer = self._client.get_item(TableName=self._names[key.table], Key=key_of(key), ConsistentRead=True)
        return to_row(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        """Return the rows of *keys* that exist. Raises UnavailableError if some stay unread for several seconds."""
        assert len(keys) <= BATCH_GET_MAX
        wanted: dict[str, Any] = {}
        by_name = {(self._names[key.table], key.pk, key.sk): key for key in keys}
        for key in by_name.values():
            request = wanted.setdefault(self._names[key.table], {"Keys": [], "ConsistentRead": True})
            request["Keys"].append(key_of(key))
        found: dict[Key, Row] = {}
        no_progress = 0
        while wanted:
            answer = self._client.batch_get_item(RequestItems=wanted)
            for table, items in answer["Responses"].items():
                for item in items:
                    row = to_row(item)
                    found[by_name[table, cast("str", row["pk"]), cast("str", row["sk"])]] = row
            left = cast("dict[str, Any]", answer.get("UnprocessedKeys") or {})
            # A response holds sixteen megabytes: the rest is requested at once.
            no_progress = 0 if _number(left) < _number(wanted) else no_progress + 1
            if no_progress:
                back_off(no_progress, "the table gives no more rows at the moment; try again", self._sleep)
            wanted = left
        return found

    def query(
        self,
        table: Table,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str = "\U0010ffff",
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows of a partition with sort keys from *sk_from* to *sk_to* (inclusive), ordered by sort key."""
        request: dict[str, Any] = {
            "TableName": self._names[table],
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {
                ":pk": {"S": pk},
                ":low": {"S": sk_from or "\x00"},
                ":high": {"S": sk_to},
            },
            "ConsistentRead": True,
        }
        return self._pages(request, limit)

    def lanes_to_wake(self, shard: int, limit: int, *, after: Row | None = None) -> list[Row]:
        """Return the rows of a shard's lanes that have a ``wake_at``, earliest first; eventually consistent.

        *after* is the last row of the previous call.
        """
        request: dict[str, Any] = {
            "TableName": self._names[Table.MESSAGES],
            "IndexName": WAKE_INDEX,
            "KeyConditionExpression": "wake_shard = :shard",
            "ExpressionAttributeValues": {":shard": {"S": str(shard)}},
        }
        if after is not None:
            key = {name: to_attribute(after[name]) for name in ("pk", "sk", "wake_shard", "wake_at")}
            request["ExclusiveStartKey"] = key
        return self._pages(request, limit)

    def search(self, *, open_before: int, over_before: int, cursor: str | None) -> Page[Row]:
        """Return lost work in the next megabyte of rows. Each 4 KB costs half a read unit, even without results."""
        return self._scan(search_request(open_before, over_before, cursor))

    def find_kept(
        self, topic: str, *, accepted_from: int, before_version: int, alive_at: int, cursor: str | None
    ) -> Page[Row]:
        """Return the kept messages among the next thousand rows of the table; the port explains the arguments.

        Each 4 KB that is read costs one read unit, even without results.
        """
        return self._scan(kept_request(topic, accepted_from, before_version, alive_at, cursor))

    def _scan(self, request: dict[str, Any]) -> Page[Row]:
        answer = self._client.scan(TableName=self._names[Table.MESSAGES], **request)
        return Page(tuple(map(to_row, answer["Items"])), cursor_at(answer.get("LastEvaluatedKey")))

    def _pages(self, request: dict[str, Any], limit: int | None) -> list[Row]:
        """Return the rows of all pages, up to *limit*. The loop ends: each page begins after the previous page."""
        rows: list[Row] = []
        while limit is None or len(rows) < limit:
            if limit is not None:
                request["Limit"] = limit - len(rows)
            answer = self._client.query(**request)
            rows += (to_row(item) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        return rows

    def write(self, write: Write) -> None:
        """Apply one write, or raise ConditionLostError if its condition fails."""
        ((kind, request),) = write_request(write, self._names).items()
        match kind:
            case "Put":
                execute(lambda: self._client.put_item(**request), self._sleep)
            case "Update":
                execute(lambda: self._client.update_item(**request), self._sleep)
            case "Delete":
                execute(lambda: self._client.delete_item(**request), self._sleep)
            case _:
                raise TypeError("a check alone is a read")

    def update_each(self, updates: Sequence[Update]) -> list[bool]:
        """Apply the updates independently, in one request; return for each update whether it succeeded."""
        assert len(updates) <= UPDATES_MAX
        statements = cast("Any", [statement_of(update, self._names) for update in updates])
        try:
            answer = self._client.batch_execute_statement(Statements=statements)
        except ClientError as error:
            if codes_of(error).isdisjoint(THROTTLED):
                raise
            return [False] * len(updates)
        return ["Error" not in each for each in answer["Responses"]]

    def transact(self, writes: Sequence[Write]) -> None:
        """Apply all writes or none; raise ConditionLostError if any condition fails."""
        items = cast("Any", [write_request(write, self._names) for write in writes])
        execute(lambda: self._client.transact_write_items(TransactItems=items), self._sleep)


def _number(wanted: Mapping[str, Any]) -> int:
    """Return the number of keys in a request for many rows."""
    return sum(len(request["Keys"]) for request in wanted.values())


_OPERATIONS: Mapping[type[Write], str] = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


def key_of(key: Key) -> dict[str, dict[str, str]]:
    """Return a key in DynamoDB's typed JSON."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def write_request(write: Write, tables: Mapping[Table, str]) -> dict[str, dict[str, Any]]:
    """Return a mapping with one item: the name of the operation in a transaction (such as ``Put``), and its request.

    >>> key = Key(Table.REGISTRY, "TOPIC#t", "SUB#A")
    >>> write_request(Delete(key, {"version": 3}), {Table.REGISTRY: "registry"})["Delete"]["ConditionExpression"]
    '#n0 = :v0'
    """
    expression = _Expression()
    request: dict[str, Any] = {"TableName": tables[write.key.table]}
    if isinstance(write, Put):
        row = {"pk": write.key.pk, "sk": write.key.sk, **write.row}
        request["Item"] = {name: to_attribute(value) for name, value in row.items()}
    else:
        request["Key"] = key_of(write.key)
    if isinstance(write, Update):
        request["UpdateExpression"] = expression.changes(write)
    if write.expect:
        request["ConditionExpression"] = expression.condition(write.expect)
    return {_OPERATIONS[type(write)]: request | expression.placeholders()}


class _Expression:
    """Builds the expressions of one write, and collects their placeholders."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}
        self.values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        return self.marks.setdefault(attribute, f"#n{len(self.marks)}")

    def value(self, value: Value) -> str:
        mark = f":v{len(self.values)}"
        self.values[mark] = to_attribute(value)
        return mark

    def condition(self, expect: Expectation) -> str:
        return " AND ".join(
            f"attribute_not_exists({self.name(attribute)})"
            if wanted is ABSENT
            else f"{self.name(attribute)} = {self.value(wanted)}"
            for attribute, wanted in expect.items()
        )

    def changes(self, update: Update) -> str:
        sets = [f"{self.name(name)} = {self.value(value)}" for name, value in update.changes.items()]
        removes = [self.name(name) for name in update.remove]
        adds = [f"{self.name(name)} {self.value(number)}" for name, number in update.add.items()]
        clauses = {"SET": sets, "REMOVE": removes, "ADD": adds}
        return " ".join(f"{word} {', '.join(parts)}" for word, parts in clauses.items() if parts)

    def placeholders(self) -> dict[str, Any]:
        names = {mark: attribute for attribute, mark in self.marks.items()}
        known = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": self.values}
        return {name: marks for name, marks in known.items() if marks}
