"""The table's stream and its consumer, the relay: in order within a shard, from an earlier checkpoint at times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from tagcast.ports import Key, Table
from tagcast_aws.store.attributes import to_attribute

from functions.relay import app as relay_app
from tests.aws.unsaid import Unsaid, draw_unsaid
from tests.simulation.baton import Worker
from tests.simulation.ledger import Change, Row

if TYPE_CHECKING:
    from tests.simulation.history import History

SHARDS = 2
AGE_MAX_MS = 3_600_000
"""As in the template: a batch that failed and is older goes to the on-failure queue."""


class Stream:
    """The records that the template's filter lets through to the relay."""

    def __init__(self, history: History) -> None:
        unsaid = draw_unsaid(history.plan.seed)
        self._shards = [Shard(history, unsaid) for _ in range(SHARDS)]

    @property
    def is_empty(self) -> bool:
        return not any(shard.waiting for shard in self._shards)

    @property
    def gave_up(self) -> bool:
        """Say whether the relay failed so often that some records never were relayed."""
        return any(shard.gave_up for shard in self._shards)

    def committed(self, change: Change) -> None:
        key, old, new = change
        wanted = (
            key.pk.startswith("LANES#") or (key.pk.startswith("MSG#") and old is None) or key.sk.startswith("ROUND#")
        )
        if key.table is Table.MESSAGES and new is not None and wanted:
            self._shards[crc32(key.pk.encode()) % SHARDS].append(key, old, new)


class Shard:
    """One shard: one batch at a time, repeated if it failed."""

    def __init__(self, history: History, unsaid: Unsaid) -> None:
        self._history, self._unsaid = history, unsaid
        self._failures = 0
        """Batches that failed one after the other."""
        self.waiting: list[tuple[dict[str, Any], int]] = []
        self._sent: list[dict[str, Any]] = []
        self._planned = False
        self._most = 100
        self.gave_up = False

    def append(self, key: Key, old: Row | None, new: Row) -> None:
        history = self._history
        change: dict[str, Any] = {"SequenceNumber": str(history.serial()), "NewImage": _image(new)}
        if old is not None:
            change["OldImage"] = _image(old)
        record = {"eventName": "INSERT" if old is None else "MODIFY", "dynamodb": change}
        self.waiting.append((record, history.now))
        if not self._planned:
            self._planned = True
            history.at(history.now + history.turns.choice((20, 200, 1_000)), self._relay)

    def _relay(self) -> None:
        history = self._history
        if not self.waiting:
            self._planned = False
            return
        if history.draws("stream_rewind", 0.1):
            back = history.chance.randrange(1, 12)
            history.note("!! the stream goes {} records back", back)
            self.waiting = [(record, history.now) for record in self._sent[-back:]] + self.waiting
        if history.draws("stream_loss", 0.05):
            history.note("!! the relay gave up on {} records", len(self.waiting))
            self.gave_up = True
            self.waiting.clear()
        batch = self.waiting[: min(self._most, history.turns.choice((1, 3, 100)))]
        event = {"Records": [record for record, _ in batch]}

        def then(worker: Worker) -> None:
            done = batch if worker.fault is None else []
            self._sent += [record for record, _ in done]
            again = [(record, at) for record, at in batch[len(done) :] if history.now - at <= AGE_MAX_MS]
            self.gave_up |= len(again) < len(batch) - len(done)
            self.waiting[: len(batch)] = again
            self._most = 100 if worker.fault is None else max(1, len(batch) // 2)
            self._failures = self._failures + 1 if again else 0
            pause_ms = round(self._unsaid.pause_ms(self._failures)) if again else 0
            history.at(history.now + history.turns.choice((20, 200)) + pause_ms, self._relay)

        history.spawn("relay", f"{len(batch)} records", lambda worker: relay_app.handle(event, history.world()), then)


def _image(row: Row) -> dict[str, Any]:
    return {name: to_attribute(value) for name, value in row.items()}
