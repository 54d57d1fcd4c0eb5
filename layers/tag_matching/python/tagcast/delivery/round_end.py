"""The end of a first round: what came of a batch, written into the messages' rows.

See docs/architecture.md, The first round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.contention import pause_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.ending import TURN_S, Conflict, Ending, end_each, end_planned_beside
from tagcast.delivery.serving import Part
from tagcast.ports import World
from tagcast.rows import stored_maps
from tagcast.rows.message import MessageRow

TRIES_MAX = 8
"""So often a write is tried whose condition gets lost; then the batch has to come again."""


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """What a batch of messages, read as *rows*, came to in the *parts* of its subscriptions.

    *theirs* are those to whom each message is brought here, *round_at* is when that began.
    """

    world: World
    rows: Mapping[str, MessageRow]
    theirs: Mapping[str, frozenset[int]]
    parts: Mapping[int, Part]
    round_at: int

    async def write(self) -> list[Exception]:
        """Write the entries of each message, and the end of its first round for whom it was brought to here.

        Not if the part of one of them failed. Returns the faults: then the batch has to come again.
        """
        world, faults = self.world, list[Exception]()
        planned = {each: self._ending(row, row) for each, row in self.rows.items()}
        endings = {each: ending for each, ending in planned.items() if ending is not None}
        together = [(self.rows[each], ending) for each, ending in endings.items()]
        left = list(endings)
        if len(together) > 1:
            left, faults = await end_each(world.store, world.executor, together)
        return faults + await side_by_side([self._alone(self.rows[each], endings[each]) for each in left])

    async def _alone(self, row: MessageRow, ending: Ending) -> None:
        """Write one message, whoever else writes it meanwhile."""
        world = self.world

        def plan(before: MessageRow) -> Ending | None:
            return ending if before is row else self._ending(row, before)

        async def again(conflict: Conflict) -> bool:
            await world.clock.pause(pause_s(world, conflict.times, len(row.bounds) * TURN_S))
            return conflict.times < TRIES_MAX + len(row.bounds)

        read = partial(stored_maps.again, world.store, row)
        came = await end_planned_beside(world.store, world.executor, read, plan, again, row)
        if isinstance(came, Conflict):
            raise came.error

    def _ending(self, row: MessageRow, before: MessageRow) -> Ending | None:
        """Return what ends of the message that was read here as *row* and stands as *before* now."""
        message_id, parts = row.message.message_id, self.parts
        entries = {part.ordinal: part.ended[message_id] for part in parts.values() if message_id in part.ended}
        handed = {part.ordinal for part in parts.values() if message_id in part.handed}
        served = {part.ordinal for part in parts.values() if part.is_served and message_id in part.rows}
        ends = row.map.owed & self.theirs[message_id] <= served
        news = (entries.keys() | handed) & (before.map.owed - before.map.handed)
        closes = ends and before.map.round_open and (served & before.map.owed) - before.map.over
        if not before.map.owed or not (closes or news):
            return None
        return Ending(entries, self.round_at if ends else None, served=served, handed=handed)
