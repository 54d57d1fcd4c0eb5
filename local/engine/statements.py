"""Executes PartiQL updates as the equivalent UpdateItem, so that the table's stream has them.

The engine would bypass its streams, and parse each statement again. Other statements are passed to the engine.
"""

import json
from collections.abc import Callable
from http import HTTPStatus
from types import ModuleType
from typing import Any

from local.rules.limits import BATCH_STATEMENTS_MAX
from local.rules.statements import UpdateStatement, read

Answer = tuple[int, dict[str, str], str | bytes]
Operation = Callable[[dict[str, Any]], Answer]


def install(tables: ModuleType) -> None:
    """Make the engine's table service execute batches of PartiQL updates as UpdateItem."""
    otherwise: Operation = tables._batch_execute_statement

    def execute(request: dict[str, Any]) -> Answer:
        statements = request.get("Statements", [])
        updates = [read(each["Statement"]) for each in statements]
        if request.keys() != {"Statements"} or not 0 < len(updates) <= BATCH_STATEMENTS_MAX or None in updates:
            return otherwise(request)
        answers = [
            _response(tables, update, each.get("Parameters", []))
            for update, each in zip(updates, statements, strict=True)
            if update is not None
        ]
        answer: Answer = tables.json_response({"Responses": answers})
        return answer

    tables._batch_execute_statement = execute  # type: ignore[attr-defined]


def _response(tables: ModuleType, update: UpdateStatement, parameters: list[Any]) -> dict[str, Any]:
    """Return the response for one statement."""
    table = tables._tables.get(update.table)
    if table is None:
        return {"Error": {"Code": "ResourceNotFound", "Message": "Requested resource not found"}}
    try:
        request = update.update_item([table["pk_name"], *filter(None, [table["sk_name"]])], parameters)
    except ValueError as fault:
        return {"Error": {"Code": "ValidationError", "Message": str(fault)}}
    status, _, body = tables._update_item(request)
    if status == HTTPStatus.OK:
        return {"TableName": update.table}
    refused = json.loads(body)
    code = str(refused["__type"]).rpartition("#")[2].removesuffix("Exception")
    shown = "ValidationError" if code == "Validation" else code
    return {"Error": {"Code": shown, "Message": refused.get("message", "")}, "TableName": update.table}
