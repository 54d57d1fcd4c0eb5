"""One request as it is recorded: its operation, table, keys and number of writes, without attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.aws.calls import Call

ITEMS = ("Key", "Item")


def called(call: Call) -> str:
    """Return the request as one line.

    >>> from tests.aws.calls import Caller
    >>> item = {"pk": {"S": "IDEM#t"}, "sk": {"S": "IDEM"}, "ttl": {"N": "7"}}
    >>> called(Call(Caller("Publish"), "dynamodb", "PutItem", {"TableName": "messages", "Item": item}, 0))
    'Publish dynamodb PutItem messages IDEM#t IDEM'
    """
    parameters = call.parameters
    request = f"{call.caller.role} {call.service} {call.operation}"
    if call.service == "sqs":
        queue = str(parameters.get("QueueUrl", parameters.get("QueueName", ""))).rpartition("/")[2]
        return f"{request} {queue} {len(parameters.get('Entries', ()))}"
    return f"{request} {' + '.join(_places(call.operation, parameters))}" if call.service == "dynamodb" else request


def _places(operation: str, parameters: Mapping[str, Any]) -> list[str]:
    match operation:
        case "Query":
            values = parameters["ExpressionAttributeValues"].values()
            return [" ".join([parameters["TableName"], *(each["S"] for each in values if "S" in each)])]
        case "BatchGetItem":
            requests = parameters["RequestItems"].items()
            return [f"{table} {_key(key)}" for table, asked in requests for key in asked["Keys"]]
        case "TransactWriteItems":
            writes = [(kind, write) for each in parameters["TransactItems"] for kind, write in each.items()]
            return [f"{kind} {_place(write)}" for kind, write in writes]
        case "BatchExecuteStatement":
            return [str(len(parameters["Statements"]))]
        case _:
            return [_place(parameters)]


def _place(parameters: Mapping[str, Any]) -> str:
    keys = (_key(parameters[name]) for name in ITEMS if name in parameters)
    return " ".join([parameters["TableName"], *keys])


def _key(item: Mapping[str, Any]) -> str:
    return f"{item['pk']['S']} {item['sk']['S']}"
