"""BatchExecuteStatement: updates in PartiQL, each on its own; an error of one is told in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from local.engine.statements import UpdateStatement, read
from tests.aws import limits
from tests.aws.attributes import invalid
from tests.aws.calls import Call
from tests.aws.faults import ApiError
from tests.aws.writes import Intent

if TYPE_CHECKING:
    from tests.aws.dynamodb import DynamoDB

_CODES = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "TransactionConflictException": "TransactionConflict",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
    "ThrottlingException": "ThrottlingError",
    "ValidationException": "ValidationError",
    "ResourceNotFoundException": "ResourceNotFound",
}
"""Of a single write, and in the place of a statement (API_BatchStatementError.html)."""


def parsed(statement: str) -> UpdateStatement:
    """Return the update that a statement says."""
    found = read(statement)
    if found is None:
        raise invalid("Statement wasn't well formed, can't be processed")
    return found


def execute(service: DynamoDB, call: Call) -> dict[str, Any]:
    """BatchExecuteStatement, of updates."""
    statements = call["Statements"]
    if len(statements) > limits.BATCH_STATEMENTS_MAX:
        raise invalid(f"Member must have length less than or equal to {limits.BATCH_STATEMENTS_MAX}")
    spoiled = service.box.accidents.spoiled(call, len(statements))
    answers: list[dict[str, Any]] = []
    rows: set[Any] = set()
    for place, statement in enumerate(statements):
        try:
            if place in spoiled:
                raise ApiError("ThrottlingException", "Throughput exceeds the current capacity of your table or index.")
            intent = _intent(service, statement)
            if (intent.table.name, intent.key) in rows:
                raise invalid("Provided list of statements contains duplicate items")
            rows.add((intent.table.name, intent.key))
            service.write(intent)
        except ApiError as error:
            answers.append({"Error": {"Code": _CODES[error.shape], "Message": error.message}})
            continue
        answers.append({"TableName": intent.table.name})
    return {"Responses": answers}


def _intent(service: DynamoDB, statement: Mapping[str, Any]) -> Intent:
    """Return what UpdateItem would be asked for; a row that is not there is a lost condition."""
    update = parsed(statement["Statement"])
    try:
        parameters = update.update_item(service.table(update.table).schema.names, statement.get("Parameters", ()))
    except ValueError as fault:
        raise invalid(str(fault)) from fault
    return service.intent("Update", parameters)
