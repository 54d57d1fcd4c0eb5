"""Repairs from the table's stream: repeats every send to the queue and every start of a workflow.

The relay lists the entries that the queue does not accept, and the sweep sends listed entries in id order. A list is
written only while the queue is unavailable. If the table is unavailable, too, the search later finds the message
(docs/protocol.md, Invariants, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from tagcast.concurrency.isolation import at_once, each
from tagcast.delivery.ending import complete
from tagcast.delivery.queueing import entries_of
from tagcast.errors import UNREADABLE, NotFoundError
from tagcast.model import Ordering
from tagcast.ports import QueueEntry, World
from tagcast.registry.directory import read_topic
from tagcast.rows import stored
from tagcast.rows.keys import UNSENT_SHARDS
from tagcast.rows.lane import Lane
from tagcast.rows.listed import UNSENT, unsent_delete, unsent_put
from tagcast.rows.message import MessageRow

PAGE = 100


@dataclass(frozen=True, slots=True)
class EndedDelivery:
    """Names a message that may be complete.

    A delivery of the message ended, or the first round closed for one of its sections. The relay checks whether the
    message is complete.
    """

    topic: str
    message_id: str


Arrival = MessageRow | Lane | EndedDelivery
"""A stream record that may need a repair: a written message or lane, or an end."""


def relay(world: World, arrivals: Sequence[Arrival]) -> None:
    """Send the messages and start the workflows of *arrivals* again, and complete messages whose last delivery ended.

    Messages are sent first, because only the relay sends dead letters and events. An entry that the queue does not
    accept is listed for the sweep. So an outage of the queue for hours loses nothing and delays no lane. If an entry
    cannot be listed, the function raises the store's error, and the batch is redelivered. After a failed start, the
    sweep starts this lane and the remaining lanes. So an outage of the workflow delays no message.
    """
    expiries: dict[QueueEntry, int] = {}
    ordering_of = orderings(world)
    for row in arrivals:
        if isinstance(row, MessageRow) and (row.map.waiting or row.packs):
            expiries |= dict.fromkeys(entries_of(ordering_of(row.message.topic), row), row.message.expires_at)
    for entry in world.queue.send(tuple(expiries)) if expiries else ():
        list_unsent(world, entry, expiries[entry])
    for lane in (one for one in arrivals if isinstance(one, Lane) and not one.state.is_asleep):
        if not world.workflow.start(lane.topic, lane.subscription_id, lane.generation):
            break
    for ended in dict.fromkeys(one for one in arrivals if isinstance(one, EndedDelivery)):
        try:
            complete(world.store, ended.topic, ended.message_id)
        except UNREADABLE as fault:
            world.telemetry.record_failure("the completion of a message", fault)


def orderings(world: World) -> Callable[[str], Ordering]:
    """Return a function from a topic's name to its ordering. It reads a topic once; a missing topic has NONE."""

    @cache
    def ordering_of(topic: str) -> Ordering:
        try:
            return read_topic(world, topic).settings.ordering
        except NotFoundError:
            return Ordering.NONE

    return ordering_of


class Sending:
    """The sends of one sweep. After an entry is refused, its message group gets no more entries in this sweep."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._refused: set[str] = set()

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send the entries, except those of message groups that had a refused entry in this sweep.

        Return the entries that were not sent or not accepted, in the given order.
        """
        offered = tuple(entry for entry in entries if entry.group not in self._refused)
        refused = self._world.queue.send(offered) if offered else ()
        self._refused.update(entry.group for entry in refused)
        lost = set(entries).difference(offered).union(refused)
        return tuple(entry for entry in entries if entry in lost)


def list_unsent(world: World, entry: QueueEntry, expires_at: int) -> None:
    """List an entry that the queue did not accept. The write is idempotent."""
    world.store.write(unsent_put(entry, expires_at))
    world.telemetry.count("QueueSendsLeftToSweep")


async def resend(world: World, sending: Sending, ends: float) -> int:
    """Send the listed entries, each list in order until the queue refuses; return the number of accepted entries.

    Ends at *ends* (monotonic). The age of an entry does not matter, because the first round expires old messages.
    """
    return sum(
        await each(world, "a list of unsent messages", range(UNSENT_SHARDS), partial(_resend, world, sending, ends))
    )


async def _resend(world: World, sending: Sending, ends: float, shard: int) -> int:
    sent, after = 0, ""
    while world.clock.monotonic() < ends:
        page = await world.executor.run(stored.unsent_rows, world.store, shard, after=after, limit=PAGE)
        if not page:
            break
        listed = await each(world, "a listed message", page, at_once(lambda row: (UNSENT.value_of(row), row)))
        lost = await world.executor.run(sending.send, [entry for entry, _ in listed])
        taken = [row for entry, row in listed if entry not in lost]
        removals = [partial(world.store.write, unsent_delete(row)) for row in taken]
        await each(world, "a listed message", removals, world.executor.run)
        sent += len(taken)
        if lost or len(page) < PAGE:
            break
        after = stored.place(page[-1])
    return sent
