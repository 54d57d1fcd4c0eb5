"""The end of a first round: what came of a batch, written into the messages' rows.

See docs/architecture.md, The first round.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.contention import pause_s
from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.copies import end_in_backlogs, guards
from tagcast.delivery.serving import Part
from tagcast.delivery.settling import TURN_S, Ending, Lost, settle, settle_each
from tagcast.model import EntryState
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
    topic: str
    topic_id: str
    rows: Mapping[str, MessageRow]
    theirs: Mapping[str, frozenset[int]]
    parts: MutableMapping[int, Part]
    round_at: int

    async def write(self) -> list[Exception]:
        """Write the entries of each message, and the end of its first round for whom it was brought to here.

        Not if the part of one of them failed. Returns the faults: then the batch has to come again.
        """
        world, parts = self.world, self.parts
        faults = await end_in_backlogs(world, self.topic, self.topic_id, parts)
        planned = {each: self._ending(row, parts, row) for each, row in self.rows.items()}
        endings = {each: ending for each, ending in planned.items() if ending is not None}
        together = [(self.rows[each], ending) for each, ending in endings.items()]
        left = list(endings)
        if len(together) > 1:
            left, failed = await settle_each(world.store, world.executor, together)
            faults += failed
        return faults + await side_by_side([self._alone(self.rows[each], endings[each]) for each in left])

    async def _alone(self, row: MessageRow, ending: Ending) -> None:
        """Write one message; whoever wrote it meanwhile may be a copy, whose attempts stand in backlogs."""
        world, known = self.world, self.parts

        def plan(before: MessageRow) -> Ending | None:
            return ending if before is row else self._ending(row, known, before)

        async def again(lost: Lost) -> bool:
            nonlocal known
            await world.clock.pause(pause_s(world, lost.times, len(row.bounds) * TURN_S))
            known = dict(known)
            if faults := await end_in_backlogs(world, self.topic, self.topic_id, known, fresh_s=0.0):
                raise faults[0]
            return lost.times < TRIES_MAX + len(row.bounds)

        came = await settle(world.store, world.executor, partial(stored_maps.again, world.store, row), plan, again, row)
        if isinstance(came, Lost):
            raise came.error

    def _ending(self, row: MessageRow, parts: Mapping[int, Part], before: MessageRow) -> Ending | None:
        """Return what ends of the message that was read here as *row* and stands as *before* now."""
        message_id = row.message.message_id
        entries = {part.ordinal: part.ended[message_id] for part in parts.values() if message_id in part.ended}
        handed = {part.ordinal for part in parts.values() if message_id in part.handed}
        served = {part.ordinal for part in parts.values() if part.is_served and message_id in part.rows}
        ends = row.map.owed & self.theirs[message_id] <= served
        news = (entries.keys() | handed) & (before.map.owed - before.map.handed)
        closes = ends and before.map.round_open and (served & before.map.owed) - before.map.over
        if not before.map.owed or not (closes or news):
            return None
        is_late = any(entry.state is EntryState.EXPIRED for entry in entries.values())
        beside = guards(self.topic, self.topic_id, message_id, parts.values()) if is_late else ()
        round_at = self.round_at if ends else None
        return Ending(entries, round_at, served=served, beside=beside, handed=handed)
