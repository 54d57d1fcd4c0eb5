"""The lease of a lane: one worker's right to write its backlog, checked by each of its writes.

See docs/protocol.md, Redelivery, and Invariants, 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial

from tagcast.concurrency.contention import pause_s
from tagcast.delivery.ending import end_due, write_all
from tagcast.errors import ConditionLostError, ContendedError, NotFoundError
from tagcast.filters.function_filter import judging_s
from tagcast.ids import ordinal_of
from tagcast.model import Entry, LaneState, Subscription
from tagcast.ports import World, Write
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry.directory import subscription_at
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PendingDelivery, due_delete_as_read
from tagcast.rows.lane import Lane
from tagcast.rows.log import end_writes
from tagcast.rows.message import MessageRow

LEASE_GRACE_S = 30
TRIES_MIN = 3
"""An outcome is worth 3 tries even when the budget is over: it has a reserve for the writes behind a push."""
ENDED_AT_ONCE = 33
"""At most 33 deliveries end in a transaction of 100 writes: three for each, if its round is open, and one more."""


@dataclass(frozen=True, slots=True)
class Task:
    """The input and memory of one workflow execution."""

    topic: str
    subscription_id: str
    generation: str
    rounds: int = 0


class StaleWorkerError(Exception):
    """The lane belongs to somebody else now; nothing outside redelivery sees this."""


class Drained(Enum):
    """What came of a look into the backlog under one claim."""

    DONE = auto()
    """The lane is empty, or a tombstone: nobody has to come back."""
    WAITING = auto()
    """Its next attempt is planned."""
    GOING_ON = auto()
    """There is more to do under this claim."""
    OVERTAKEN = auto()
    """Somebody else wrote what this claim was about to write."""


async def look(world: World, task: Task) -> Lane | None:
    """Read the lane of a task."""
    return await world.executor.run(partial(stored.lane, world.store, task.topic, task.subscription_id))


@dataclass(slots=True)
class LaneLease:
    """One worker's lease of a task's *lane*, as it was last read or written; its head is claimed until *held_until*.

    The worker pushes in *slots*; *deadline* is when it has to come to its end, on the monotonic clock. *is_held* is
    False once the next attempt is planned: then the claim must not be prolonged. *attempt_s* is how long an attempt
    takes at most. *is_independent*: no delivery of the lane waits for another.
    """

    world: World
    task: Task
    slots: PushSlots
    deadline: float
    lane: Lane
    held_until: int = 0
    is_held: bool = False
    attempt_s: int = 0
    is_independent: bool = False

    def left_s(self) -> float:
        """Return how much of the budget is left."""
        return self.deadline - self.world.clock.monotonic()

    async def verify(self) -> int:
        """Read how long the backlog grew, before it is looked at; or raise StaleWorkerError."""
        lane = await look(self.world, self.task)
        if lane is None or lane.generation != self.lane.generation or lane.claim != self.lane.claim:
            raise StaleWorkerError
        self.lane = replace(self.lane, state=lane.state)
        return lane.appended

    def check(self) -> Write:
        """Return the part of a transaction that lets it fail for a worker that lost the lane."""
        return lane_transitions.check_claim(self.lane)

    async def write(self, *writes: Write) -> None:
        """Carry out one write or transaction; while others keep it out, wait and try again as long as the budget lasts.

        Raises ConditionLostError, and ContendedError in the end.
        """
        lost = 0
        while True:  # It ends: with the budget, if nothing else ends it.
            try:
                await self.world.executor.run(partial(write_all, self.world.store, writes))
            except ContendedError:
                lost += 1
                if not await self.wait(lost):
                    raise
                continue
            return

    def end_at(self) -> int:
        """Return when the budget is over, on the clock of instants: the next worker may go on then."""
        return self.world.clock.now() + math.ceil(max(0.0, self.left_s()) * 1000)

    async def wait(self, lost: int) -> bool:
        """Wait after *lost* tries, as :func:`pause_s` says; return False instead when the budget is over."""
        seconds = pause_s(self.world, lost)
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
        claimed, write = lane_transitions.claim(self.lane, until)
        await self.world.executor.run(partial(self.world.store.write, write))
        self.lane, self.held_until, self.is_held = claimed, until, True

    async def finish(self, appended: int) -> None:
        """Activate the empty lane, or leave the tombstone of a removed one; ConditionLostError if it grew meanwhile."""
        if self.lane.state is LaneState.REMOVED:
            await self.write(lane_transitions.leave_tombstone(self.lane))
            return
        await self.write(lane_transitions.activate(replace(self.lane, appended=appended)))

    async def reschedule(self, due_at: int, *beside: Write) -> None:
        """Give the claim back while the backlog is not empty; it goes on at *due_at*."""
        await self.write(*beside, self.plan(due_at))

    def plan(self, due_at: int, message_id: str | None = None) -> Write:
        """Return the write of a lane that goes on at *due_at*: with a message that failed, or with its head."""
        state = LaneState.BLOCKED if self.lane.state is LaneState.RETRYING else self.lane.state
        return lane_transitions.plan(self.lane, due_at, message_id, state)

    async def read_subscription(self) -> Subscription | None:
        """Return the subscription of the lane as it is now; None when it is gone, even if another has its name.

        The lease knows then how long an attempt takes, and whether it is independent.
        """
        sid = self.task.subscription_id
        read = partial(subscription_at, self.world, self.task.topic, ordinal_of(sid))
        try:
            found = await self.world.executor.run(read)
        except NotFoundError:
            return None
        if found is None or found.subscription_id != sid:
            return None
        self.is_independent = found.settings.is_independent
        self.attempt_s = found.settings.timeout_s + judging_s(found) + 1
        return found

    async def end_delivery(self, due: PendingDelivery, entry: Entry, known: MessageRow | None = None) -> None:
        """Bring a delivery to its end and remove its due row in one transaction; *known* is its message as it was read.

        The condition is lost if the worker lost the lane, which ends it, or if somebody closed the round meanwhile.
        """
        world, topic, lost = self.world, self.task.topic, 0
        while True:  # It ends: with the budget, if nothing else ends it.
            try:
                await world.executor.run(partial(end_due, world.store, topic, due, entry, self.check(), known=known))
            except ConditionLostError as error:
                known, lost = None, lost + 1
                if not isinstance(error, ContendedError):
                    await self.verify()
                if not await self.wait(lost):
                    raise
                continue
            return

    async def end_deliveries(self, ends: Sequence[tuple[PendingDelivery, Entry, MessageRow]]) -> bool:
        """Bring deliveries to their ends in one transaction; say whether that was done, or has to be one by one."""
        ordinal = ordinal_of(self.task.subscription_id)
        writes: list[Write] = [self.check()]
        for due, entry, row in ends:
            writes += [due_delete_as_read(due), *end_writes(row, {ordinal: entry})]
        try:
            await self.world.executor.run(partial(write_all, self.world.store, writes))
        except ConditionLostError:
            return False
        return True


def continue_as_new(world: World, task: Task) -> None:
    """Hand the lane of *task* to a new execution; do nothing if it is somebody else's by now."""
    lane = stored.lane(world.store, task.topic, task.subscription_id)
    if lane is None or lane.generation != task.generation:
        return
    generation = world.dice.unique_id(world.clock.now())
    try:
        world.store.write(lane_transitions.reassign(lane, generation))
    except ConditionLostError:
        return
    world.workflow.start(task.topic, task.subscription_id, generation)
