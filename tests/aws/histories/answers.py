"""What a producer is told, against its drafts and against what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tagcast import instant
from tagcast.model import Draft

from tests.aws.http_api import Answer
from tests.simulation.checks.publishing import acknowledged_in_order
from tests.simulation.ledger import Ledger, body_in
from tests.simulation.plan import Action
from tests.simulation.rules import meant

RETRY_LATER = (429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Asked:
    """One request of a producer: what it wanted, when, and which version of the subscriptions was there."""

    action: Action
    began: int
    version: int


class AnswerChecks:
    """Accepted means stored as it was sent, once, in the order of the request."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._claims: dict[str, tuple[int, str, str]] = {}
        self._told: dict[str, str] = {}

    def asked(self, action: Action) -> Asked:
        return Asked(action, self.ledger.now, self.ledger.version)

    def told(self, asked: Asked, single: bool, answer: Answer) -> None:
        """Check an answer to a publish request."""
        ledger, action = self.ledger, asked.action
        if answer.status in RETRY_LATER or (answer.status in (404, 409) and action.idempotency is not None):
            return
        if answer.status != (201 if single else 200):
            ledger.fail("1 accepted", f"{action.number} was answered {answer.status}: {answer.body[:200]!r}")
        results = [answer.value] if single else answer.value["results"]
        if len(results) != len(action.drafts):
            ledger.fail("1 accepted", f"{action.number}: {len(results)} answers to {len(action.drafts)} drafts")
        ids = [result.get("message_id") for result in results]
        if len(set(ids)) != len(ids) or (ids != sorted(ids) and ledger.clocks_agree):
            ledger.fail("1 accepted once", f"{action.number} was answered {ids}")
        for place, (draft, result) in enumerate(zip(action.drafts, results, strict=True)):
            self._one(asked, place, draft, result)

    def _one(self, asked: Asked, place: int, draft: Draft, result: Any) -> None:
        ledger, message_id = self.ledger, result["message_id"]
        row = ledger.accepted.get(message_id)
        if row is None:
            ledger.fail("1 accepted", f"{message_id} was acknowledged and is nowhere")
        body = body_in(row)
        sent = (draft.body, list(draft.tags) or None, draft.routing_key, dict(draft.properties) or None)
        stored = (draft.body if body is None else body, row.get("tags"), row.get("routing_key"), row.get("properties"))
        if sent != stored or draft.ordering_key != row.get("ordering_key"):
            ledger.fail("1 accepted as sent", f"{message_id} is the answer to {draft}, and is stored as {stored}")
        matched = len(ledger.receipts[message_id].matched)
        told = (instant.parse(result["accepted_at"]), instant.parse(result["expires_at"]), result["matched"])
        if told != (row["accepted_at"], row["expires_at"], matched):
            ledger.fail("1 accepted", f"{message_id}: the answer says {told}, the row says otherwise")
        owners = ledger.registry[row["subscriptions_version"]]
        expected = {ordinal for ordinal, owner in owners.items() if meant(owner)(draft)}
        if ledger.receipts[message_id].matched != expected:
            ledger.fail("matching", f"{message_id} matched {ledger.receipts[message_id].matched}, not {expected}")
        known = self._told.setdefault(message_id, f"{asked.action.idempotency}#{place}")
        if known != f"{asked.action.idempotency}#{place}":
            ledger.fail("1 accepted once", f"{message_id} answers {known} and place {place} of {asked.action.number}")
        if asked.action.idempotency is None:
            if row["subscriptions_version"] < asked.version:
                ledger.fail("no match missed", f"{message_id} was matched by an older version than {asked.version}")
        elif ledger.clocks_agree:
            self._idempotent(asked, place, message_id, told[1])
        if matched:
            acknowledged_in_order(ledger, row)
        ledger.acknowledged[message_id] = SimpleNamespace(matched=result["matched"])

    def _idempotent(self, asked: Asked, place: int, message_id: str, expires_at: int) -> None:
        name = f"{asked.action.idempotency}#{place}"
        earlier = self._claims.get(name)
        wanted = str([draft.body for draft in asked.action.drafts])
        if earlier is not None and earlier[0] > self.ledger.now and earlier[1] == wanted:
            if earlier[2] != message_id:
                self.ledger.fail("idempotency", f"{name}: {earlier[2]} and {message_id}")
        elif earlier is None or earlier[0] <= asked.began:
            self._claims[name] = (expires_at, wanted, message_id)
