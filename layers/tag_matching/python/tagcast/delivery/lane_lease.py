"""One worker's lease of a lane: what it writes is conditional on it, and waits while others write.

See docs/protocol.md, Invariants, 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from tagcast.concurrency.contention import pause_s
from tagcast.delivery.ending import write_all
from tagcast.errors import ContendedError
from tagcast.model import LaneState
from tagcast.ports import World, Write
from tagcast.rows import stored
from tagcast.rows.lane import Lane, lane_check, lane_delete, lane_update

LEASE_GRACE_S = 30
TRIES_MIN = 3
"""An outcome is worth so many tries even when the budget is over: it has a reserve for the writes behind a push."""


@dataclass(frozen=True, slots=True)
class Task:
    """The input and memory of one workflow execution."""

    topic: str
    subscription_id: str
    generation: str
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the workflow does next: wait until an instant and come back, or end (None)."""

    task: Task
    wait_until: int | None = None


class StaleWorkerError(Exception):
    """The lane belongs to somebody else now; nothing outside redelivery sees this."""


@dataclass(slots=True)
class LaneLease:
    """The lane of one task as its worker last saw it, and until when its head is claimed.

    *deadline* is when the worker has to come to its end, on the monotonic clock. Calls of the store are carried out
    beside the event loop.
    """

    world: World
    task: Task
    deadline: float
    seen: Lane | None = None
    held_until: int = 0
    is_held: bool = False
    """False once the next attempt is planned: then the claim must not be prolonged."""

    @property
    def lane(self) -> Lane:
        """Return the lane as it was last read or written."""
        assert self.seen is not None
        return self.seen

    def left_s(self) -> float:
        """Return how much of the budget is left."""
        return self.deadline - self.world.clock.monotonic()

    async def look(self) -> Lane | None:
        """Read the lane, whoever holds it."""
        return await self.world.executor.run(
            partial(stored.lane, self.world.store, self.task.topic, self.task.subscription_id)
        )

    async def verify(self) -> int:
        """Read how long the backlog grew, before it is looked at; or raise StaleWorkerError."""
        lane = await self.look()
        if lane is None or lane.generation != self.lane.generation or lane.claim != self.lane.claim:
            raise StaleWorkerError
        self.seen = replace(self.lane, state=lane.state)
        return lane.appended

    def check(self) -> Write:
        """Return the part of a transaction that lets it fail for a worker that lost the lane."""
        return lane_check(self.lane)

    def move(self, lane: Lane) -> Write:
        """Return the write that brings the lane's row to *lane*, unless this worker lost it."""
        return lane_update(lane, self.lane.as_held(), claims=True)

    async def write(self, *writes: Write) -> None:
        """Carry out one write or transaction; while others keep it out, wait and try again as long as the budget lasts.

        Raises ConditionLostError, and ContendedError in the end.
        """
        lost = 0
        while True:  # It ends: with the budget, if nothing else ends it.
            try:
                await self.try_once(*writes)
            except ContendedError:
                lost += 1
                if not await self.wait(lost):
                    raise
                continue
            return

    async def try_once(self, *writes: Write) -> None:
        """Carry out one write or transaction, beside the event loop."""
        await self.world.executor.run(partial(write_all, self.world.store, writes))

    def end_at(self) -> int:
        """Return when the budget is over, on the clock of instants: the next worker may go on then."""
        return self.world.clock.now() + math.ceil(max(0.0, self.left_s()) * 1000)

    async def wait(self, lost: int, all_s: float = 0.0) -> bool:
        """Wait after so many lost tries, as :func:`pause_s` says; return False instead when the budget is over."""
        seconds = pause_s(self.world, lost, all_s)
        if lost >= TRIES_MIN and self.left_s() <= seconds:
            return False
        await self.world.clock.pause(seconds)
        return True

    async def renew(self, seconds: float) -> None:
        """Keep the claim for *seconds* more, unless the next attempt is planned already."""
        until = self.world.clock.now() + (seconds + LEASE_GRACE_S / 2) * 1000
        if self.is_held and self.held_until < until:
            await self.acquire(round(seconds))

    async def acquire(self, attempt_s: int) -> None:
        """Take the head, or keep it: nobody else attempts it while an attempt of *attempt_s* may be under way."""
        until = self.world.clock.now() + (attempt_s + LEASE_GRACE_S) * 1000
        taken = replace(self.lane, claim=self.lane.claim + 1, next_attempt_at=until, wake_at=until)
        # Whoever had the claim may have planned the next attempt since the lane was read.
        await self.try_once(lane_update(taken, self.lane.as_planned(), claims=True))
        self.seen, self.held_until, self.is_held = taken, until, True

    async def finish(self, appended: int) -> None:
        """Activate the empty lane, or leave the tombstone of a removed one; ConditionLostError if it grew meanwhile."""
        if self.lane.state is LaneState.REMOVED:
            await self.write(self.move(replace(self.lane, wake_at=None)))
            return
        await self.write(lane_delete(replace(self.lane, appended=appended)))

    async def reschedule(self, due_at: int, *beside: Write) -> None:
        """Give the claim back while the backlog is not empty; it goes on at *due_at*."""
        await self.write(*beside, self.move(self.planned(due_at)))

    def planned(self, due_at: int, message_id: str | None = None) -> Lane:
        """Return the lane that goes on at *due_at*: with a message that failed, or with whichever stands first."""
        return replace(self.lane, next_attempt_at=due_at, wake_at=due_at, planned_for=message_id)
