"""What a producer is told, against what is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.baton import Worker
from tests.simulation.ledger import Ledger
from tests.simulation.plan import Action

CLAIM_MS = 300_000


class PublishingChecks:
    """Invariant 1: accepted means stored, once."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._claims: dict[str, tuple[int, str, str]] = {}

    def watch(self, worker: Worker, action: Action, publish: Callable[[], Any]) -> Any:
        """Publish, and check what the producer is told."""
        ledger = self.ledger
        version, began = ledger.version, ledger.now
        answers = publish()
        if len(answers) != len(action.drafts):
            ledger.fail("1 accepted", "not every draft was answered")
        if action.idempotency is None:
            stored = [message_id for message_id, row in ledger.accepted.items() if row["by"] == worker.name]
            told = [answer.message_id for answer in answers]
            if stored != told:
                ledger.fail("1 accepted once", f"stored as {stored}, answered {told}")
        for place, answer in enumerate(answers):
            self._told(answer)
            matched_by = ledger.accepted[answer.message_id]["subscriptions_version"]
            if action.idempotency is None and matched_by < version:
                ledger.fail("no match missed", f"{answer.message_id} was matched by version {matched_by} < {version}")
            if action.idempotency is not None and ledger.clocks_agree:
                self._idempotent(action, place, answer, began)
        return answers

    def _told(self, answer: Any) -> None:
        ledger, message_id = self.ledger, answer.message_id
        row = ledger.accepted.get(message_id)
        if row is None:
            ledger.fail("1 accepted", f"{message_id} was acknowledged and is nowhere")
        ledger.acknowledged[message_id] = answer
        if (answer.expires_at, answer.accepted_at) != (row["expires_at"], row["accepted_at"]):
            ledger.fail("1 accepted", f"{message_id}: the answer and the row differ")
        if answer.matched != len(ledger.receipts[message_id].matched):
            ledger.fail("1 accepted", f"{message_id}: told matched {answer.matched}")

    def _idempotent(self, action: Action, place: int, answer: Any, began: int) -> None:
        name = f"{action.idempotency}#{place}"
        earlier = self._claims.get(name)
        fingerprint = str([draft.body for draft in action.drafts])
        if earlier is not None and earlier[0] + CLAIM_MS > self.ledger.now and earlier[1] == fingerprint:
            if earlier[2] != answer.message_id:
                self.ledger.fail("idempotency", f"{name}: {earlier[2]} and {answer.message_id}")
        elif earlier is None or earlier[0] + CLAIM_MS <= began:
            self._claims[name] = (answer.accepted_at, fingerprint, answer.message_id)
