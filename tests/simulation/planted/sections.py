"""Bugs of wide messages: the sections of their maps, what counts them, and what is queued for each."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

WIDE = Aim(wide=1.0)
FAILING = Aim(modes=("flapping", "down", "dead"), wide=1.0)
AWAY = Aim(faults=("send_loss",), rate=0.08, wide=1.0)

MUTANTS = (
    Mutant(
        "the end of one section is the end of the message",
        "tagcast.rows.stored:fold_rows",
        "for at in range(len(row.bounds))]",
        "for at in range(1)]",
        WIDE,
    ),
    Mutant(
        "the body of a wide message stays after its last section",
        "tagcast_aws.store.stream:arrival_of",
        "case RowKind.END | RowKind.ROUND:",
        "case RowKind.END:",
        WIDE,
    ),
    Mutant(
        "a section that another copy wrote first is written over",
        "tagcast.rows.log:_section_round",
        'audience.value, expect={"pk": ABSENT})',
        "audience.value)",
        Aim(faults=("queue_copy", "queue_visibility"), restless=True, wide=1.0),
    ),
    Mutant(
        "an entry is looked for in the section behind its own",
        "tagcast.rows.message:section_with",
        "bisect_right(row.bounds, ordinal) - 1",
        "bisect_right(row.bounds, ordinal)) % len(row.bounds) + (0",
        FAILING,
    ),
    Mutant(
        "a section has the first entry of the next one, too",
        "tagcast.rows.message:members_of",
        "o >= behind[0]",
        "o > behind[0]",
        WIDE,
    ),
    Mutant(
        "what carries a wide message forgets all of its sections but the first",
        "tagcast.rows.message:_pack_entries",
        'for section in sorted(ordinals.unpack(bytes.fromhex(said["sections"]))):',
        'for section in sorted(ordinals.unpack(bytes.fromhex(said["sections"])))[:1]:',
        Aim(faults=("crash", "send_loss"), rate=0.08, batches=True, wide=1.0),
    ),
    Mutant(
        "the relay sends the first section only",
        "tagcast.delivery.queueing:entries_of",
        "return _own_entries(ordering, row) if row.is_alone else row.packs",
        "return _own_entries(ordering, row)[: 1 if row.bounds else None] if row.is_alone else row.packs",
        AWAY,
    ),
    Mutant(
        "all sections are listed as one when the queue is away",
        "tagcast.rows.listed:_unsent_key",
        'which += "" if entry.section is None else f"#{entry.section:05d}"',
        "pass",
        Aim(faults=("queue_outage", "send_loss"), rate=0.08, wide=1.0),
    ),
    Mutant(
        "each section in order has an order of its own",
        "tagcast.delivery.queueing:_of_sections",
        "yield replace(apart, group=group, ",
        'yield replace(apart, group=f"{group}{section}", ',
        Aim(strategy=Strategy.BACKOFF_RETRY, restless=True, wide=1.0),
    ),
    Mutant(
        "in one section only whoever keeps an order gets a wide message",
        "tagcast.delivery.queueing:_of_sections",
        "if not whole:",
        "if not whole and section:",
        Aim(mixed=True, wide=1.0),
    ),
    Mutant(
        "what is retained of a wide message is listed once for all sections",
        "tagcast.rows.log:_retained_put",
        "retained_key(*row.names, row.section)",
        "retained_key(*row.names, None)",
        FAILING,
    ),
)
