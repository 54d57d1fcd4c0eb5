"""The lease of a lane: the right of one worker to write the lane's backlog. Each write checks the lease.

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
from tagcast.rows.message import MessageRow
from tagcast.rows.message_transitions import end_writes

LEASE_GRACE_S = 30
TRIES_MIN = 3
"""A result is written with at least 3 tries, even after the budget's end. The budget reserves time for this."""
ENDED_AT_ONCE = 33
"""At most 33 deliveries end in a transaction: two writes for each, and one for the lane."""


@dataclass(frozen=True, slots=True)
class Task:
    """The input and state of one workflow execution. *rounds* counts its calls of the function so far."""

    topic: str
    subscription_id: str
    generation: str
    rounds: int = 0


class StaleWorkerError(Exception):
    """This worker lost its lease of the lane. Only the delivery package raises and handles this error."""


class Drained(Enum):
    """The result of one step through the backlog under a claim."""

    DONE = auto()
    """The lane is empty, or is a tombstone. No worker needs to return to it."""
    WAITING = auto()
    """The next attempt is planned."""
    GOING_ON = auto()
    """More work remains under this claim."""
    OVERTAKEN = auto()
    """Another worker wrote first."""


async def read_lane(world: World, task: Task) -> Lane | None:
    """Return the lane of a task as stored; None if the lane is active, because then it has no row."""
    return await world.executor.run(stored.lane, world.store, task.topic, task.subscription_id)


