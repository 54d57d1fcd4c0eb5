"""The FIFO queue and its consumer: groups in order, one batch of a group in flight, five minutes of deduplication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functions.fan_out import app as fan_out_app
from tests.simulation.baton import Worker

if TYPE_CHECKING:
    from tests.simulation.history import History

VISIBILITY_S = 360
DEDUPLICATION_S = 300


@dataclass(frozen=True)
class Record:
    """An entry as the queue keeps it, *name* is its deduplication id."""

    name: str
    group: str
    body: str


class FifoQueue:
    """At least once, in order within a group, in any order across groups."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.entries: list[Record] = []
        self._in_flight: set[str] = set()
        self._given_back: set[Record] = set()
        self._sent_at: dict[tuple[str, str], int] = {}
        self._poll_planned = False
        self._acknowledged: list[list[Record]] = []
        self._away_from = self.away_until = 0

    def begin(self) -> None:
        """Draw whether and when the queue is away."""
        history = self._history
        if not history.draws("queue_outage", 0.4):
            return
        self._away_from = history.now + history.chance.choice((0, 5_000, 60_000))
        minutes = history.chance.choice((2, 2, 20, 20, 90, 6 * 60))
        self.away_until = self._away_from + minutes * 60_000
        history.note("!! the queue will be away for {} minutes", minutes)
        history.at(self.away_until, lambda: self._plan_poll(0))

    @property
    def is_away(self) -> bool:
        return self._away_from <= self._history.now < self.away_until

    def take(self, entry: Record) -> None:
        """Take an entry unless one with its deduplication id came into its group within five minutes."""
        history = self._history
        sent_at = self._sent_at.get((entry.group, entry.name))
        if sent_at is not None and history.now < sent_at + DEDUPLICATION_S * 1000:
            return
        self._sent_at[entry.group, entry.name] = history.now
        self.entries.append(entry)
        history.checks.enqueued(entry.body)
        self._plan_poll(history.turns.choice((0, 5, 40)))

    def give_back(self, name: str) -> None:
        """Make visible again what is in flight: its group goes on when all before it is deleted."""
        self._given_back.update(entry for entry in self.entries if entry.name == name)

    def delete(self, names: Sequence[str]) -> None:
        """Take out what is served of a batch that lasts; its groups go on with the batch (on the box: at once)."""
        gone = [entry for entry in self.entries if entry.name in names]
        if gone:
            self._acknowledged.append(gone)
            self._history.checks.served([entry.body for entry in gone])
        self.entries = [entry for entry in self.entries if entry not in gone]

    def repeat_late(self) -> None:
        """Deliver batches again that were acknowledged long ago."""
        for batch in self._acknowledged[:: max(1, len(self._acknowledged) // 3)]:
            self._fan_out(batch, lambda worker: None)

    def _plan_poll(self, delay_ms: int) -> None:
        if not self._poll_planned:
            self._poll_planned = True
            self._history.at(self._history.now + delay_ms, self._poll)

    def _poll(self) -> None:
        history = self._history
        self._poll_planned = False
        batch = [] if self.is_away else self._next_batch()
        if not batch:
            return
        self._in_flight |= {entry.group for entry in batch}
        visibility_s = VISIBILITY_S
        if history.draws("queue_visibility", 0.2):
            visibility_s = history.chance.choice((1, 10, 30, 61))
        over = False
        self._given_back -= set(batch)

        def release() -> None:
            nonlocal over
            over = True
            self._in_flight -= {entry.group for entry in batch}

        def visible() -> None:
            if not over:
                history.note("visible again: {}", " ".join(entry.name for entry in batch))
                release()
                self._plan_poll(0)

        def then(worker: Worker) -> None:
            if worker.fault is None and self._delete(batch, worker.answer) and not over:
                release()
            if self.entries:
                self._plan_poll(5)

        history.at(history.now + visibility_s * 1000, visible)
        for _ in range(1 + history.draws("queue_copy", 0.1)):
            self._fan_out(batch, then)
        if self.entries:
            self._plan_poll(history.turns.choice((0, 20)))
        if self._acknowledged and history.draws("queue_late_copy", 0.15):
            self._fan_out(history.chance.choice(self._acknowledged), lambda worker: None)

    def _next_batch(self) -> list[Record]:
        turns = self._history.turns
        most = turns.choice((1, 3, 10, 10))
        groups = list(dict.fromkeys(entry.group for entry in self.entries if entry.group not in self._in_flight))
        if len(groups) > 1 and turns.random() < 0.5:
            turns.shuffle(groups)
            groups = groups[: turns.randrange(1, len(groups) + 1)]
        batch: list[Record] = []
        for group in groups:
            batch += [entry for entry in self.entries if entry.group == group][: most - len(batch)]
        return batch

    def _delete(self, batch: list[Record], answer: dict[str, Any]) -> bool:
        """Delete what the consumer did not report; say whether nothing of the batch stays invisible."""
        failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
        taken = [entry for entry in batch if entry.name not in failed]
        if taken and self._history.draws("queue_ack_loss", 0.1):
            taken = [entry for entry in taken if self._history.chance.random() < 0.5]
        if taken:
            self._acknowledged.append(taken)
            self._history.checks.served([entry.body for entry in batch if entry.name not in failed])
        self.entries = [entry for entry in self.entries if entry not in taken]
        return not set(batch) - set(taken) - self._given_back

    def _fan_out(self, batch: list[Record], then: Callable[[Worker], None]) -> None:
        records = [
            {
                "messageId": entry.name,
                "receiptHandle": entry.name,
                "body": entry.body,
                "attributes": {"MessageGroupId": entry.group},
            }
            for entry in batch
        ]
        self.serve({"Records": records}, then)

    def serve(self, event: dict[str, Any], then: Callable[[Worker], None]) -> None:
        """Let a process of the consumer serve what the queue, or another such process, brings."""
        history, began = self._history, self._history.now

        def body(worker: Worker) -> Any:
            return history.loop(worker).run(fan_out_app.handle(event, history.world()))

        def ended(worker: Worker) -> None:
            history.checks.attempts.batch_ended(worker, began)
            then(worker)

        history.spawn("fan_out", " ".join(record["messageId"] for record in event["Records"]), body, ended)
