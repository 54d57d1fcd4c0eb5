"""Translates DynamoDB's errors of failed writes into errors of the core."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

from botocore.exceptions import ClientError
from tagcast.errors import ConditionLostError, ContendedError, TableThrottledError, UnavailableError

CONFLICTS_MAX = 3
NO_PROGRESS_MAX = 7
PAUSE_S = 0.02
LOST = frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed"})
CONFLICTS = frozenset({"TransactionConflictException", "TransactionConflict"})
"""Error codes and cancellation reasons for a write of a row that another transaction is writing."""
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        # As reasons of a cancelled transaction:
        "ProvisionedThroughputExceeded",
        "ThrottlingError",
    }
)
"""Error codes and cancellation reasons for more requests than a partition or a table allows. The callers retry."""


Sleep = Callable[[float], object]


def execute(call: Callable[[], object], sleep: Sleep) -> None:
    """Execute one write or transaction, and retry conflicts for up to a tenth of a second.

    Raises ConditionLostError for a failed condition, and ContendedError if conflicts remain. Raises TableThrottledError
    if the table refuses more requests, and ClientError for any other fault.
    """
    for conflict in range(1, CONFLICTS_MAX + 1):
        try:
            call()
        except ClientError as error:
            codes = codes_of(error)
            if not codes.isdisjoint(LOST):
                raise ConditionLostError from error
            if codes.isdisjoint(CONFLICTS | THROTTLED):
                raise
            if codes.isdisjoint(CONFLICTS):
                raise TableThrottledError from error
            if conflict == CONFLICTS_MAX:
                raise ContendedError from error
            _pause(conflict, sleep)
            continue
        return


def back_off(no_progress: int, detail: str, sleep: Sleep) -> None:
    """Wait after *no_progress* reads without progress, longer each time. After too many, raise UnavailableError."""
    if no_progress == NO_PROGRESS_MAX:
        raise UnavailableError(detail)
    _pause(no_progress, sleep)


def _pause(number: int, sleep: Sleep) -> None:
    sleep(random.uniform(0.0, min(PAUSE_S * 4 ** (number - 1), 2.0)))


def codes_of(error: ClientError) -> set[str]:
    """Return the code of *error*; for a cancelled transaction, the codes of its reasons.

    >>> reasons = [{"Code": "None"}, {"Code": "ThrottlingError"}]
    >>> cancelled = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    >>> sorted(codes_of(ClientError(cancelled, "TransactWriteItems")))
    ['None', 'ThrottlingError']
    """
    code = error.response["Error"]["Code"]
    if code != "TransactionCanceledException":
        return {code}
    return {reason.get("Code", "") for reason in cast("Any", error.response).get("CancellationReasons", [])}
