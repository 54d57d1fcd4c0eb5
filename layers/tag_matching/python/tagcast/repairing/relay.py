"""Repairs from the table's stream: every queue send and every start of a workflow is repeated.

What the queue does not take is listed, and the sweep sends it again in the order of the ids. A list is written only
when the queue is away. What is neither queued nor listed, because the table was away too, is found by the search.
See docs/protocol.md, Invariants, 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from tagcast.concurrency.isolation import at_once, each
from tagcast.delivery.ending import complete
from tagcast.delivery.queueing import entries_of
from tagcast.errors import NotFoundError
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
class Arrival:
    """One record of the stream that may need a repair: a message or a lane as it was written, or what ended of one."""

    record_id: str
    value: MessageRow | Lane | Ended


@dataclass(frozen=True, slots=True)
class Ended:
    """A delivery of a message has its end, or a section of it has its round: perhaps nothing is owed any more."""

    topic: str
    message_id: str


def relay(world: World, arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    """Repeat what the writers of *arrivals* should have done; return the record ids that could not be served.

    What the queue does not take is listed for the sweep, so that a queue that is away for hours loses nothing and
    holds up no lane. Raises what the store raises when it cannot be listed either: then the batch comes again.
    """
    failed: list[str] = []
    expiries: dict[QueueEntry, int] = {}
    ordering_of = orderings(world)
    for arrival in arrivals:
        match arrival.value:
            case MessageRow() as row:
                if row.map.waiting or row.packs:
                    expiries |= dict.fromkeys(entries_of(ordering_of(row.message.topic), row), row.message.expires_at)
            case Lane() as lane:
                named = (lane.topic, lane.subscription_id, lane.generation)
                if not (lane.state.is_asleep or world.workflow.start(*named)):
                    failed.append(arrival.record_id)
    for ended in {arrival.value: None for arrival in arrivals if isinstance(arrival.value, Ended)}:
        complete(world.store, ended.topic, ended.message_id)
    for entry in world.queue.send(tuple(expiries)) if expiries else ():
        list_unsent(world, entry, expiries[entry])
    return tuple(failed)


def orderings(world: World) -> Callable[[str], Ordering]:
    """Return what tells the ordering of a topic, which is read once; one that is gone has none."""

    @cache
    def of(topic: str) -> Ordering:
        try:
            return read_topic(world, topic).settings.ordering
        except NotFoundError:
            return Ordering.NONE

    return of


class Sending:
    """The queue as one sweep uses it: an order of which it did not take something gets nothing more in this sweep."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._refused: set[str] = set()

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all whose order goes on; return what was not sent or not taken, in the order in which it was given."""
        offered = tuple(entry for entry in entries if entry.group not in self._refused)
        refused = self._world.queue.send(offered) if offered else ()
        self._refused.update(entry.group for entry in refused)
        lost = set(entries).difference(offered).union(refused)
        return tuple(entry for entry in entries if entry in lost)


def list_unsent(world: World, entry: QueueEntry, expires_at: int) -> None:
    """Write down what the queue did not take; a repetition writes the same row."""
    world.store.write(unsent_put(entry, expires_at))
    world.telemetry.count("QueueSendsLeftToSweep")


async def resend(world: World, sending: Sending, ends: float) -> int:
    """Send what is listed, each list in order until the queue takes no more; return how much was taken.

    Whatever its age: the first round settles as expired what is past its life.
    """
    return sum(
        await each(world, "a list of unsent messages", range(UNSENT_SHARDS), partial(_resend, world, sending, ends))
    )


async def _resend(world: World, sending: Sending, ends: float, shard: int) -> int:
    sent, after = 0, ""
    while world.clock.monotonic() < ends:
        page = await world.executor.run(partial(stored.unsent_rows, world.store, shard, after=after, limit=PAGE))
        if not page:
            break
        listed = await each(world, "a listed message", page, at_once(lambda row: (UNSENT.value_of(row), row)))
        lost = await world.executor.run(partial(sending.send, [entry for entry, _ in listed]))
        taken = [row for entry, row in listed if entry not in lost]
        removals = [partial(world.store.write, unsent_delete(row)) for row in taken]
        await each(world, "a listed message", removals, world.executor.run)
        sent += len(taken)
        if lost or len(page) < PAGE:
            break
        after = stored.place(page[-1])
    return sent
