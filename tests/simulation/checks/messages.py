"""Rows of messages: what is accepted, what may change, and that every end has a reason."""

from collections.abc import Mapping, Sequence

from tagcast.ports import Key, Table

from tests.simulation.baton import Worker
from tests.simulation.ledger import (
    SEVERAL,
    Broken,
    Change,
    Ledger,
    Receipt,
    Row,
    body_in,
    is_group,
    ordinals_in,
    sections_of,
)
from tests.simulation.rules import meant

ENVELOPE = ("accepted_at", "expires_at", "tags", "properties", "routing_key", "ordering_key", "is_text")
IMMUTABLE = (*ENVELOPE, "subscriptions_version", "in_order")
VERDICT_AFTER_MS = 512_000


class MessageChecks:
    """Invariants 1, 2, 3 and 7 on each write to the rows of a message."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def committed(self, worker: Worker | None, changes: Sequence[Change], ended: Mapping[tuple[str, int], int]) -> None:
        """Check what one write or transaction changed of one message.

        *ended* are the attempts in the due rows that go with it, by message and ordinal.
        """
        ledger, message_id = self.ledger, changes[0][0].pk.rpartition("#")[2]
        rows = ledger.rows[message_id]
        before = ledger.receipts.get(message_id)
        for key, old, new in changes:
            if new is not None:
                self._row(key.sk, message_id, old, new)
                rows[key.sk] = new
        try:
            sections = sections_of(rows)
            now = Receipt.of(rows)
        except Broken as broken:
            ledger.fail(broken.invariant, broken.detail)
        self._consistent(message_id, sections, rows["MSG"])
        if before is None:
            self._wide(message_id, sections)
            self.accepted(worker, rows["MSG"], now)
        else:
            self._changed(worker, before, now, message_id)
            self.attempts_kept(worker, before, now, message_id, ended)
        ledger.receipts[message_id] = now
        if "bounds" in rows["MSG"]:
            ledger.sections[message_id] = sections

    def _row(self, sk: str, message_id: str, old: Row | None, new: Row) -> None:
        """Check that what a row said once stays; only the message's own row comes to its end."""
        if old is None:
            return
        kind, ledger = sk.partition("#")[0], self.ledger
        if kind in ("END", "LATE", "ENQUEUED") or old == new:
            ledger.fail("3 put once", f"{message_id}: {sk} was written again")
        for prefix in ("", "apart_"):
            sets = [f"{prefix}{name}" for name in ("delivered", "ended", "enqueued")]
            said = [f"{prefix}{name}" for name in ("offsets", "ends", "round_at")]
            same = all(ordinals_in(old.get(name)) == ordinals_in(new.get(name)) for name in sets)
            if f"{prefix}round_at" in old and not (same and all(old.get(name) == new.get(name) for name in said)):
                ledger.fail("3 put once", f"{message_id}: the first round in {sk} was written again")
        if kind == "MSG":
            if ordinals_in(old["matched"]) != ordinals_in(new["matched"]):
                ledger.fail("3 terminal is final", f"{message_id}: matched changed")
            for name in (*IMMUTABLE, "bounds"):
                if old.get(name) != new.get(name):
                    ledger.fail("immutable", f"{message_id}: {name} changed")
            if body_in(new) not in (None, body_in(old)):
                ledger.fail("immutable", f"{message_id}: body changed")

    def _consistent(self, message_id: str, sections: Sequence[Receipt], own: Row) -> None:
        """Check that the rows of a message add up, and that nothing goes before the last of it ended."""
        ledger, pending = self.ledger, set[int]().union(*(each.pending for each in sections))
        if pending and not (body_in(own) is not None and own["pending"]):
            ledger.fail("2 content", f"{message_id}: pending {pending}, pending {own['pending']}")
        if not own["pending"] and "kept" not in own and body_in(own) is not None:
            ledger.fail("2 content", f"{message_id}: nothing is pending, and its body is there")
        if ("ttl" in own) != (not own["pending"]):
            ledger.fail("7 life", f"{message_id}: pending {own['pending']}, ttl {own.get('ttl')}")
        for number, each in enumerate(sections):
            name = f"{message_id}#{number:05d}" if "bounds" in own else message_id
            listed = ledger.stage.row(Key(Table.MESSAGES, f"RETAINED#{ledger.stage.plan.topic}", name))
            if each.in_backlogs and listed is None:
                ledger.fail("2 retained list", f"{name} is not listed, and pending {each.in_backlogs}")
            if listed is not None and not own["pending"]:
                ledger.fail("2 retained list", f"{name} is listed, and nothing is pending")
            if listed is not None and listed["expires_at"] != own["expires_at"]:
                ledger.fail("7 life", f"{name} is listed with another expiry")

    def _wide(self, message_id: str, sections: Sequence[Receipt]) -> None:
        most = self.ledger.stage.plan.section_max
        if len(sections) > 1 and not all(1 <= len(each.matched) <= most for each in sections):
            self.ledger.fail("2 sections", f"{message_id}: sections of {[each.matched for each in sections]}")

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
        for ordinal in before.pending - now.pending:
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
        ledger.drafts[message_id] = drafts
        expected = [{ordinal for ordinal, owner in owners.items() if meant(owner)(draft)} for draft in drafts]
        if now.matched not in expected:
            ledger.fail("matching", f"{message_id} matched {now.matched}; the oracle says {expected}")
        if row["expires_at"] - row["accepted_at"] not in ledger.retentions:
            ledger.fail("7 life", f"{message_id} lives {row['expires_at'] - row['accepted_at']} ms")

    def _changed(self, worker: Worker | None, before: Receipt, now: Receipt, message_id: str) -> None:
        """Check one change of a map, and the reasons of all that ended with it."""
        ledger = self.ledger
        if now.matched != before.matched:
            ledger.fail("3 terminal is final", f"{message_id}: matched changed")
        if now.waiting - before.waiting:
            ledger.fail("3 terminal is final", f"{message_id}: its round opened again")
        for ordinal in sorted(before.matched - before.pending):
            same = before.exceptions.get(ordinal) == now.exceptions.get(ordinal)
            if not same or before.finished.get(ordinal) != now.finished.get(ordinal):
                ledger.fail("3 terminal is final", f"{message_id} #{ordinal} changed after its end")
        for ordinal in sorted(before.pending - now.pending):
            ledger.ended_at[message_id, ordinal] = ledger.stage.steps
            self._ended(worker, ledger.rows[message_id]["MSG"], ordinal, now)

    def _ended(self, worker: Worker | None, row: Row, ordinal: int, now: Receipt) -> None:
        """Check that the end of an entry has a reason."""
        ledger, message_id = self.ledger, row["message_id"]
        key = (message_id, ordinal)
        terminal = now.terminal(ordinal)
        assert terminal is not None
        state, attempts = terminal
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
                if owner["max_retries"] >= attempts and owner["strategy"] != SEVERAL and not dropped:
                    ledger.fail("attempts and gaps", f"{told} of {owner['max_retries'] + 1}")
            case "cancelled":
                if ordinal not in ledger.removed and owner["name"] not in ledger.skipped:
                    ledger.fail("cancelled has a reason", told)
            case "filtered":
                if not ledger.may_be_filtered(message_id, ordinal):
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
