"""Encodes writes as DynamoDB requests: expressions with placeholders for every name and value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast.ports import ABSENT, Delete, Key, Put, Table, Update, Write
from tagcast.tables import Check, Expectation, Value

from tagcast_aws.store.attributes import to_attribute

_OPERATIONS: Mapping[type[Write], str] = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


def key_of(key: Key) -> dict[str, dict[str, str]]:
    """Return the key of a row in typed JSON."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def write_request(write: Write, tables: Mapping[Table, str]) -> dict[str, dict[str, Any]]:
    """Return the request of one write. Its only key is the name of the operation in a transaction, such as ``Put``.

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
    """The placeholders of one write's expressions."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        return next((mark for mark, known in self.names.items() if known == attribute), None) or self._mark(attribute)

    def _mark(self, attribute: str) -> str:
        mark = f"#n{len(self.names)}"
        self.names[mark] = attribute
        return mark

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
        known = {"ExpressionAttributeNames": self.names, "ExpressionAttributeValues": self.values}
        return {name: marks for name, marks in known.items() if marks}
