"""How DynamoDB tells of capacity: what a request took, and that there is too little."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.aws.calls import Call
from tests.aws.faults import ApiError

_OF_MANY = ("BatchExecuteStatement", "BatchGetItem", "BatchWriteItem", "TransactWriteItems")


def tell(answer: dict[str, Any], call: Call, units: Mapping[str, float]) -> None:
    """Put into *answer* what the request took of each table, as far as it asks for that."""
    wanted = call.parameters.get("ReturnConsumedCapacity", "NONE")
    if wanted == "NONE":
        return
    told: list[dict[str, Any]] = [{"TableName": name, "CapacityUnits": cost} for name, cost in units.items()]
    if wanted == "INDEXES":
        for each in told:
            each["Table"] = {"CapacityUnits": each["CapacityUnits"]}
    answer["ConsumedCapacity"] = told if call.operation in _OF_MANY else told[0]


def throttled(what: str, scope: str, how: str, arn: str) -> ApiError:
    """A key range that is too hot is told in the words of provisioned tables, a whole table on demand in its own."""
    hot = scope == "KeyRange"
    reason = f"{what}{how}{'KeyRangeThroughputExceeded' if hot else 'AccountLimitExceeded'}"
    return ApiError(
        "ProvisionedThroughputExceededException" if hot else "ThrottlingException",
        "Throughput exceeds the current capacity of your table or index.",
        {"ThrottlingReasons": [{"reason": reason, "resource": arn}]},
    )
