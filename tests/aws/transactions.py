"""Transactions of DynamoDB: all writes or none, and rows that are held while one is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.aws import limits
from tests.aws.attributes import invalid, item_bytes
from tests.aws.faults import ApiError
from tests.aws.writes import Intent

if TYPE_CHECKING:
    from tests.aws.calls import Call
    from tests.aws.dynamodb import DynamoDB

CONFLICT = "Transaction is ongoing for the item"
TOO_FAST = "Throughput exceeds the current capacity for one or more partitions of your table"
_SPOILS = 3 * ({"Code": "TransactionConflict", "Message": CONFLICT},) + (
    {"Code": "ThrottlingError", "Message": TOO_FAST},
)
"""What accidents say of a write: most often a conflict."""
_CODES = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "ValidationException": "ValidationError",
    "ThrottlingException": "ThrottlingError",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
}


@dataclass(eq=False)
class Transaction:
    """Writes that are checked and will be done at an instant, whether or not their caller still waits."""

    intents: Sequence[Intent]
    done: bool = False

    def commit(self, now: int) -> None:
        """Do all writes and let go of the rows."""
        if self.done:
            return
        self.done = True
        for intent in self.intents:
            del intent.table.held[intent.key]
            intent.commit(now)


@dataclass
class Token:
    """What a token of idempotency stands for."""

    request: Any
    transaction: Transaction
    until: int


@dataclass
class Transactions:
    """The coordinator: which tokens were used, which transactions are under way."""

    service: DynamoDB
    tokens: dict[str, Token] = field(default_factory=dict)

    def write(self, call: Call) -> Sequence[Intent]:
        """Carry out TransactWriteItems; virtual time passes between the check and the commit."""
        timeline = self.service.box.timeline
        token, items = call["ClientRequestToken"], call["TransactItems"]
        known = self.tokens.get(token)
        if known is not None and known.until > timeline.now:
            return self._repeated(known, items)
        intents = self._intents(items)
        self._check(intents, call)
        transaction = Transaction(intents)
        for intent in intents:
            intent.table.held[intent.key] = transaction
        takes = self.service.box.chance.uniform(*limits.TRANSACTION_COMMIT_MS)
        instant = timeline.now + int(takes)
        until = instant + 1000 * limits.TRANSACTION_TOKEN_S
        self.tokens[token] = Token(items, transaction, until)

        def commit() -> None:
            if not transaction.done:
                self.service.box.acting = call.caller
                transaction.commit(timeline.now)

        timeline.at(instant, commit)
        timeline.spend(takes)
        commit()
        return intents

    def _repeated(self, known: Token, items: Any) -> Sequence[Intent]:
        if known.request != items:
            raise ApiError(
                "IdempotentParameterMismatchException",
                "DynamoDB rejected the request because you retried a request with a different payload but with an "
                "idempotent token that was already used.",
            )
        if not known.transaction.done:
            raise ApiError(
                "TransactionInProgressException", "The transaction with the given request token is already in progress."
            )
        return known.transaction.intents

    def _intents(self, items: Sequence[Mapping[str, Any]]) -> list[Intent]:
        if len(items) > limits.TRANSACTION_ITEMS_MAX:
            raise invalid(
                "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have "
                f"length less than or equal to {limits.TRANSACTION_ITEMS_MAX}"
            )
        intents = []
        for item in items:
            if len(item) != 1:
                raise invalid("TransactItems can only contain one of Check, Put, Update or Delete")
            ((kind, parameters),) = item.items()
            intents.append(self.service.intent(kind, parameters))
        if len({(intent.table.name, intent.key) for intent in intents}) != len(intents):
            raise invalid("Transaction request cannot include multiple operations on one item")
        return intents

    def _check(self, intents: Sequence[Intent], call: Call) -> None:
        """Look at every row; whatever stands against any of the writes cancels them all."""
        reasons = [self._reason(intent) for intent in intents]
        for place in self.service.box.accidents.spoiled(call, len(intents)):
            if not reasons[place]:
                reasons[place] = dict(self.service.box.chance.choice(_SPOILS))
        if any(reasons):
            told = [reason or {"Code": "None"} for reason in reasons]
            codes = ", ".join(reason["Code"] for reason in told)
            raise ApiError(
                "TransactionCanceledException",
                f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
                {"CancellationReasons": told},
            )
        size = sum(item_bytes(intent.after.item) for intent in intents if intent.after is not None)
        if size > limits.TRANSACTION_BYTES_MAX:
            raise invalid("Member must have size less than or equal to 4 MB: the transaction request is too large")
        for intent in intents:
            self.service.charge(intent, 2)

    def _reason(self, intent: Intent) -> dict[str, Any]:
        if intent.key in intent.table.held:
            return {"Code": "TransactionConflict", "Message": CONFLICT}
        try:
            intent.evaluate()
            self.service.admit(intent, 2)
        except ApiError as error:
            if error.shape not in _CODES:
                raise
            return {"Code": _CODES[error.shape], "Message": error.message, **error.members}
        return {}
