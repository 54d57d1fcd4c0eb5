"""What came of attempts on a lane, written under its worker's hold, however many write the same messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.contention import window_s
from tagcast.delivery.lane_hold import LaneHold
from tagcast.delivery.settling import (
    TOGETHER_BYTES_MAX,
    Ending,
    Lost,
    NotOwed,
    Read,
    settle,
    settle_together,
    size_of,
    turn_s,
)
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
        """Return the message's row if the entry is still owed; otherwise drop the phantom row."""
        world = self.hold.world
        row = await world.executor.run(self._read(due))
        if row is None or not _owes(row, due):
            await self.hold.write(due_delete(due))
            return None
        return row

    def _read(self, due: OwedDelivery) -> Read:
        """Return what reads the message with the part of its map that has the entry of *due*."""
        return partial(stored_maps.owed_entry, self.hold.world.store, self.hold.task.topic, due)

    async def settle(self, due: OwedDelivery, entry: Entry, *, patient: bool) -> OwedDelivery | None:
        """Write a terminal entry and remove its due row in one transaction; return None when done.

        See docs/architecture.md, Invariants, 5. One that is pending was handed over to its group.

        A thousand lanes may want to write the same message. Whoever is kept out waits longer each time; after some
        tries it keeps what a push brought in its own due row, which nobody else writes, so that no push is repeated
        for that. It returns that row then, or goes on as long as the budget lasts if it is *patient*.
        """
        world = self.hold.world

        def plan(before: MessageRow) -> Ending | None:
            return _ending(due, entry, (due_delete(due), self.hold.check())) if _owes(before, due) else None

        async def again(lost: Lost) -> bool:
            nonlocal due
            if not isinstance(lost.error, ContendedError):
                await self.hold.appended()
            all_s = lost.before.map.pending * turn_s(lost.before)
            if lost.times >= MARKED_AFTER:
                if due.ended is None and entry.attempts > due.attempts:
                    due = await self.mark(due, entry)
                if due.ended and not patient:
                    return False
                await self.hold.prolong(window_s(lost.times, all_s))
            return await self.hold.wait(lost.times, all_s)

        came = await settle(world.store, world.executor, self._read(due), plan, again)
        if isinstance(came, Lost):
            return due
        if isinstance(came, NotOwed):
            await self.hold.write(due_delete(due))
        return None

    async def cancel(self, dues: Sequence[OwedDelivery]) -> None:
        """End deliveries without another push: nobody is subscribed any more, or an earlier push ended them.

        Hundreds of lanes that owe the same messages may be removed at once. So many end in a transaction; if others
        kept all of them out, one ends alone. The rest comes with the next look.
        """
        world, first = self.hold.world, {due.message_id: due for due in reversed(dues)}
        ordinal = ordinal_of(self.hold.task.subscription_id)
        read = partial(stored_maps.entries, world.store, self.hold.task.topic, tuple(first), ordinal)
        rows = await world.executor.run(read) if len(first) > 1 else {}
        together = [
            (due, due.ending(EntryState.CANCELLED), rows[each])
            for each, due in first.items()
            if each in rows and rows[each].section is None and _owes(rows[each], due)
        ]
        done = await self.settle_together(together)
        kept = {id(due) for due, _, _ in together}
        alone = [due for due in dues if id(due) not in kept]
        for due in alone if alone or done else dues[:1]:
            await self.settle(due, due.ending(EntryState.CANCELLED), patient=True)

    async def settle_together(self, ends: Sequence[tuple[OwedDelivery, Entry, MessageRow]]) -> set[str]:
        """Write terminal entries of messages as they were just read, as many in a transaction as it takes.

        Returns the messages of which that was done; the others have to be settled one by one, as wide ones always are.
        """
        world, done = self.hold.world, set[str]()
        narrow = [end for end in ends if end[2].section is None]
        for some in fitting(narrow, TOGETHER_MAX, TOGETHER_BYTES_MAX, lambda end: size_of(end[2])):
            endings = [(row, _ending(due, entry, (due_delete(due),))) for due, entry, row in some]
            if await settle_together(world.store, world.executor, endings, (self.hold.check(),)):
                done |= {due.message_id for due, _, _ in some}
        return done

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


def _ending(due: OwedDelivery, entry: Entry, beside: Sequence[Write]) -> Ending:
    ordinal = ordinal_of(due.subscription_id)
    if not entry.state.is_terminal:
        return Ending({}, beside=beside, handed={ordinal})
    return Ending({ordinal: entry}, beside=beside)


def _owes(row: MessageRow, due: OwedDelivery) -> bool:
    return row.map.is_with_lane(ordinal_of(due.subscription_id))
