"""Bugs of messages that some receive in order and others do not: their two entries, and the end of their round."""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

FAILING = Aim(modes=("flapping", "down", "dead"), mixed=True)
AWAY = Aim(faults=("queue_outage", "send_loss"), rate=0.08, mixed=True)
MIXED = Aim(mixed=True)

MUTANTS = (
    Mutant(
        "the half apart brings a message to everybody",
        "tagcast.rows.message:MessageRow.of",
        "return matched - self.in_order",
        "return matched",
        FAILING,
    ),
    Mutant(
        "the half in order is not queued",
        "tagcast.delivery.queueing:_own_entries",
        "return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))",
        "return (QueueEntry(topic, message_id, message_id, Audience.APART),)",
        MIXED,
    ),
    Mutant(
        "the half apart is not queued",
        "tagcast.delivery.queueing:_own_entries",
        "return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))",
        "return (in_order,)",
        MIXED,
    ),
    Mutant(
        "the half that ends first lets the message go",
        "tagcast.rows.log:round_writes",
        "if owed:",
        "if owed & within:",
        FAILING,
    ),
    Mutant(
        "a round with two halves is never closed",
        "tagcast.delivery.fan_out:Slice._plan",
        "row.of(each) & owed <= served]",
        "row.of(each) & owed <= served and not row.is_split]",
        FAILING,
    ),
    Mutant(
        "who closes one half does not name the other",
        "tagcast.rows.log:round_writes",
        'expect[f"{prefix_of(each)}round"] = OPEN if known is None else DONE',
        'expect.update({f"{prefix_of(each)}round": OPEN} if each in rounds else {})',
        FAILING,
    ),
    Mutant(
        "both halves are listed as one when the queue is away",
        "tagcast.rows.listed:_unsent_key",
        "entry.audience.value",
        '""',
        AWAY,
    ),
    Mutant(
        "a half ends the round of those whom it was not for",
        "tagcast.delivery.fan_out:Slice._plan",
        "row.of(each) & owed <= served]",
        "row.of(each) & owed & self.addressed[message_id] <= served]",
        FAILING,
    ),
)
