"""Two releases beside each other: what the older one has to read is in the forms that it knows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.simulation.baton import Worker
from tests.simulation.ledger import Ledger, Row

NEW_ATTRIBUTES = {"bounds", "packs", "in_order", "deflated"}
"""Of a message's row; the release before takes such a message for one without a body, or for one that is over."""


class ReleaseChecks:
    """A process that works for the release before stores and queues nothing else of its own."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._own: set[str] = set()
        """The messages that such processes accepted."""

    def accepted(self, worker: Worker | None, row: Row) -> None:
        if worker is None or not worker.is_plain:
            return
        self._own.add(row["message_id"])
        turned_over = {"deflated"} if "old_format" in self.ledger.stage.plan.faults else set()
        if found := NEW_ATTRIBUTES & row.keys() - turned_over:
            self.ledger.fail("the release before reads it", f"{row['message_id']} has {sorted(found)}")

    def sending(self, worker: Worker | None, bodies: Sequence[str]) -> None:
        """Check what a publisher sends of its own messages; it repeats what others accepted, as the relay does."""
        if worker is None or worker.kind != "publish" or not worker.is_plain:
            return
        for body, said in zip(bodies, map(json.loads, bodies), strict=True):
            if "message_id" not in said and self._own & set(said["message_ids"]):
                self.ledger.fail("the release before reads it", f"{worker.name} sends {body}")
