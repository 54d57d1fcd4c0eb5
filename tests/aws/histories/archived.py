"""The archive as Firehose took it from the deployed function, against the table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.aws.deployment import Deployment
from tests.aws.histories.letter_checks import is_told_apart
from tests.simulation.checks.archive import ArchiveChecks
from tests.simulation.ledger import Ledger


@dataclass(frozen=True)
class Line:
    """One line of the archive, in the shape in which the shared checks look at a record."""

    kind: str
    fields: dict[str, Any]
    text: str

    def line(self) -> str:
        return self.text


class FirehoseChecks(ArchiveChecks):
    """The shared checks of the archive on what Firehose took, repetitions of the stream included."""

    def __init__(self, ledger: Ledger, deployment: Deployment) -> None:
        super().__init__(ledger)
        self._deployment = deployment

    def at_the_end(self) -> None:
        """Compare, unless changes were given up: those are described in the on-failure queue, for people to read."""
        if self.is_whole():
            super().at_the_end()

    def is_whole(self) -> bool:
        """Say whether no change was given up."""
        return not any(True for _ in self._deployment.queues["ArchiveFailures"].messages())

    def records(self) -> list[Any]:
        lines = self._deployment.firehose.lines()
        return [Line(kind, json.loads(text), text) for kind, text in lines if not is_told_apart(text)]
