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

    def accepted(self, worker: Worker | None, row: Row) -> None:
        if worker is not None and worker.is_plain and (found := NEW_ATTRIBUTES & row.keys()):
            self.ledger.fail("the release before reads it", f"{row['message_id']} has {sorted(found)}")

    def sending(self, worker: Worker | None, bodies: Sequence[str]) -> None:
        """Check what a publisher sends; the relay repeats what others sent."""
        if worker is None or worker.kind != "publish" or not worker.is_plain:
            return
        for body in bodies:
            if json.loads(body).keys() != {"topic", "message_id"}:
                self.ledger.fail("the release before reads it", f"{worker.name} sends {body}")
