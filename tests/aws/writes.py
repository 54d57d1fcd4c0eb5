"""One write to one row of DynamoDB: checked, then weighed, then done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.aws import conditions, expressions, limits, updates
from tests.aws.attributes import Attribute, Item, checked, invalid, item_bytes, size_of, write_units
from tests.aws.conditions import Condition
from tests.aws.faults import ApiError
from tests.aws.tables import Key, Row, Table

NO_NAMES: Mapping[str, str] = {}
NO_VALUES: Mapping[str, Attribute] = {}
CONDITION_LOST = "The conditional request failed"
TOO_LARGE = "Item size has exceeded the maximum allowed size"
TOO_LARGE_UPDATE = "Item size to update has exceeded the maximum allowed size"


@dataclass(slots=True)
class Intent:
    """A write as requested, with all that can be said of it without looking at the row."""

    table: Table
    kind: str
    key: Key
    parameters: Mapping[str, Any]
    names: Mapping[str, str]
    values: Mapping[str, Attribute]
    condition: Condition | None = None
    update: updates.Update | None = None
    item: Item | None = None
    attributes: Sequence[str] = ()
    before: Row | None = None
    after: Row | None = None

    def evaluate(self) -> None:
        """Look at the row as it is: raise ConditionalCheckFailedException, or work out what the row becomes."""
        self.before = self.table.get(self.key)
        old = {} if self.before is None else self.before.item
        if self.condition is not None and not self.condition.test(old, self.names, self.values):
            self.after = self.before
            raise ApiError("ConditionalCheckFailedException", CONDITION_LOST)
        match self.kind:
            case "ConditionCheck":
                self.after = self.before
            case "Delete":
                self.after = None
            case "Put":
                assert self.item is not None
                self.after = self._sized(self.item, TOO_LARGE)
            case _:
                assert self.update is not None
                start = dict(old) if old else dict(self.parameters["Key"])
                changed = self.update.applied(start, self.attributes, self.values)
                self.after = self._sized(changed, TOO_LARGE_UPDATE)

    @property
    def units(self) -> int:
        """Write units: of the larger of the row before and after."""
        before = 0 if self.before is None else self.before.size
        after = 0 if self.after is None else self.after.size
        return write_units(before if before > after else after)

    def index_units(self) -> list[tuple[str, Key, int]]:
        """Write units at each index that the write changes: twice those where the row changes its place."""
        found: list[tuple[str, Key, int]] = []
        before, after = self.before, self.after
        if before is after or (before is not None and after is not None and before.item == after.item):
            return found
        for number, name in enumerate(self.table.indexes):
            was = None if before is None else before.places[number]
            will = None if after is None else after.places[number]
            place = was if will is None else will
            if place is not None:
                moved = was is not None and will is not None and was != will
                found.append((name, place, self.units * (2 if moved else 1)))
        return found

    def commit(self, now: int) -> None:
        """Do it."""
        if self.kind != "ConditionCheck":
            self.table.put(now, self.key, self.after)

    def _sized(self, item: Item, too_large: str) -> Row:
        size = item_bytes(item)
        if size > limits.ITEM_BYTES_MAX:
            raise invalid(too_large)
        return self.table.row_of(item, size)


def intent_of(table: Table, kind: str, parameters: Mapping[str, Any]) -> Intent:
    """Check a write (`Put`, `Update`, `Delete` or `ConditionCheck`) as far as that goes without its row."""
    names = parameters.get("ExpressionAttributeNames", NO_NAMES)
    values = parameters.get("ExpressionAttributeValues", NO_VALUES)
    condition = update = item = None
    used_names: frozenset[str] = frozenset()
    used_marks: frozenset[str] = frozenset()
    if "ConditionExpression" in parameters:
        condition = conditions.condition(parameters["ConditionExpression"])
        used_names, used_marks = condition.names, condition.marks
    if kind == "Update" and "UpdateExpression" in parameters:
        update = updates.update(parameters["UpdateExpression"])
        used_names, used_marks = used_names | update.names, used_marks | update.marks
    elif kind == "Update":
        update = updates.NOTHING
    _check_placeholders(parameters, used_names, used_marks)
    if values:
        values = {mark: checked(value) for mark, value in values.items()}
        if sum(map(size_of, values.values())) > limits.EXPRESSION_VALUES_BYTES_MAX:
            raise invalid("ExpressionAttributeValues size has exceeded the maximum allowed size")
    if kind == "Put":
        item = {name: checked(value) for name, value in parameters["Item"].items()}
        key = table.key_of(item)
    else:
        key = table.key(parameters["Key"])
    intent = Intent(table, kind, key, parameters, names, values, condition, update, item)
    if update is not None:
        intent.attributes = update.attributes(names)
        updates.check(intent.attributes, table.schema.kinds)
    return intent


def _check_placeholders(parameters: Mapping[str, Any], names: frozenset[str], marks: frozenset[str]) -> None:
    expressions.check_placeholders(parameters, names, marks)
    for member in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if member in parameters and not parameters[member]:
            raise invalid(f"{member} must not be empty")
