"""The sweep: whatever is owed and out of everybody's sight is brought to where it belongs.

Lanes that nobody woke come first, since that is quick; then, beside each other, messages that the queue did not take,
what is past its life, and the search through the whole table. One row that cannot be read or written stops nothing
else, and everything ends within the time given: what was not reached comes first in the next sweep.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import cast

from tagcast.concurrency.isolation import each
from tagcast.ports import Put, Row, World
from tagcast.repairing.expiry import expire_retained, expire_sleeping
from tagcast.repairing.overdue import Lanes, oldest_head_s, wake_lanes
from tagcast.repairing.search import Pass, search
from tagcast.repairing.unsent import Sending, resend
from tagcast.rows.keys import sweep_key

LANES_SHARE = 0.4
"""So much of the time lanes may take that are to be started again."""


@dataclass(slots=True)
class Swept:
    """What one sweep did.

    *restarted* lanes, *expired* entries, *sent* messages; how late the most overdue lane was, and how long the
    longest blocked head has been owed, in seconds.
    """

    restarted: int = 0
    expired: int = 0
    sent: int = 0
    oldest_overdue_s: float = 0.0
    oldest_head_s: float = 0.0


@dataclass(slots=True)
class _Memory:
    """What one sweep leaves to the next: the topic behind which it goes on, and the pass of the search."""

    topic: str
    search: Pass

    @classmethod
    def of(cls, row: Row | None) -> _Memory:
        row = row or {}
        began_at, cursor = cast("int | None", row.get("began_at")), cast("str | None", row.get("cursor"))
        return cls(cast("str", row.get("topic", "")), Pass(cursor, began_at))

    def row(self) -> Row:
        row: dict[str, str | int] = {"topic": self.topic}
        if self.search.began_at is not None:
            row["began_at"] = self.search.began_at
        if self.search.cursor is not None:
            row["cursor"] = self.search.cursor
        return row


async def sweep(world: World, budget_s: float) -> Swept:
    """Sweep once, for at most about *budget_s* seconds."""
    begins = world.clock.monotonic()
    ends = begins + budget_s
    lanes = await wake_lanes(world, begins + budget_s * LANES_SHARE)
    memory = _Memory.of(await world.executor.run(lambda: world.store.get(sweep_key())))
    swept = Swept(lanes.restarted, oldest_overdue_s=lanes.oldest_overdue_s)
    await each(world, "a part of the sweep", _parts(world, memory, swept, lanes, ends), lambda part: part)
    await world.executor.run(lambda: world.store.write(Put(sweep_key(), memory.row())))
    return swept


def _parts(
    world: World, memory: _Memory, swept: Swept, lanes: Lanes, ends: float
) -> tuple[Coroutine[None, None, None], ...]:
    sending = Sending(world)

    async def heads() -> None:
        swept.oldest_head_s = await oldest_head_s(world, lanes.blocked)

    async def unsent() -> None:
        swept.sent += await resend(world, sending, ends)

    async def sleeping() -> None:
        swept.expired += await expire_sleeping(world, lanes.asleep, ends)

    async def retained() -> None:
        expired, memory.topic = await expire_retained(world, memory.topic, ends)
        swept.expired += expired

    async def lost() -> None:
        sent, expired, memory.search = await search(world, sending, memory.search, ends)
        swept.sent += sent
        swept.expired += expired

    return heads(), unsent(), sleeping(), retained(), lost()
