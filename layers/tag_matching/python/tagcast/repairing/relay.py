"""Repairs from the table's stream: every queue send and every start of a workflow is repeated.

See docs/protocol.md, Invariants, 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tagcast.delivery.queueing import entries_of
from tagcast.ports import QueueEntry, World
from tagcast.repairing.unsent import Orderings, list_unsent
from tagcast.rows.lane import Lane
from tagcast.rows.message import MessageRow


@dataclass(frozen=True, slots=True)
class Arrival:
    """One record of the stream that may need a repair: a message or a lane as it was written."""

    record_id: str
    value: MessageRow | Lane


def relay(world: World, arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    """Repeat what the writers of *arrivals* should have done; return the record ids that could not be served.

    What the queue does not take is listed for the sweep, so that a queue that is away for hours loses nothing and
    holds up no lane. Raises what the store raises when it cannot be listed either: then the batch comes again.
    """
    failed: list[str] = []
    expiries: dict[QueueEntry, int] = {}
    orderings = Orderings(world)
    for arrival in arrivals:
        match arrival.value:
            case MessageRow() as row:
                if row.map.waiting or row.packs:
                    expiries |= dict.fromkeys(entries_of(orderings.of(row.message.topic), row), row.message.expires_at)
            case Lane() as lane:
                if not _started(world, lane):
                    failed.append(arrival.record_id)
    for entry in world.queue.send(tuple(expiries)) if expiries else ():
        list_unsent(world, (entry,), expiries[entry])
    return tuple(failed)


def _started(world: World, lane: Lane) -> bool:
    if lane.state.is_asleep:
        return True
    return world.workflow.start(lane.topic, lane.subscription_id, lane.generation)
