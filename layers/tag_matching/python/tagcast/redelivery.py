"""Redelivery of one lane: attempt its head when it is due, drain behind it, activate when empty (architecture §3a)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tagcast.attempts import Failure, Progress, Share, planned_at
from tagcast.continuing import continue_as_new
from tagcast.directory import snapshot
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.keys import due_key, lane_key, message_key
from tagcast.lane_rows import Due, Lane, due_of, due_row, lane_of, lane_row
from tagcast.model import Entry, EntryState, LaneState, Message, Strategy, Subscription, ordinal_of
from tagcast.ports import Check, Delete, Expectation, Put, Table, Update, World, Write
from tagcast.push_slots import PushSlots
from tagcast.rows import message_row_of
from tagcast.settling import map_writes
from tagcast.verdicts import attempt_judged, judging_s
from tagcast.workflow_task import Answer, Task

CLAIM_GRACE_S = 30
SHORT_WAIT_S = 10.0
ROUNDS_MAX = 1_500
"""A round of the workflow writes about ten history events; 25,000 are the limit of an execution."""


async def redeliver(world: World, task: Task, budget_s: float) -> Answer:
    """Attempt what the lane owes and is due, for at most about *budget_s* seconds, and say when to come back.

    A worker of another generation or claim writes nothing. Waits under ten seconds happen in here.
    """
    lane_worker = _Worker(world, task, world.clock.monotonic() + budget_s)
    wait_until = await lane_worker.work()
    if wait_until is None:
        return Answer(task)
    if task.rounds >= ROUNDS_MAX:
        continue_as_new(world, task)
        return Answer(task)
    return Answer(replace(task, rounds=task.rounds + 1), wait_until)


class _StaleWorker(Exception):  # noqa: N818  a signal inside this module, never seen outside
    """The lane belongs to somebody else now."""


@dataclass(slots=True)
class _Worker:
    world: World
    task: Task
    deadline: float
    lane: Lane | None = None
    claimed_until: int = 0
    answering: bool = True
    """False once the claimed head went without a success: what failed before keeps to its own schedule."""
    answered: bool = False
    """True once a push of this claim got through: until then only the head is tried."""

    async def work(self) -> int | None:
        """Work until a wait is needed (return its end), the lane is done, or it belongs to somebody else (None)."""
        while True:
            self.lane = lane = self.read_lane()
            if lane is None or lane.generation != self.task.generation:
                return None
            if lane.state in (LaneState.PAUSED, LaneState.SUSPENDED):
                return None
            due_at = lane.next_attempt_at or 0
            wait_s = (due_at - self.world.clock.now()) / 1000
            left_s = self.deadline - self.world.clock.monotonic()
            if wait_s > 0:
                if wait_s >= SHORT_WAIT_S or wait_s >= left_s:
                    return due_at
                self.world.clock.sleep(wait_s)
                continue
            if left_s <= 0:
                return self.world.clock.now()
            with suppress(ConditionLostError, _StaleWorker):
                if await self.drain():
                    return None

    def read_lane(self) -> Lane | None:
        row = self.world.store.get(lane_key(self.task.topic, self.task.subscription_id))
        return None if row is None else lane_of(row)

    @property
    def held(self) -> Lane:
        assert self.lane is not None
        return self.lane

    def mine(self) -> Expectation:
        """Return the condition that this worker still holds the lane."""
        lane = self.held
        return {"state": lane.state.value, "generation": lane.generation, "claim": lane.claim}

    def move(self, lane: Lane, expect: Expectation | None = None) -> Update:
        """Return the write that brings the lane's row to *lane*; ``appended`` belongs to fan-out and stays."""
        changes = {name: value for name, value in lane_row(lane).items() if name != "appended"}
        asleep = ("wake_at", "wake_shard") if lane.wake_at is None else ()
        return Update(lane.key, changes, asleep, self.mine() if expect is None else expect)

    def claim(self, subscription: Subscription | None) -> None:
        """Take the head: nobody else attempts it until the claim runs out."""
        timeout_s = 0 if subscription is None else subscription.timeout_s
        until = self.world.clock.now() + (timeout_s + CLAIM_GRACE_S) * 1000
        lane = self.held
        taken = replace(lane, claim=lane.claim + 1, next_attempt_at=until, wake_at=until)
        self.world.store.write(self.move(taken))
        self.lane = taken
        self.claimed_until = until

    async def drain(self) -> bool:
        """Work through the backlog under one claim; return True when the lane is done with."""
        subscription = self.subscription()
        self.claim(subscription)
        self.answering, self.answered = True, False
        while True:
            try:
                done = await self.step(subscription)
            except ConditionLostError:
                self.appended()
                continue
            if done is not None:
                return done
            if self.world.clock.monotonic() >= self.deadline:
                self.release(self.world.clock.now())
                return False

    async def step(self, subscription: Subscription | None) -> bool | None:
        """Serve what stands first; return None to go on, True when the lane is done, False when it has to wait."""
        appended = self.appended()
        dues = self.read_dues(subscription)
        if not dues:
            self.finish(appended)
            return True
        if subscription is not None and not judging_s(subscription) and any(due.unjudged for due in dues):
            subscription = self.subscription()  # It was given a filter function since this claim.
        if subscription is None or self.held.state is LaneState.REMOVED:
            for due in dues:
                self.settle(due, Entry(EntryState.CANCELLED, due.attempts, due.last_attempt_at, due.last_outcome))
            return None
        if not self.answering and dues[0].attempts:
            due_at = planned_at(self.world, subscription, dues[0].attempts, dues[0].last_attempt_at or 0)
            if self.world.clock.now() < min(due_at, dues[0].expires_at):
                self.release(min(due_at, dues[0].expires_at))
                return False
        if self.claimed_until - self.world.clock.now() < (subscription.timeout_s + judging_s(subscription) + 1) * 1000:
            self.claim(subscription)
        return None if await self.attempt(subscription, dues) else False

    def appended(self) -> int:
        """Read how long the backlog grew, before it is looked at; activation is conditional on it."""
        lane = self.read_lane()
        if lane is None or lane.generation != self.held.generation or lane.claim != self.held.claim:
            raise _StaleWorker
        self.lane = replace(self.held, state=lane.state)
        return lane.appended

    def subscription(self) -> Subscription | None:
        try:
            present = snapshot(self.world, self.task.topic).by_ordinal
        except NotFoundError:
            return None
        found = present.get(ordinal_of(self.task.subscription_id))
        return found if found is not None and found.subscription_id == self.task.subscription_id else None

    def read_dues(self, subscription: Subscription | None) -> list[Due]:
        """Return the head alone, or a window of the backlog once the receiver answered well."""
        window = subscription.window if subscription is not None and self.answered else 1
        pk = due_key(self.task.subscription_id, "", "").pk
        dues = [due_of(row) for row in self.world.store.query(Table.MESSAGES, pk, limit=window)]
        if dues and dues[0].attempts:
            return dues[:1]
        return list({due.message_id: due for due in reversed(dues)}.values())[::-1]

    def finish(self, appended: int) -> None:
        """Activate the empty lane, or leave the tombstone of a removed one; raise if it grew meanwhile."""
        lane = self.held
        if lane.state is LaneState.REMOVED:
            self.world.store.write(self.move(replace(lane, wake_at=None)))
            return
        self.world.store.write(Delete(lane.key, {**self.mine(), "appended": appended}))

    def release(self, due_at: int) -> None:
        """Give the claim back while the backlog is not empty; it goes on at *due_at*."""
        self.world.store.write(self.move(replace(self.held, next_attempt_at=due_at, wake_at=due_at)))

    async def attempt(self, subscription: Subscription, dues: list[Due]) -> bool:
        """Attempt *dues*; return False when one failed and its schedule was written."""
        deliveries: list[tuple[Message, int]] = []
        known: dict[str, Due] = {}
        for due in dues:
            message = self.owed_message(due)
            if message is not None:
                deliveries.append((message, due.attempts))
                known[message.message_id] = due
        if not deliveries:
            self.answering = False
            return True
        unjudged = {due.message_id for due in dues if due.unjudged}
        async with PushSlots(self.world.clock) as slots:
            share = Share(slots, self.share_s(subscription), self.answered)
            progress = await attempt_judged(self.world, subscription, deliveries, unjudged, share)
        for message_id in progress.judged:
            known[message_id] = replace(known[message_id], unjudged=False)
        delivered = EntryState.DELIVERED in {entry.state for entry in progress.settled.values()}
        self.answering = delivered or not progress.settled
        self.answered |= delivered
        for message_id, entry in progress.settled.items():
            self.settle(known[message_id], entry)
        for message_id in progress.judged - progress.settled.keys() - progress.failures.keys():
            self.write_yes(known[message_id])
        failed = [known[message.message_id] for message, _ in deliveries if message.message_id in progress.failures]
        for due in failed[1:]:
            self.write_failure(due, progress.failures[due.message_id], Check(self.held.key, self.mine()))
        if failed:
            head = progress.failures[failed[0].message_id]
            self.write_failure(failed[0], head, self.rescheduled(subscription, head, progress, failed[0]))
        return not failed

    def share_s(self, subscription: Subscription) -> float:
        """Return for how long attempts may start: they end before this claim does, and none starts after the budget."""
        budget_s = self.deadline - self.world.clock.monotonic()
        claim_s = (self.claimed_until - self.world.clock.now()) / 1000
        return min(budget_s, claim_s - subscription.timeout_s - judging_s(subscription) - 1)

    def owed_message(self, due: Due) -> Message | None:
        """Return the message if its entry is still owed; otherwise drop the phantom row."""
        stored = self.world.store.get(message_key(self.task.topic, due.message_id))
        row = None if stored is None else message_row_of(stored)
        if row is None or ordinal_of(due.subscription_id) not in row.map.owed:
            self.world.store.write(Delete(due.key))
            return None
        return row.message

    def settle(self, due: Due, entry: Entry) -> None:
        """Write a terminal entry and remove its due row in one transaction (invariant 5)."""
        ordinal = ordinal_of(due.subscription_id)
        while True:
            stored = self.world.store.get(message_key(self.task.topic, due.message_id))
            before = None if stored is None else message_row_of(stored)
            if before is None or ordinal not in before.map.owed:
                self.world.store.write(Delete(due.key))
                return
            writes: tuple[Write, ...] = (
                Delete(due.key),
                Check(self.held.key, self.mine()),
                *map_writes(before, before.settled({ordinal: entry})),
            )
            try:
                self.world.store.transact(writes)
            except ConditionLostError:
                self.appended()
                continue
            return

    def write_failure(self, due: Due, failure: Failure, lane: Write) -> None:
        ended_at, outcome = failure.ended_at, failure.outcome.detail
        changed = replace(due, attempts=failure.attempts, last_attempt_at=ended_at, last_outcome=outcome)
        self.world.store.transact((Put(due.key, due_row(changed), {"attempts": due.attempts}), lane))

    def write_yes(self, due: Due) -> None:
        """Keep the verdict on a delivery that was not started, so that it is not asked for again."""
        held = Check(self.held.key, self.mine())
        self.world.store.transact((Put(due.key, due_row(due), {"attempts": due.attempts}), held))

    def rescheduled(self, subscription: Subscription, head: Failure, progress: Progress, due: Due) -> Update:
        """Return the lane's write after its head failed: the next attempt, or suspension after a 410."""
        decay = subscription.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
        lane = replace(
            self.held,
            state=LaneState.LOST_CONTACT if decay else LaneState.BLOCKED,
            next_attempt_at=head.next_attempt_at,
            wake_at=head.next_attempt_at,
        )
        if progress.gone:
            now = self.world.clock.now()
            generation = self.world.dice.unique_id(now)
            lane = replace(lane, state=LaneState.SUSPENDED, generation=generation, wake_at=due.expires_at)
        return self.move(lane)
