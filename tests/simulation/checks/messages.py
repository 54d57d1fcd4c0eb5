"""Rows of messages: what is accepted, what may change, and that every end has a reason."""

from __future__ import annotations

from collections.abc import Mapping

from tagcast.ports import Key, Table

from tests.simulation.baton import Worker
from tests.simulation.checks.marks import MarkChecks
from tests.simulation.ledger import Ledger, Receipt, Row, body_in, is_group
from tests.simulation.rules import meant

ENVELOPE = ("accepted_at", "expires_at", "tags", "properties", "routing_key", "ordering_key", "is_text")
IMMUTABLE = (*ENVELOPE, "subscriptions_version", "in_order")
VERDICT_AFTER_MS = 512_000


class MessageChecks:
    """Invariants 1, 2, 3 and 7 on each committed row of a message."""

    def __init__(self, ledger: Ledger, marks: MarkChecks) -> None:
        self.ledger = ledger
        self._marks = marks

    def committed(self, worker: Worker | None, old: Row | None, new: Row, ended: Mapping[tuple[str, int], int]) -> None:
        """Check one row; *ended* are the attempts in the due rows that go with it, by message and ordinal."""
        ledger, message_id = self.ledger, new["message_id"]
        now = Receipt.of(new)
        if now.has_body != bool(now.pending):
            ledger.fail("2 content", f"{message_id}: pending {now.pending}, body {now.has_body}")
        self.consistent(message_id, now, new)
        if old is None:
            self.accepted(worker, new, now)
        else:
            before = Receipt.of(old)
            self.changed(worker, before, now, old, new)
            self.attempts_kept(worker, before, now, message_id, ended)
        ledger.receipts[message_id] = now

    def consistent(self, name: str, now: Receipt, row: Row) -> None:
        """Check that the map in a row adds up, and that it is listed under its *name* just while it has to be."""
        ledger = self.ledger
        if now.pending != len(now.owed):
            ledger.fail("2 pending counts", f"{name}: pending {now.pending}, owed {now.owed}")
        parts = len(now.owed) + len(now.finished) + len(now.exceptions)
        union = now.owed | now.finished.keys() | now.exceptions.keys()
        if parts != len(now.matched) or union != now.matched:
            ledger.fail("one state per entry", f"{name}: matched {now.matched}, but {now}")
        if ("ttl" in row) != (not now.owed):
            ledger.fail("7 life", f"{name}: owed {now.owed}, ttl {row.get('ttl')}")
        listed = ledger.stage.row(Key(Table.MESSAGES, f"RETAINED#{ledger.stage.plan.topic}", name))
        if (listed is not None) != bool(now.owed - now.handed and not now.is_open):
            ledger.fail("2 retained list", f"{name}: listed as {listed}, pending {now.pending}")
        if listed is not None and listed["expires_at"] != row["expires_at"]:
            ledger.fail("7 life", f"{name} is listed with another expiry")

    def attempts_kept(
        self,
        worker: Worker | None,
        before: Receipt,
        now: Receipt,
        message_id: str,
        ended: Mapping[tuple[str, int], int],
    ) -> None:
        """Who ends an entry from its due row knows of every attempt that this told of; a copy of its batch may not."""
        if worker is not None and worker.kind == "fan_out":
            return
        for ordinal in before.owed - now.owed:
            standing = self.ledger.dues[f"{self.ledger.topic['topic_id']}.{ordinal}", message_id].values()
            told = [ended.get((message_id, ordinal), 0), *(due["attempts"] for due in standing)]
            terminal, made = now.terminal(ordinal), max(told)
            if terminal is not None and terminal[1] < made:
                self.ledger.fail("attempts are kept", f"{message_id} #{ordinal} ended {terminal} after {made} attempts")

    def accepted(self, worker: Worker | None, row: Row, now: Receipt) -> None:
        """Check a message as it was stored."""
        ledger, message_id = self.ledger, row["message_id"]
        if message_id in ledger.accepted:
            ledger.fail("1 accepted", f"{message_id} was overwritten")
        ledger.accepted[message_id] = {**row, "by": "" if worker is None else worker.name}
        if worker is None or worker.action is None:
            return
        version = row["subscriptions_version"]
        if version not in ledger.registry:
            ledger.fail("no match missed", f"version {version} never was")
        owners = ledger.registry[version]
        drafts = [draft for draft in worker.action.drafts if body_in(row) in (None, draft.body)]
        expected = [{ordinal for ordinal, owner in owners.items() if meant(owner)(draft)} for draft in drafts]
        if now.matched not in expected:
            ledger.fail("matching", f"{message_id} matched {now.matched}; the oracle says {expected}")
        if row["expires_at"] - row["accepted_at"] not in ledger.retentions:
            ledger.fail("7 life", f"{message_id} lives {row['expires_at'] - row['accepted_at']} ms")

    def changed(self, worker: Worker | None, before: Receipt, now: Receipt, old: Row, new: Row) -> None:
        """Check one change of a map, and the reasons of all that ended with it."""
        ledger, message_id = self.ledger, new["message_id"]
        if now.version != before.version + 1:
            ledger.fail("3 version", f"{message_id}: {now.version} after {before.version}")
        for name in IMMUTABLE:
            if old.get(name) != new.get(name):
                ledger.fail("immutable", f"{message_id}: {name} changed")
        if body_in(new) not in (None, body_in(old)):
            ledger.fail("immutable", f"{message_id}: body changed")
        if now.matched != before.matched:
            ledger.fail("3 terminal is final", f"{message_id}: matched changed")
        if old.get("round_at") is not None and new.get("round_at") != old["round_at"]:
            ledger.fail("3 terminal is final", f"{message_id}: its first round ended again")
        if now.is_open > before.is_open:
            ledger.fail("3 terminal is final", f"{message_id}: its round opened again")
        for ordinal in sorted(before.matched - before.owed):
            same = before.exceptions.get(ordinal) == now.exceptions.get(ordinal)
            if not same or before.finished.get(ordinal) != now.finished.get(ordinal):
                ledger.fail("3 terminal is final", f"{message_id} #{ordinal} changed after its end")
        for ordinal in sorted(before.owed - now.owed):
            ledger.ended_at[message_id, ordinal] = ledger.stage.steps
            self._ended(worker, new, ordinal, now)

    def _ended(self, worker: Worker | None, row: Row, ordinal: int, now: Receipt) -> None:
        """Check that the end of an entry has a reason."""
        ledger, message_id = self.ledger, row["message_id"]
        key = (message_id, ordinal)
        terminal = now.terminal(ordinal)
        assert terminal is not None
        state, attempts = terminal
        self._marks.ended(worker, message_id, ordinal, terminal)
        told = f"{message_id} #{ordinal} is {state} after {attempts} attempts"
        pushes, failures, made = ledger.attempts[key], ledger.judge_failures[key], ledger.attempts_made(*key)
        if attempts > ledger.attempts_max(message_id, ordinal):
            ledger.fail("attempts and gaps", told)
        if attempts > made:
            ledger.fail("attempts and gaps", f"{told}, but {made} were made")
        by_fan_out = worker is not None and worker.kind == "fan_out"
        counted = min(ledger.counted[key].values(), default=0)
        if attempts < counted and not by_fan_out and not is_group(ledger.owner(ordinal)):
            ledger.fail("attempts and gaps", f"{told}, but {counted} were counted")
        if attempts and ordinal in now.exceptions and now.exceptions[ordinal][2] is None:
            ledger.fail("attempts and gaps", f"{told}, and nobody knows when the last one was")
        owner = ledger.owner(ordinal)
        match state:
            case "delivered":
                if not any(push.reply is not None and push.reply.success for push in pushes):
                    ledger.fail("delivered means received", told)
            case "expired":
                self._expired(worker, row, ordinal, told)
            case "discarded":
                filters = [version.get(ordinal, {}).get("filter") or "" for version in ledger.registry.values()]
                dropped = failures and any('"drop"' in text for text in filters)
                if owner["max_retries"] >= attempts and not dropped:
                    ledger.fail("attempts and gaps", f"{told} of {owner['max_retries'] + 1}")
            case "cancelled":
                if ordinal not in ledger.removed and owner["name"] not in ledger.skipped:
                    ledger.fail("cancelled has a reason", told)
            case "filtered":
                if key not in ledger.judge_no:
                    ledger.fail("matching", told)
            case _:
                ledger.fail("one state per entry", told)

    def _expired(self, worker: Worker | None, row: Row, ordinal: int, told: str) -> None:
        """An entry expires at its expiry, or earlier when the next retry would not come before it."""
        ledger, key = self.ledger, (row["message_id"], ordinal)
        if not ledger.clocks_agree:
            return
        seen = ledger.now if worker is None else max(worker.latest, ledger.now)
        ended = [push for push in ledger.attempts[key] if push.reply is not None]
        planned = max((ledger.latest_retry(push) for push in ended), default=0)
        if ledger.judge_failures[key]:
            planned = max(planned, seen + VERDICT_AFTER_MS)
        if max(seen, planned) < row["expires_at"]:
            ledger.fail("7 life", f"{told} {row['expires_at'] - seen} ms too early")
