"""Bugs of requests whose messages travel together: their packs, who carries them, and their first round."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

TOGETHER = Aim(batches=True)
AWAY = Aim(faults=("queue_outage", "send_loss"), rate=0.08, batches=True)

MUTANTS = (
    Mutant(
        "a pack brings its first message only",
        "tagcast.delivery.fan_out:_audiences",
        "for message_id in (entry.message_id, *entry.others):",
        "for message_id in (entry.message_id,):",
        TOGETHER,
    ),
    Mutant(
        "a pack turns its order around",
        "tagcast.delivery.queueing:_pack",
        "first, *others = entries",
        "first, *others = entries[:1] + entries[:0:-1]",
        Aim(batches=True, strategy=Strategy.BACKOFF_RETRY),
    ),
    Mutant(
        "of what is listed when the queue is away the rest of a pack is forgotten",
        "tagcast.rows.listed:unsent_put",
        '{**UNSENT.row_of(entry), "ttl"',
        '{**UNSENT.row_of(entry), "message_ids": [entry.message_id], "ttl"',
        AWAY,
    ),
    Mutant(
        "a pack that joins a backlog reaches into the places of the next",
        "tagcast.rows.lane_transitions:_append_messages",
        "ceil(len(message_ids) / PLACES)",
        "1",
        Aim(modes=("down", "flapping"), batches=True, strategy=Strategy.BACKOFF_RETRY, restless=True),
    ),
)
