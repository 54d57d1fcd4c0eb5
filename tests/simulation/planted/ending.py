"""Bugs at the ends of entries, of plans and of generations: what is forgotten there is noticed later or never."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

EXPIRING = Aim(retention_s=60, modes=("dead", "down"), operations=("pause", "sweep"))
BY_HAND = Aim(modes=("down", "dead", "busy"), operations=("pause", "resume"), restless=True)
COPIED = Aim(faults=("queue_copy", "queue_late_copy", "queue_visibility"), modes=("flapping",), restless=True)

MUTANTS = (
    Mutant(
        "an expiry in redelivery forgets the attempts",
        "tagcast.pushing.engine:drop_expired",
        "Entry(EntryState.EXPIRED, made)",
        "Entry(EntryState.EXPIRED)",
        Aim(retention_s=60, modes=("dead", "down"), strategy=Strategy.BACKOFF_RETRY),
    ),
    Mutant(
        "a skipped head loses its attempts",
        "tagcast.operating.lanes:_skip",
        "head.entry(",
        "lane_transitions.replace(head, attempts=0).entry(",
        Aim(modes=("down", "dead"), operations=("skip_head",), restless=True),
    ),
    Mutant(
        "resuming forgets the planned wait",
        "tagcast.operating.lanes:_resume",
        "due_at = max(now, lane.next_attempt_at or 0)",
        "due_at = now",
        BY_HAND,
    ),
    Mutant(
        "nobody reads what ended before a round was closed",
        "tagcast.rows.stored:read_addressed",
        "if any(row.partial.values()):",
        "if False:",
    ),
    Mutant(
        "a restart keeps the generation",
        "tagcast.repairing.overdue:_restart",
        "generation = world.dice.unique_id(now)",
        "generation = lane.generation",
        Aim(faults=("workflow_loss",), modes=("flapping", "down")),
    ),
    Mutant(
        "a new generation of the same state is not archived",
        "tagcast.archive.messages:of_lane",
        "(before.state, before.generation) != (after.state, after.generation)",
        "before.state != after.state",
        Aim(faults=("workflow_loss",), modes=("flapping", "down"), operations=("retry_now", "sweep")),
    ),
)
