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
        "return self.map.matched - self.in_order",
        "return self.map.matched",
        FAILING,
    ),
    Mutant(
        "the half in order is not queued",
        "tagcast.delivery.queueing:_alone",
        "return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))",
        "return (QueueEntry(topic, message_id, message_id, Audience.APART),)",
        MIXED,
    ),
    Mutant(
        "the half apart is not queued",
        "tagcast.delivery.queueing:_alone",
        "return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))",
        "return (in_order,)",
        MIXED,
    ),
    Mutant(
        "the half that ends first closes the round",
        "tagcast.state_map:StateMap.settle",
        "bool(owed - done - lies - self.added_later.keys() or not (owed or in_round))",
        "not in_round",
        FAILING,
    ),
    Mutant(
        "a round with two halves is never closed",
        "tagcast.state_map:StateMap.settle",
        "done | owed & served",
        "owed & served",
        FAILING,
    ),
    Mutant(
        "nobody writes down who had the first half",
        "tagcast.rows.message:map_attributes",
        "return _progress(_rows_of(value))(value)",
        'return {name: said for name, said in _progress(_rows_of(value))(value).items() if name != "first_done"}',
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
        "tagcast.delivery.fan_out:Slice._ending",
        "if each.is_served and message_id in each.rows}",
        "if each.is_served} | row.map.owed",
        FAILING,
    ),
)
