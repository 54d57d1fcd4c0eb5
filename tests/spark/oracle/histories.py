"""What the archive is told of generated histories, each on a topic of its own, at an hour of its own."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tagcast.archive.change_records import records_of
from tagcast.archive.record import Record, RowChange
from tagcast.ports import Write

from tests.simulation.history import archive_of
from tests.simulation.late_history import LateHistory
from tests.simulation.plan import draw_plan

HOUR_MS = 3_600_000
BEGIN = 1_800_000_000_000
"""The clocks of both simulations begin here: 2027-01-15T08:00Z."""
SPREAD_HOURS = 40
EVERY_LATE = 8
"""Every eighth history is one of groups with late entries."""
WRONG_CLOCKS = {"skew", "jump"}
"""In such histories clocks are wrong by five minutes, which no tolerance of an audit should take for granted."""
INSTANTS = (
    *("accepted_at", "expires_at", "last_attempt_at", "round_at", "changed_at", "added_at", "created_at"),
    *("next_attempt_at", "start_from"),
)


@dataclass
class Told:
    """One line of the archive, and the batch in which it arrives: 0, 1 (a day late) or 2 (after the erasure)."""

    kind: str
    fields: dict[str, Any]
    batch: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, str(self.fields["record_id"])

    @property
    def line(self) -> str:
        return json.dumps(self.fields, ensure_ascii=False)


def is_late_history(seed: int) -> bool:
    return seed % EVERY_LATE == EVERY_LATE - 1


def has_right_clocks(seed: int) -> bool:
    return is_late_history(seed) or not draw_plan(seed).faults & WRONG_CLOCKS


def told_of(seed: int) -> list[Told]:
    """Play *seed* and return its lines, repetitions included, moved to an hour that the seed draws."""
    dice = Random(f"hour {seed}")
    shift = dice.randrange(SPREAD_HOURS) * HOUR_MS + dice.randrange(HOUR_MS)
    found = late_archive(seed) if is_late_history(seed) else archive_of(seed)
    return [Told(each.kind.value, moved(json.loads(each.line()), seed, shift)) for each in found]


def moved(fields: dict[str, Any], seed: int, shift: int) -> dict[str, Any]:
    """Return a record at another time, on a topic whose name and id no other history has."""
    for name in INSTANTS:
        if fields.get(name):
            fields[name] += shift
    for name in ("message_id", "replay_of"):
        if name in fields:
            later = f"{int(fields[name]) + (shift << 22):020d}"
            fields["record_id"] = fields["record_id"].replace(fields[name], later)
            fields[name] = later
    if "topic_id" in fields:
        own = f"{fields['topic_id']}{seed:05d}"
        fields["record_id"] = fields["record_id"].replace(fields["topic_id"], own)
        fields["topic_id"] = own
    if "topic" in fields and fields["topic"] != f"t{seed}":
        own = f"{fields['topic']}-{seed}"
        if fields["record_id"].startswith(f"{fields['topic']}."):
            fields["record_id"] = own + fields["record_id"].removeprefix(fields["topic"])
        fields["topic"] = own
    return fields


def late_archive(seed: int) -> list[Record]:
    """Play a history of groups with late entries and return what the archive is told, bodies included."""
    history = LateHistory(seed)
    store, clock = history.world.store, history.world.clock
    changes = [RowChange(None, deepcopy(row), clock.now() // 1000 * 1000) for row in store.rows.values()]
    applied = store._apply

    def apply(write: Write) -> None:
        before = deepcopy(store.rows.get(write.key))
        applied(write)
        after = deepcopy(store.rows.get(write.key))
        if before != after:
            changes.append(RowChange(before, after, clock.now() // 1000 * 1000))

    vars(store)["_apply"] = apply
    history.play()
    return [record for change in changes for record in records_of(change, lambda topic: True)]


def batched(seed: int, lines: list[Told]) -> Iterator[Told]:
    """Yield the lines as they arrive: some a day late, some twice, some again after an erasure of their messages."""
    dice = Random(f"batches {seed}")
    for each in lines:
        drawn = dice.random()
        if drawn < 0.03:
            yield replace(each, batch=1)
            continue
        yield each
        if drawn < 0.06:
            yield replace(each, batch=1)
        elif drawn < 0.07 and each.kind in ("messages", "deliveries"):
            yield replace(each, batch=2)
