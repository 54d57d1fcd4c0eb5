"""Bugs of the state map, its rows, the time to live, and the archive."""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

RACING = Aim(faults=("queue_copy", "queue_visibility", "queue_late_copy"))
EXPIRING = Aim(retention_s=60, modes=("dead", "down"), operations=("sweep", "pause", "resume"))
COLLECTED = Aim(faults=("ttl", "workflow_loss"), retention_s=60, modes=("dead",), operations=("pause",))
HEAVY = Aim(modes=("down", "flapping", "dead"), heavy=0.9)

MUTANTS = (
    Mutant(
        "an update of the map is lost",
        "tagcast.rows.message_writes:_map_write",
        '{"version": before.version})',
        "{})",
        RACING,
    ),
    Mutant(
        "a write does not raise the version",
        "tagcast.rows.message:MessageRow.settled",
        "version=self.version + 1",
        "version=self.version",
    ),
    Mutant(
        "a terminal entry is changed again",
        "tagcast.state_map:StateMap.settle",
        "changed = {ordinal: entry for ordinal, entry in entries.items() if ordinal in self.owed}",
        "changed = dict(entries)",
        RACING,
    ),
    Mutant(
        "the body outlives the last entry",
        "tagcast.rows.message:MessageRow.settled",
        "and bool(stays)",
        "and True",
    ),
    Mutant(
        "the body goes with the first round",
        "tagcast.rows.message:MessageRow.settled",
        "has_body = self.has_body and bool(stays)",
        "has_body = False",
    ),
    Mutant(
        "what is retained is not listed",
        "tagcast.rows.message_writes:map_writes",
        "return (change, *tally, Put(_retained_key(after), RETAINED.row_of(listed)))",
        "return (change, *tally)",
    ),
    Mutant(
        "what is over stays listed as retained",
        "tagcast.rows.message_writes:map_writes",
        "return (change, *tally, Delete(_retained_key(after)))",
        "return (change, *tally)",
    ),
    Mutant(
        "pending counts only what was not delivered",
        "tagcast.rows.message:map_attributes",
        "return _progress(_rows_of(value))(value)",
        'return {**_progress(_rows_of(value))(value), "pending": len(value.map.matched) - len(value.map.finishes)}',
    ),
    Mutant(
        "the time to live makes an expiry true: nothing else looks",
        "tagcast.model:Message.is_expired",
        "return now >= self.expires_at",
        "return False",
        EXPIRING,
    ),
    Mutant(
        "an attempt may start at the instant of the expiry",
        "tagcast.model:Message.is_expired",
        "return now >= self.expires_at",
        "return now > self.expires_at + 40",
        EXPIRING,
    ),
    Mutant(
        "the time to live of a message is its life",
        "tagcast.rows.message:message_row",
        "_rows_of(value).row_of(value)",
        '{**_rows_of(value).row_of(value), "ttl": value.message.expires_at // 1000 - 30}',
        COLLECTED,
    ),
    Mutant(
        "the time to live of a due row is its life",
        "tagcast.rows.due:due_put",
        "DUES.row_of(due)",
        '{**DUES.row_of(due), "ttl": due.expires_at // 1000 - 30}',
        COLLECTED,
        also=(
            "tagcast.rows.due:due_change",
            "DUES.row_of(changed)",
            '{**DUES.row_of(changed), "ttl": changed.expires_at // 1000 - 30}',
        ),
    ),
    Mutant(
        "a second close moves the begin of the round",
        "tagcast.state_map:StateMap.settle",
        "round_at if in_round and self.round_at is None else self.round_at",
        "self.round_at if round_at is None else round_at",
        RACING,
    ),
    Mutant(
        "what ended forgets attempts",
        "tagcast.rows.ended_entries:to_bytes",
        "[entry.attempts for entry in ordered]",
        "[1 for entry in ordered]",
        HEAVY,
    ),
    Mutant(
        "what ended forgets when the last attempt was",
        "tagcast.rows.ended_entries:to_bytes",
        "None if entry.last_attempt_at is None else entry.last_attempt_at - accepted_at",
        "None",
        HEAVY,
    ),
    Mutant(
        "what ended is read in the order in which entries ended",
        "tagcast.rows.ended_entries:to_bytes",
        "ordered = [entry for _, entry in sorted(entries.items())]",
        "ordered = list(entries.values())[::-1]",
        HEAVY,
    ),
    Mutant(
        "what ended makes room for what ends",
        "tagcast.rows.message:MessageRow.settled",
        "after = self.map.settle(",
        "after = replace(self.map, settled=shortened(self.map.settled, outcome_bytes_max)).settle(",
        HEAVY,
    ),
    Mutant(
        "what expires as a head forgets its last attempt",
        "tagcast.rows.due:OwedDelivery.as_last_seen",
        "if entry.last_attempt_at is not None:",
        "if True:",
        EXPIRING,
    ),
    Mutant(
        "positions of later batches sort before earlier ones",
        "tagcast.rows.due:position",
        "{appended * PLACES + place:020d}",
        "{appended * PLACES + place}",
        Aim(modes=("down", "flapping", "dead")),
    ),
    Mutant(
        "every batch of a backlog begins at the same position",
        "tagcast.rows.due:position",
        "appended * PLACES + place",
        "place",
        Aim(modes=("down", "flapping", "dead")),
    ),
    Mutant(
        "the archive forgets whom a retry reached",
        "tagcast.archive.messages:_settled",
        "changed = set(before.map.owed - after.map.owed)",
        "changed = set(before.map.owed - after.map.owed - after.map.settled.keys())",
    ),
    Mutant(
        "the archive tells an end at every write",
        "tagcast.archive.messages:_settled",
        "changed = set(before.map.owed - after.map.owed)",
        "changed = set(after.map.matched - after.map.owed)",
    ),
)
