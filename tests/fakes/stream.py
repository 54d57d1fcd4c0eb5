"""The stream of the tables in memory: what changed since the last look, as the archive is told of it."""

from typing import Any, cast

from tagcast.archive.change_records import records_of
from tagcast.archive.record import Record, RowChange
from tagcast.archive.tail import TailWriter
from tagcast.ports import Key, Row

from tests.fakes.world import FakeWorld


class FakeStream:
    """Changes of the rows of a world, from the moment on in which this is made."""

    def __init__(self, fakes: FakeWorld) -> None:
        self._fakes = fakes
        self._before = self._rows()
        self.archive = self.process()

    def process(self) -> TailWriter:
        """Return the tail of another process of the function."""
        fakes = self._fakes
        return TailWriter(fakes.store, fakes.clock, fakes.world.dice, fakes.telemetry)

    def records(self) -> list[Record]:
        """Return what the archive is told of all changes since the last time."""
        before, after = self._before, self._rows()
        found: list[Record] = []
        for key in dict.fromkeys((*before, *after)):
            old, new = cast("Row | None", before.get(key)), cast("Row | None", after.get(key))
            if old != new:
                found += records_of(RowChange(old, new, self._fakes.clock.now()), bool)
        self._before = after
        return found

    def pass_on(self) -> None:
        """Hand over to the archive's function what changed."""
        self.archive.write(self.records())

    def _rows(self) -> dict[Key, dict[str, Any]]:
        return {key: dict(row) for key, row in self._fakes.store.rows.items()}
