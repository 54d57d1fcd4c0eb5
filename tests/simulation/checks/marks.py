"""Ends that wait in a due row until the message's row can be written: they have a reason, and nothing undoes them."""

from __future__ import annotations

from tagcast.model import Push

from tests.simulation.baton import Worker
from tests.simulation.ledger import Ledger, Row, ordinal_in

UNDONE = "5 an end is kept"


class MarkChecks:
    """What was marked as ended was pushed, is not pushed again by whoever reads that, and ends just so."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._marks: dict[tuple[str, int], tuple[str, int, int]] = {}
        """State, attempts and the step of the history, by message and ordinal."""

    def due(self, sid: str, sk: str, old: Row | None, new: Row | None) -> None:
        """Check one change of a backlog."""
        ledger, message_id, ordinal = self.ledger, sk.partition("#")[2], ordinal_in(sid)
        if new is None:
            return
        if old is not None and "ended" in old:
            ledger.fail(UNDONE, f"{message_id} #{ordinal} was {old['ended']} and its due row is written again")
        if "ended" not in new:
            return
        state, attempts = new["ended"], new["attempts"]
        pushes = [push.reply for push in ledger.attempts[message_id, ordinal] if push.number == attempts]
        received = any(reply is not None and reply.success for reply in pushes)
        failed = any(reply is not None and not reply.success for reply in pushes)
        failed |= ledger.judge_failures[message_id, ordinal] > 0
        if not (received if state == "delivered" else failed):
            ledger.fail(UNDONE, f"{message_id} #{ordinal} is marked {state} after attempt {attempts}: {pushes}")
        self._marks[message_id, ordinal] = (state, attempts, ledger.stage.steps)

    def backlog_read(self, worker: Worker, sid: str) -> None:
        worker.read_at[f"DUE#{sid}"] = self.ledger.stage.steps

    def begins(self, worker: Worker, push: Push) -> None:
        """Check an attempt at its start: whoever read the backlog after the mark does not push again."""
        subscription = push.subscription
        mark = self._marks.get((push.message.message_id, subscription.ordinal))
        if mark is not None and mark[2] < worker.read_at.get(f"DUE#{subscription.subscription_id}", 0):
            self.ledger.fail(UNDONE, f"{worker.name} pushes {push.message.message_id}, which it read to be {mark[0]}")

    def ended(self, worker: Worker | None, message_id: str, ordinal: int, terminal: tuple[str, int]) -> None:
        """Check the end of an entry against its mark, which binds who read it; a copy of its batch did not."""
        mark = self._marks.get((message_id, ordinal))
        if mark is None or mark[:2] == terminal or worker is None or worker.kind == "fan_out":
            return
        sid = f"{self.ledger.topic['topic_id']}.{ordinal}"
        if mark[2] < worker.read_at.get(f"DUE#{sid}", 0):
            self.ledger.fail(UNDONE, f"{message_id} #{ordinal} was {mark[:2]} and ends as {terminal}")
