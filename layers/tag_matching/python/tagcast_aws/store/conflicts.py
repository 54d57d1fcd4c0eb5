"""Translates DynamoDB's errors of failed writes into errors of the core."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

from botocore.exceptions import ClientError
from tagcast.errors import ConditionLostError, ContendedError, UnavailableError

CONFLICTS_MAX = 3
VAIN_MAX = 7
PAUSE_S = 0.02
LOST = frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed"})
CONFLICTS = frozenset({"TransactionConflictException", "TransactionConflict"})
"""Error codes of a write, and cancellation reasons, that mean: another transaction is writing a row."""
CROWDED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})
"""Cancellation reasons for a row with more requests than a partition allows. The callers handle this case."""


Sleep = Callable[[float], object]


def execute(call: Callable[[], object], sleep: Sleep) -> None:
    """Execute one write or transaction; conflicts are usually short and are retried for a tenth of a second.

    Raises ConditionLostError for a failed condition, ContendedError if rows are in use or throttled, else ClientError.
    """
    for conflict in range(1, CONFLICTS_MAX + 1):
        try:
            call()
        except ClientError as error:
            codes = _codes(error)
            if not codes.isdisjoint(LOST):
                raise ConditionLostError from error
            if codes.isdisjoint(CONFLICTS | CROWDED):
                raise
            if conflict == CONFLICTS_MAX or codes.isdisjoint(CONFLICTS):
                raise ContendedError from error
            _pause(conflict, sleep)
            continue
        return


def back_off(in_vain: int, detail: str, sleep: Sleep) -> None:
    """Wait after *in_vain* failed reads, longer each time. After too many failed reads, raise UnavailableError."""
    if in_vain == VAIN_MAX:
        raise UnavailableError(detail)
    _pause(in_vain, sleep)


def _pause(number: int, sleep: Sleep) -> None:
    sleep(random.uniform(0.0, min(PAUSE_S * 4 ** (number - 1), 2.0)))


def _codes(error: ClientError) -> set[str]:
    """Return the code of an error, or the cancellation reasons of a transaction.

    >>> reasons = [{"Code": "None"}, {"Code": "ThrottlingError"}]
    >>> cancelled = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    >>> sorted(_codes(ClientError(cancelled, "TransactWriteItems")))
    ['None', 'ThrottlingError']
    """
    code = error.response["Error"]["Code"]
    if code != "TransactionCanceledException":
        return {code}
    return {reason.get("Code", "") for reason in cast("Any", error.response).get("CancellationReasons", [])}
