"""Repairs from the table's stream: every queue send and every start of a workflow is repeated (invariant 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tagcast.directory import read_topic
from tagcast.errors import NotFoundError
from tagcast.lane_rows import Lane
from tagcast.model import LaneState, Ordering
from tagcast.ports import QueueEntry, World
from tagcast.publishing import queue_group
from tagcast.rows import MessageRow


@dataclass(frozen=True, slots=True)
class Arrival:
    """One record of the stream that may need a repair: a message or a lane as it was written."""

    record_id: str
    value: MessageRow | Lane


def relay(world: World, arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    """Repeat what the writers of *arrivals* should have done; return the record ids that could not be served."""
    failed: list[str] = []
    sends: dict[QueueEntry, str] = {}
    orderings: dict[str, Ordering] = {}
    for arrival in arrivals:
        match arrival.value:
            case MessageRow() as row:
                if row.map.pending and row.map.round_open:
                    sends[_queue_entry(world, row, orderings)] = arrival.record_id
            case Lane() as lane:
                if not _started(world, lane):
                    failed.append(arrival.record_id)
    failed += [sends[entry] for entry in world.queue.send(tuple(sends))] if sends else []
    return tuple(failed)


def _started(world: World, lane: Lane) -> bool:
    if lane.state in (LaneState.PAUSED, LaneState.SUSPENDED):
        return True
    return world.workflow.start(lane.topic, lane.subscription_id, lane.generation)


def _queue_entry(world: World, row: MessageRow, orderings: dict[str, Ordering]) -> QueueEntry:
    message = row.message
    if message.topic not in orderings:
        try:
            orderings[message.topic] = read_topic(world, message.topic).ordering
        except NotFoundError:
            orderings[message.topic] = Ordering.NONE
    group = queue_group(orderings[message.topic], message.topic, message.message_id, message.ordering_key)
    return QueueEntry(message.topic, message.message_id, group)
