"""The archive beside the table: every change of a row goes through the shipped code, some more than once."""

from collections.abc import Mapping
from random import Random
from typing import Any

from tagcast.archive.change_records import records_of
from tagcast.archive.record import Record, RowChange

from tests.simulation.ledger import TERMINAL, Ledger

REPEATED = 0.1


class ArchiveChecks:
    """Duplicates removed by ``record_id``, the archive tells exactly what the table's receipts say."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._changes: list[RowChange] = []

    def committed(self, change: RowChange) -> None:
        self._changes.append(change)

    def records(self) -> list[Record]:
        """Return what the archive got of all changes, repetitions of the stream included."""
        dice = Random(f"archive {self.ledger.stage.plan.seed}")
        archived: list[Record] = []
        for place, change in enumerate(self._changes):
            archived += records_of(change, lambda topic: False)
            if dice.random() < REPEATED:
                for earlier in self._changes[max(0, place - dice.randrange(1, 6)) : place + 1]:
                    archived += records_of(earlier, lambda topic: False)
        return archived

    def at_the_end(self) -> None:
        ledger = self.ledger
        lines: dict[str, str] = {}
        ends: dict[tuple[str, int], tuple[str, int]] = {}
        accepted: dict[str, list[int]] = {}
        generations: set[str] = set()
        for record in self.records():
            fields: Mapping[str, Any] = record.fields
            if record.kind == "lanes":
                generations.add(fields["generation"])
            if record.kind == "deliveries" and fields["state"] not in TERMINAL:
                continue
            record_id, line = f"{record.kind}/{fields['record_id']}", record.line()
            if lines.get(record_id, line) != line:
                ledger.fail("archive agrees", f"two records are {record_id}: {lines[record_id]} and {line}")
            if record_id in lines:
                continue
            lines[record_id] = line
            if record.kind == "messages":
                accepted[fields["message_id"]] = fields["matched"]
            elif record.kind == "deliveries":
                key = (fields["message_id"], fields["ordinal"])
                if key in ends:
                    ledger.fail("archive agrees", f"{key} ended twice: {ends[key]} and {line}")
                ends[key] = (fields["state"], fields["attempts"])
        told_of = {str(each.after["generation"]) for each in self._changes if each.after is not None and _is_lane(each)}
        forgotten = told_of - generations
        if forgotten:
            ledger.fail("archive agrees", f"nobody is told of the generations {sorted(forgotten)}")
        if accepted != {message_id: sorted(known.matched) for message_id, known in ledger.receipts.items()}:
            ledger.fail("archive agrees", "the archive has other messages or other matches than the table")
        stored = {
            (message_id, ordinal): known.terminal(ordinal)
            for message_id, known in ledger.receipts.items()
            for ordinal in known.matched
        }
        if ends != stored:
            odd = sorted(key for key in ends.keys() | stored.keys() if ends.get(key) != stored.get(key))
            ledger.fail("archive agrees", f"{odd[0]}: archive {ends.get(odd[0])}, table {stored.get(odd[0])}")


def _is_lane(change: RowChange) -> bool:
    return change.after is not None and str(change.after["pk"]).startswith("LANES#")
