"""Entries and lanes from one write to the next: what came to its end stays as it is, what was counted stays counted."""

from __future__ import annotations

import json

from tests.aws.deployment import Deployment
from tests.simulation.baton import Worker
from tests.simulation.ledger import Change, Ledger, Receipt, Row

ASLEEP = ("paused", "suspended")


class EntryChecks:
    """Terminal entries never change in any field, attempts are kept, planned waits survive pause and resume."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.generations: set[str] = set()

    def before(self, worker: Worker | None, changes: list[Change]) -> None:
        """Look at a commit before the ledger learns of it."""
        for message_id, was, now in self.ledger.around(changes):
            if was is not None:
                self._message(worker, message_id, was, now)
        for key, old, new in changes:
            if key.pk.startswith("LANES#") and new is not None:
                self.generations.add(new["generation"])
                if old is not None and worker is not None:
                    self._planned(worker, key.sk, old, new)

    def _message(self, worker: Worker | None, message_id: str, before: Receipt, after: Receipt) -> None:
        ledger = self.ledger
        for ordinal, entry in before.exceptions.items():
            if after.exceptions.get(ordinal) != entry:
                became = after.exceptions.get(ordinal)
                ledger.fail("3 terminal is final", f"{message_id} #{ordinal}: {entry} became {became}")
        if worker is not None and worker.kind == "fan_out":
            return  # A copy of its batch may not know of every attempt.
        for ordinal in before.pending - after.pending:
            terminal = after.terminal(ordinal)
            sid = f"{ledger.topic['topic_id']}.{ordinal}"
            known = ledger.dues.get((sid, message_id), {})
            least = max((due["attempts"] for due in known.values()), default=0)
            if terminal is not None and terminal[1] < least:
                ledger.fail(
                    "attempts are kept", f"{message_id} #{ordinal} ended {terminal} after {least} counted attempts"
                )

    def _planned(self, worker: Worker, sid: str, old: Row, new: Row) -> None:
        planned, kept = old.get("next_attempt_at"), new.get("next_attempt_at")
        kind = None if worker.action is None else worker.action.kind
        if planned is None:
            return
        early = kept is None or kept < planned
        if kind == "pause" and new["state"] == "paused" and kept != planned:
            self.ledger.fail("planned waits are kept", f"lane {sid} was planned at {planned}, paused with {kept}")
        if kind == "resume" and old["state"] in ASLEEP and new["state"] not in ASLEEP and early:
            self.ledger.fail("planned waits are kept", f"lane {sid} was planned at {planned}, resumed with {kept}")

    def at_the_end(self, deployment: Deployment) -> None:
        """Check that the archive knows every generation."""
        if any(True for _ in deployment.queues["ArchiveFailures"].messages()):
            return
        lines = deployment.firehose.lines()
        archived = {str(json.loads(line).get("generation")) for kind, line in lines if kind == "lanes"}
        missing = sorted(self.generations - archived)
        if missing:
            self.ledger.fail("generations are archived", f"{missing[:3]} of {len(self.generations)} are not")
