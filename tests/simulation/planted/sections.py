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
        "tagcast.rows.message_writes:_tally_writes",
        "if known.count not in (len(ended), len(known.ended)):",
        "if not ended:",
        WIDE,
    ),
    Mutant(
        "the body goes with the section that ends first",
        "tagcast.rows.message:Section.is_beside_open",
        "return len(self.ended | {self.number}) < self.count",
        "return False",
        FAILING,
        also=(
            "tagcast.rows.message_writes:_tally_writes",
            "if known.count not in (len(ended), len(known.ended)):",
            "if not ended:",
        ),
    ),
    Mutant(
        "the body of a wide message stays after its last section",
        "tagcast.rows.message_writes:_tally_writes",
        "gone = () if after.has_body else BODY_ATTRIBUTES",
        "gone = ()",
        WIDE,
    ),
    Mutant(
        "two sections that end at once count as one",
        "tagcast.rows.message_writes:_tally_writes",
        'expected = {"version": known.tally_version} if known.tally_version else {"pk": ABSENT}',
        "expected = {}",
        Aim(restless=True, wide=1.0),
    ),
    Mutant(
        "a section that another copy wrote first is written over",
        "tagcast.rows.message_writes:_map_write",
        'return Put(key, message_row(after), {"pk": ABSENT})',
        "return Put(key, message_row(after))",
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
        "tagcast.rows.message:unwritten",
        "ordinal >= behind[0]",
        "ordinal > behind[0]",
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
        "return _alone(ordering, row) if row.is_alone else row.packs",
        "return _alone(ordering, row)[: 1 if row.bounds else None] if row.is_alone else row.packs",
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
        "tagcast.rows.message_writes:_retained_key",
        "section = None if row.section.is_in_message else row.section.number",
        "section = None",
        FAILING,
    ),
)
