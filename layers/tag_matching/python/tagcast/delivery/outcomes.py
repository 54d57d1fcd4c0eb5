"""What came of attempts on a lane, written under its worker's hold, however many write the same messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.contention import window_s
from tagcast.delivery.ending import (
    TOGETHER_BYTES_MAX,
    Conflict,
    EntryEnd,
    end_entry_beside,
    end_together,
    size_of,
)
from tagcast.delivery.lane_hold import LaneHold
from tagcast.errors import ConditionLostError, ContendedError
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState
from tagcast.ports import Write
from tagcast.pushing.attempts import Failure
from tagcast.rows import stored_maps
from tagcast.rows.due import OwedDelivery, due_change, due_delete, due_failure
from tagcast.rows.message import MessageRow
from tagcast.tables import fitting

TOGETHER_MAX = 33
"""Of a transaction's 100 writes a message takes three and the lane one."""
MARKED_AFTER = 3
"""So many tries to settle may be lost before the end that a push brought is kept in the due row."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The writes behind attempts: each is repeated with patience and fails once the lane is another's."""

    hold: LaneHold

    async def owing(self, due: OwedDelivery) -> MessageRow | None:
        """Return the message's row if the entry is still owed; otherwise drop the stale due row."""
        world = self.hold.world
        read = partial(stored_maps.entry, world.store, self.hold.task.topic, due.message_id, self._ordinal)
        row = await world.executor.run(read)
        if row is None or not row.map.is_with_lane(self._ordinal):
            await self.hold.write(due_delete(due))
            return None
        return row

    async def end(
        self, due: OwedDelivery, entry: Entry, *, patient: bool, known: MessageRow | None = None
    ) -> OwedDelivery | None:
        """Bring a delivery to its end and remove its due row in one transaction; return None when done.

        *known* is its message as it was read. One that is pending was handed over to its group.

        A thousand lanes may want to write the same message. Each waits longer after every conflict. After some it keeps
        what a push brought in its own due row, which nobody else writes, so that no push is repeated for that. It
        returns that row then, or goes on as long as the budget lasts if it is *patient*.
        """
        world, topic, conflicts = self.hold.world, self.hold.task.topic, 0
        while True:  # It ends: with the budget, if nothing else ends it.
            end = EntryEnd.of_due(topic, due, entry, self.hold.check())
            came = await end_entry_beside(world.store, world.executor, end, known=known)
            if not isinstance(came, Conflict):
                return None
            known, conflicts = None, conflicts + 1
            if not isinstance(came.error, ContendedError):
                await self.hold.appended()
            if conflicts >= MARKED_AFTER:
                if due.ended is None and entry.attempts > due.attempts:
                    due = await self.mark(due, entry)
                if due.ended and not patient:
                    return due
                await self.hold.prolong(window_s(conflicts, came.all_s))
            if not await self.hold.wait(conflicts, came.all_s):
                return due

    async def cancel(self, dues: Sequence[OwedDelivery]) -> None:
        """End deliveries without another push: nobody is subscribed any more, or an earlier push ended them.

        Hundreds of lanes that owe the same messages may be removed at once. So many end in a transaction; if others
        kept all of them out, one ends alone. The rest comes with the next look.
        """
        world, first = self.hold.world, {due.message_id: due for due in reversed(dues)}
        read = partial(stored_maps.entries, world.store, self.hold.task.topic, tuple(first), self._ordinal)
        rows = await world.executor.run(read) if len(first) > 1 else {}
        cancelled = [(due, due.ending(EntryState.CANCELLED), rows[each]) for each, due in first.items() if each in rows]
        together = [end for end in cancelled if end[2].section is None and end[2].map.is_with_lane(self._ordinal)]
        done = await self.end_together(together)
        kept = {id(due) for due, _, _ in together}
        alone = [due for due in dues if id(due) not in kept]
        for due in alone if alone or done else dues[:1]:
            await self.end(due, due.ending(EntryState.CANCELLED), patient=True)

    async def end_together(self, ends: Sequence[tuple[OwedDelivery, Entry, MessageRow]]) -> set[str]:
        """Bring deliveries of messages that were just read to their ends, as many in a transaction as it takes.

        Returns the messages of which that was done; the others have to end one by one, as wide ones always do.
        """
        world, topic, done = self.hold.world, self.hold.task.topic, set[str]()
        narrow = [end for end in ends if end[2].section is None]
        for some in fitting(narrow, TOGETHER_MAX, TOGETHER_BYTES_MAX, lambda end: size_of(end[2])):
            together = [(EntryEnd.of_due(topic, due, entry), row) for due, entry, row in some]
            if await end_together(world.store, world.executor, together, self.hold.check()):
                done |= {due.message_id for due, _, _ in some}
        return done

    @property
    def _ordinal(self) -> int:
        return ordinal_of(self.hold.task.subscription_id)

    async def mark(self, due: OwedDelivery, entry: Entry) -> OwedDelivery:
        """Keep the end that a push brought in the due row; return the row as it stands now."""
        marked = due.marked(entry)
        try:
            await self.hold.write(due_change(due, marked), self.hold.check())
        except ConditionLostError:
            await self.hold.appended()
            return due
        return marked

    async def write_failure(self, due: OwedDelivery, failure: Failure, lane: Write) -> None:
        """Write a failed attempt into the due row, together with what it means for the *lane*."""
        await self.hold.write(due_failure(due, failure.past, failure.not_before), lane)

    async def write_yes(self, due: OwedDelivery) -> None:
        """Keep the verdict on a delivery that was not started, so that it is not asked for again."""
        await self.hold.write(due_change(due, due), self.hold.check())
