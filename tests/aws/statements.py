"""BatchExecuteStatement: updates in PartiQL, each on its own; an error of one is told in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from local.rules import limits
from tests.aws.attributes import invalid
from tests.aws.calls import Call
from tests.aws.capacity import tell
from tests.aws.faults import ApiError
from tests.aws.transactions import CONFLICT
from tests.aws.writes import Intent

if TYPE_CHECKING:
    from tests.aws.dynamodb import DynamoDB

_UPDATE = re.compile(
    r'UPDATE "(?P<table>[\w.-]+)"(?P<changes>(?: SET "\w+"=\?| REMOVE "\w+")+)'
    r' WHERE (?P<where>"\w+"=\?(?: AND "\w+"=\?)*)'
)
_CHANGE = re.compile(r'(SET|REMOVE) "(\w+)"')
_CODES = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "TransactionConflictException": "TransactionConflict",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
    "ThrottlingException": "ThrottlingError",
    "ValidationException": "ValidationError",
    "ResourceNotFoundException": "ResourceNotFound",
}
"""Of a single write, and in the place of a statement (API_BatchStatementError.html)."""


@lru_cache(1024)
def parsed(statement: str) -> tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the table of an update, what it sets and removes, and what its condition names.

    Of PartiQL it is what the shipped code says: every name in double quotes, every value a parameter.
    """
    found = _UPDATE.fullmatch(statement)
    if found is None:
        raise invalid("Statement wasn't well formed, can't be processed")
    named = tuple(re.findall(r'"(\w+)"', found["where"]))
    return found["table"], tuple((kind, name) for kind, name in _CHANGE.findall(found["changes"])), named


def execute(service: DynamoDB, call: Call) -> dict[str, Any]:
    """BatchExecuteStatement, of updates."""
    statements = call["Statements"]
    if len(statements) > limits.BATCH_STATEMENTS_MAX:
        raise invalid(f"Member must have length less than or equal to {limits.BATCH_STATEMENTS_MAX}")
    spoiled = service.box.accidents.spoiled(call, len(statements))
    answers: list[dict[str, Any]] = []
    units: dict[str, float] = {}
    rows: set[Any] = set()
    for place, statement in enumerate(statements):
        try:
            if place in spoiled:
                raise ApiError("ThrottlingException", "Throughput exceeds the current capacity of your table or index.")
            intent = _intent(service, statement)
            if (intent.table.name, intent.key) in rows:
                raise invalid("Provided list of statements contains duplicate items")
            rows.add((intent.table.name, intent.key))
            _write(service, intent)
        except ApiError as error:
            answers.append({"Error": {"Code": _CODES[error.shape], "Message": error.message}})
            continue
        units[intent.table.name] = units.get(intent.table.name, 0.0) + intent.units
        answers.append({"TableName": intent.table.name})
    answer: dict[str, Any] = {"Responses": answers}
    tell(answer, call, units)
    return answer


def _intent(service: DynamoDB, statement: Mapping[str, Any]) -> Intent:
    """Return what UpdateItem would be asked for; a row that is not there is a lost condition."""
    name, changes, named = parsed(statement["Statement"])
    table, values = service.table(name), list(statement.get("Parameters", ()))
    if len(values) != sum(kind == "SET" for kind, _ in changes) + len(named):
        raise invalid("Number of parameters in request and statement don't match.")
    if not set(table.schema.names) <= set(named):
        raise invalid("Where clause does not contain a mandatory equality on all key attributes")
    sets = [f"#c{place} = :c{place}" for place, (kind, _) in enumerate(changes) if kind == "SET"]
    removes = [f"#c{place}" for place, (kind, _) in enumerate(changes) if kind == "REMOVE"]
    given = {f":c{place}": values.pop(0) for place, (kind, _) in enumerate(changes) if kind == "SET"}
    where = dict(zip(named, values, strict=True))
    key = {each: where.pop(each) for each in table.schema.names}
    expected = ["attribute_exists(pk)", *(f"#w{place} = :w{place}" for place in range(len(where)))]
    updates = (f"SET {', '.join(sets)}" if sets else "", f"REMOVE {', '.join(removes)}" if removes else "")
    parameters = {
        "TableName": name,
        "Key": key,
        "UpdateExpression": " ".join(filter(None, updates)),
        "ConditionExpression": " AND ".join(expected),
        "ExpressionAttributeNames": {
            **{f"#c{place}": changed for place, (_, changed) in enumerate(changes)},
            **{f"#w{place}": each for place, each in enumerate(where)},
        },
    }
    given |= {f":w{place}": value for place, value in enumerate(where.values())}
    return service.intent("Update", parameters | ({"ExpressionAttributeValues": given} if given else {}))


def _write(service: DynamoDB, intent: Intent) -> None:
    if intent.key in intent.table.held:
        raise ApiError("TransactionConflictException", CONFLICT)
    try:
        intent.evaluate()
    finally:
        service.admit(intent, 1)
        service.charge(intent, 1)
    intent.commit(service.box.timeline.now)
