"""What other copies of a batch left in backlogs while this one worked: no end forgets an attempt that is counted there.

See docs/architecture.md, The first round.
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from functools import partial

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.serving import Part
from tagcast.delivery.settling import Ending, Lost, settle
from tagcast.errors import ConditionLostError
from tagcast.ids import ordinal_of, subscription_id
from tagcast.model import Entry
from tagcast.ports import World, Write
from tagcast.rows import stored, stored_maps
from tagcast.rows.due import OwedDelivery, due_delete_as_read
from tagcast.rows.lane import unjoined_check
from tagcast.rows.message import MessageRow

FRESH_S = 1.0
"""For so long after a look at a lane nobody comes to a second attempt of what was owed then: a retry waits longer."""
REACH = 1_000
"""So far into a backlog a due row is looked for; nothing behind that was attempted yet."""
GUARDED_MAX = 48
"""So many ends of a batch are written on condition that nothing joined their lanes."""


def guards(topic: str, topic_id: str, message_id: str, parts: Collection[Part]) -> list[Write]:
    """Return what lets a message be written only while no copy has put into a backlog what expired here.

    More than `GUARDED_MAX` of a batch that expire so were held up by the queue, not by a copy: nothing is asked then,
    since each costs two write units.
    """
    late = [part for part in parts if part.is_compared and message_id in part.late()]
    if not late or sum(len(part.late()) for part in parts) > GUARDED_MAX:
        return []
    return [unjoined_check(topic, subscription_id(topic_id, part.ordinal), part.lane) for part in late]


async def end_in_backlogs(
    world: World, topic: str, topic_id: str, parts: MutableMapping[int, Part], *, fresh_s: float = FRESH_S
) -> list[Exception]:
    """Write those ends of *parts*, by ordinal, whose deliveries another copy put into a backlog; keep the others.

    Only parts that may not know of such a copy, since their lane was not looked at for *fresh_s*, cost anything: a read
    of the topic's lanes. Returns the faults; what ended in a part that could not be looked at is forgotten, so that the
    batch comes again.
    """
    oldest_s = world.clock.monotonic() - fresh_s / world.time_scale
    doubtful = {ordinal: part for ordinal, part in parts.items() if part.is_doubtful(oldest_s)}
    if not doubtful:
        return []
    looked: dict[int, Part] = {}
    faults: list[Exception] = []

    async def look() -> None:
        lanes = await world.executor.run(partial(stored.lanes, world.store, topic))
        ends = []
        for ordinal, part in doubtful.items():
            lane = lanes.get(sid := subscription_id(topic_id, ordinal))
            compared = part.compared(lane)
            if lane is None:
                looked[ordinal] = compared
            else:
                ends.append(end(ordinal, sid, compared))
        faults.extend(await side_by_side(ends))

    async def end(ordinal: int, sid: str, compared: Part) -> None:
        looked[ordinal] = await _end(world, topic, sid, compared)

    faults.extend(await side_by_side([look()]))
    parts.update({ordinal: looked.get(ordinal) or part.forgotten() for ordinal, part in doubtful.items()})
    return faults


async def _end(world: World, topic: str, sid: str, part: Part) -> Part:
    """Write what ended in *part* and stands in the backlog; return the part with the rest."""
    for lost in range(1, TRIES_MAX + 1):
        standing = await _standing(world, sid, part)
        if not standing:
            return part
        for message_id, due in standing.items():
            if await _settle(world, topic, due, due.ended_by(part.ended[message_id])):
                part = part.without(message_id)
        if not standing.keys() & part.ended.keys():
            return part
        await world.clock.pause(pause_s(world, lost))
    raise ConditionLostError


async def _standing(world: World, sid: str, part: Part) -> dict[str, OwedDelivery]:
    """Return the due rows of what ended in *part*: of several the one with the most attempts."""
    dues = await world.executor.run(partial(stored.dues, world.store, sid, limit=REACH))
    return {due.message_id: due for due in sorted(dues, key=lambda due: due.attempts) if due.message_id in part.ended}


async def _settle(world: World, topic: str, due: OwedDelivery, entry: Entry) -> bool:
    """Write one end together with the end of its due row; return False if another attempt was counted meanwhile."""
    ordinal = ordinal_of(due.subscription_id)

    def plan(before: MessageRow) -> Ending | None:
        if not before.map.is_with_lane(ordinal):
            return None
        return Ending({ordinal: entry}, beside=(due_delete_as_read(due),))

    async def again(_: Lost) -> bool:
        return False

    read = partial(stored_maps.owed_entry, world.store, topic, due)
    return not isinstance(await settle(world.store, world.executor, read, plan, again), Lost)