@dataclass(slots=True)
class LaneLease:
    """One worker's lease of a task's lane. The head of the lane was last claimed at *claimed_at*, until *held_until*.

    *lane* is the lane as last read or written. The worker pushes in *slots* until *deadline* (monotonic). *is_held* is
    False after the next attempt is planned; then the claim must not be extended. *attempt_s* is the maximal duration of
    an attempt. *is_independent* is True if no delivery of the lane waits for another. *retry_now_after* is the place in
    the backlog up to which a *retry now* has attempted all deliveries, or empty at its start.
    """

    world: World
    task: Task
    slots: PushSlots
    deadline: float
    lane: Lane
    claimed_at: int = 0
    held_until: int = 0
    is_held: bool = False
    attempt_s: int = 0
    is_independent: bool = False
    retry_now_after: str = ""

    def left_s(self) -> float:
        """Return the seconds that remain of the budget."""
        return self.deadline - self.world.clock.monotonic()

    async def verify(self) -> int:
        """Check that the worker still has the lane; return the lane's current *appended*. Raises StaleWorkerError."""
        lane = await read_lane(self.world, self.task)
        if lane is None or lane.generation != self.lane.generation or lane.claim != self.lane.claim:
            raise StaleWorkerError
        self.lane = replace(self.lane, state=lane.state)
        return lane.appended

    async def is_valid(self) -> bool:
        """Return whether the worker still has the lane."""
        try:
            await self.verify()
        except StaleWorkerError:
            return False
        return True

    def check(self) -> Write:
        """Return a condition that makes a transaction fail if the worker has lost the lane."""
        return lane_transitions.check_claim(self.lane)

    async def write(self, *writes: Write) -> None:
        """Execute one write, or several as one transaction; on contention retry within the budget.

        Raises ConditionLostError if a condition failed, and ContendedError if contention lasts until the budget ends.
        """
        lost = 0
        while True:  # It ends: with the budget, if nothing else ends it.
            try:
                await self.world.executor.run(write_all, self.world.store, writes)
            except ContendedError:
                lost += 1
                if not await self.wait(lost):
                    raise
                continue
            return

    def end_at(self) -> int:
        """Return the instant at which the budget ends. From then on the next worker may continue."""
        return self.world.clock.now() + math.ceil(max(0.0, self.left_s()) * 1000)

    async def wait(self, lost: int) -> bool:
        """Pause after *lost* failed tries (:func:`pause_s`). Return False, without a pause, if the budget is too short.

        After each of the first :data:`TRIES_MIN` tries there is a pause even if the budget is too short.
        """
        seconds = pause_s(self.world, lost)
        if lost >= TRIES_MIN and self.left_s() <= seconds:
            return False
        await self.world.clock.pause(seconds)
        return True

    async def renew(self, seconds: float) -> None:
        """Extend the claim if it ends in less than *seconds* plus half of the grace period (:data:`LEASE_GRACE_S`).

        The new claim lasts *seconds* plus the grace period. Do nothing if the next attempt is planned.
        """
        until = self.world.clock.now() + (seconds + LEASE_GRACE_S / 2) * 1000
        if self.is_held and self.held_until < until:
            await self.acquire(round(seconds))

    async def acquire(self, attempt_s: int) -> None:
        """Claim the head, or extend the claim, for *attempt_s* seconds plus a grace period (:data:`LEASE_GRACE_S`)."""
        now = self.world.clock.now()
        until = now + (attempt_s + LEASE_GRACE_S) * 1000
        claimed, write = lane_transitions.claim(self.lane, until)
        await self.world.executor.run(self.world.store.write, write)
        self.lane, self.claimed_at, self.held_until, self.is_held = claimed, now, until, True

    async def finish(self, appended: int) -> None:
        """Activate the empty lane, or write the tombstone if the lane was removed.

        *appended* is the lane's counter as :meth:`verify` returned it before the backlog was found empty. Raises
        ConditionLostError if a batch has joined the backlog since.
        """
        if self.lane.state is LaneState.REMOVED:
            await self.write(lane_transitions.leave_tombstone(self.lane))
            return
        await self.write(lane_transitions.activate(replace(self.lane, appended=appended)))

    async def reschedule(self, due_at: int, *beside: Write) -> None:
        """Release the claim of a non-empty lane, and plan that the lane continues at *due_at*.

        The writes *beside* are in the same transaction.
        """
        await self.write(*beside, self.plan(due_at))

    def plan(self, due_at: int, message_id: str | None = None) -> Write:
        """Return the write that plans the next attempt of the lane for *due_at*.

        *message_id* is the message whose failure decides *due_at*; None if something else decides *due_at*.
        """
        state = LaneState.BLOCKED if self.lane.state is LaneState.RETRYING else self.lane.state
        return lane_transitions.plan(self.lane, due_at, message_id, state)

    async def read_subscription(self) -> Subscription | None:
        """Return the current subscription of the lane; None if it was deleted, even if a new one has the same name.

        Also updates *attempt_s* and *is_independent*.
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
        """End a delivery and delete its due row, as :func:`end_due` does, if the worker still has the lease.

        Retries if another writer changed the message's rows. Raises StaleWorkerError if the worker lost the lane.
        """
        world, topic, lost = self.world, self.task.topic, 0
        while True:  # It ends: with the budget, if nothing else ends it.
            try:
                await world.executor.run(end_due, world.store, topic, due, entry, self.check(), known=known)
            except ConditionLostError as error:
                known, lost = None, lost + 1
                if not isinstance(error, ContendedError):
                    await self.verify()
                if not await self.wait(lost):
                    raise
                continue
            return

    async def end_deliveries(self, ends: Sequence[tuple[PendingDelivery, Entry, MessageRow]]) -> bool:
        """End deliveries in one transaction; return False if the caller must end them one by one.

        The cause is a conflict, or an open first round. In an open round an end also changes the message's row, and
        several such rows may exceed 4 MB, the limit of a transaction.
        """
        ordinal = ordinal_of(self.task.subscription_id)
        if any(ordinal in row.map.waiting for _, _, row in ends):
            return False
        writes: list[Write] = [self.check()]
        for due, entry, row in ends:
            writes += [due_delete_as_read(due), *end_writes(row, {ordinal: entry})]
        try:
            await self.world.executor.run(write_all, self.world.store, writes)
        except ConditionLostError:
            return False
        return True


def continue_as_new(world: World, task: Task) -> None:
    """Hand the lane of *task* to a new execution; do nothing if another execution owns the lane."""
    lane = stored.lane(world.store, task.topic, task.subscription_id)
    if lane is None or lane.generation != task.generation:
        return
    generation = world.dice.unique_id(world.clock.now())
    try:
        world.store.write(lane_transitions.reassign(lane, generation))
    except ConditionLostError:
        return
    world.workflow.start(task.topic, task.subscription_id, generation)
