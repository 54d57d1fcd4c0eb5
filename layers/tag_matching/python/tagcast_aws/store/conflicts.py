"""What DynamoDB says of a write that it did not carry out, in the words of the core."""

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
"""Of a single write, and as a reason of a cancelled transaction: another transaction holds a row."""
CROWDED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})
"""Reasons of a cancelled transaction: a row is asked for more than one partition gives, which is for its writers."""


Sleep = Callable[[float], object]


def carried_out(call: Callable[[], object], sleep: Sleep) -> None:
    """Carry out one write or transaction; a conflict is soon over as a rule, and tried again for a tenth of a second.

    Raises ConditionLostError for a condition that does not hold, ContendedError when others hold the rows, and the
    ClientError for everything else.
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
    """Wait after *in_vain* failed reads, longer each time; after too many raise UnavailableError."""
    if in_vain == VAIN_MAX:
        raise UnavailableError(detail)
    _pause(in_vain, sleep)


def _pause(number: int, sleep: Sleep) -> None:
    sleep(random.uniform(0.0, min(PAUSE_S * 4 ** (number - 1), 2.0)))


def _codes(error: ClientError) -> set[str]:
    """Return the code of an error, or the reasons of a cancelled transaction.

    >>> reasons = [{"Code": "None"}, {"Code": "ThrottlingError"}]
    >>> cancelled = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    >>> sorted(_codes(ClientError(cancelled, "TransactWriteItems")))
    ['None', 'ThrottlingError']
    """
    code = error.response["Error"]["Code"]
    if code != "TransactionCanceledException":
        return {code}
    return {reason.get("Code", "") for reason in cast("Any", error.response).get("CancellationReasons", [])}
