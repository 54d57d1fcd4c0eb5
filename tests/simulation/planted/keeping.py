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
        "a round is closed without what ended before it",
        "tagcast.rows.log:round_writes",
        '= {"partial": max(row.partial.values())}',
        "= {}",
        RACING,
    ),
    Mutant(
        "what ends before its round is closed is not counted",
        "tagcast.rows.log:end_writes",
        "(*end_puts(row, ends), *_count_early_ends(row, early))",
        "(*end_puts(row, ends),)",
    ),
    Mutant(
        "a round that is closed is closed again",
        "tagcast.rows.log:round_writes",
        'expect[f"{prefix_of(each)}round"] = OPEN if known is None else DONE',
        "pass",
        RACING,
    ),
    Mutant(
        "the body outlives the last entry",
        "tagcast.rows.log:round_writes",
        "over = Update(message_key(*row.names), changes, _body_of(row), expect)",
        "over = Update(message_key(*row.names), changes, (), expect)",
    ),
    Mutant(
        "the body goes with the first round",
        "tagcast.rows.log:round_writes",
        "Update(message_key(*row.names), changes, (), expect)",
        "Update(message_key(*row.names), changes, BODY_ATTRIBUTES, expect)",
    ),
    Mutant(
        "what is retained is not listed",
        "tagcast.rows.log:round_writes",
        "beside.append(_retained_put(row))",
        "pass",
    ),
    Mutant(
        "what is over stays listed as retained",
        "tagcast.rows.log:completion",
        "return (update, *(Delete(retained_key(*row.names, each)) for each in sections))",
        "return (update,)",
    ),
    Mutant(
        "a message is let go although something of it is owed",
        "tagcast.delivery.ending:complete",
        "or row.map.owed:",
        ":",
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
        "tagcast.rows.message:_message_row",
        '"ttl": None if value.is_owed else ttl_after(message.expires_at),',
        '"ttl": message.expires_at // 1000 - 30,',
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
        "the relay lets nothing go",
        "tagcast.repairing.relay:relay",
        "complete(world.store, ended.topic, ended.message_id)",
        "pass",
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
        "what expires as a head forgets its last attempt",
        "tagcast.rows.due:PendingDelivery.as_last_seen",
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
        "tagcast.archive.messages:of_end",
        "if change.after is not None:",
        'if change.after is not None and change.after["state"] != "delivered":',
    ),
    Mutant(
        "the archive tells an end at every write",
        "tagcast.archive.messages:of_message",
        "if done is not None and done != before.rounds.get(audience):",
        "if done is not None:",
    ),
)
