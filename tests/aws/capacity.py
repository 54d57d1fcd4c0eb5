"""How DynamoDB tells that there is too little capacity."""

from __future__ import annotations

from tests.aws.faults import ApiError


def throttled(what: str, scope: str, how: str, arn: str) -> ApiError:
    """A key range that is too hot is told in the words of provisioned tables, a whole table on demand in its own."""
    hot = scope == "KeyRange"
    reason = f"{what}{how}{'KeyRangeThroughputExceeded' if hot else 'AccountLimitExceeded'}"
    return ApiError(
        "ProvisionedThroughputExceededException" if hot else "ThrottlingException",
        "Throughput exceeds the current capacity of your table or index.",
        {"ThrottlingReasons": [{"reason": reason, "resource": arn}]},
    )
