"""Redelivery of one lane: attempt its head when it is due, drain behind it, activate when empty (architecture §3a)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tagcast.delivery.continuing import continue_as_new
from tagcast.delivery.lane_hold import LaneHold, StaleWorkerError
from tagcast.delivery.outcomes import Outcomes
from tagcast.delivery.workflow_task import Answer, Task
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.model import EntryState, LaneState, Message, Strategy, Subscription, ordinal_of
from tagcast.ports import World, Write
from tagcast.pushing.attempts import Failure, Progress, Share, planned_at
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.verdicts import attempt_judged, judging_s
from tagcast.registry.directory import snapshot
from tagcast.rows import stored
from tagcast.rows.due import Due

SHORT_WAIT_S = 10.0
ROUNDS_MAX = 1_500
"""A round of the workflow writes about ten history events; 25,000 are the limit of an execution."""


async def redeliver(world: World, task: Task, budget_s: float) -> Answer:
    """Attempt what the lane owes and is due, for at most about *budget_s* seconds, and say when to come back.

    A worker of another generation or claim writes nothing. Waits under ten seconds happen in here.
    """
    hold = LaneHold(world, task, world.clock.monotonic() + budget_s)
    wait_until = await _Worker(world, task, hold, Outcomes(hold)).work()
    if wait_until is None:
        return Answer(task)
    if task.rounds >= ROUNDS_MAX:
        await world.executor.run(partial(continue_as_new, world, task))
        return Answer(task)
    return Answer(replace(task, rounds=task.rounds + 1), wait_until)


@dataclass(slots=True)
class _Worker:
    world: World
    task: Task
    hold: LaneHold
    outcomes: Outcomes
    answering: bool = True
    """False once the claimed head went without a success: what failed before keeps to its own schedule."""
    answered: bool = False
    """True once a push of this claim got through: until then only the head is tried."""

    async def work(self) -> int | None:
        """Work until a wait is needed (return its end), the lane is done, or it belongs to somebody else (None)."""
        lost = 0
        while True:  # It ends: with the budget, if nothing else ends it.
            self.hold.seen = lane = await self.hold.look()
            if lane is None or lane.generation != self.task.generation:
                return None
            if lane.state.is_asleep:
                return None
            due_at = lane.next_attempt_at or 0
            wait_s = (due_at - self.world.clock.now()) / 1000
            if wait_s > 0:
                if wait_s >= SHORT_WAIT_S or wait_s >= self.hold.left_s():
                    return due_at
                await self.world.clock.pause(wait_s)
                continue
            if self.hold.left_s() <= 0 or (lost and not await self.hold.wait(lost)):
                return self.world.clock.now()
            try:
                if await self.drain():
                    return None
            except ConditionLostError:
                lost += 1
            except StaleWorkerError:
                continue

    async def drain(self) -> bool:
        """Work through the backlog under one claim; return True when the lane is done with."""
        subscription = await self.subscription()
        await self.hold.claim(0 if subscription is None else subscription.settings.timeout_s)
        self.answering, self.answered = True, False
        lost = 0
        while self.hold.left_s() > 0:
            try:
                done = await self.step(subscription)
            except ConditionLostError:
                await self.hold.appended()
                lost += 1
                await self.hold.wait(lost)
                continue
            if done is not None:
                return done
            lost = 0
        await self.hold.release(self.world.clock.now())
        return False

    async def step(self, subscription: Subscription | None) -> bool | None:
        """Serve what stands first; return None to go on, True when the lane is done, False when it has to wait."""
        appended = await self.hold.appended()
        dues = await self.read_dues(subscription)
        if not dues:
            await self.hold.finish(appended)
            return True
        if subscription is not None and not judging_s(subscription) and any(due.unjudged for due in dues):
            subscription = await self.subscription()  # It was given a filter function since this claim.
        gone = subscription is None or self.hold.lane.state is LaneState.REMOVED
        over = dues if gone else [due for due in dues if due.ended]
        for due in over:
            await self.outcomes.settle(due, due.ending(EntryState.CANCELLED), patient=True)
        if subscription is None or over:
            return None
        if not self.answering and dues[0].attempts:
            due_at = planned_at(self.world, subscription, dues[0].attempts, dues[0].last_attempt_at or 0)
            if self.world.clock.now() < min(due_at, dues[0].expires_at):
                await self.hold.release(min(due_at, dues[0].expires_at))
                return False
        attempt_s = subscription.settings.timeout_s + judging_s(subscription) + 1
        if self.hold.claimed_until - self.world.clock.now() < attempt_s * 1000:
            await self.hold.claim(subscription.settings.timeout_s)
        return None if await self.attempt(subscription, dues) else False

    async def subscription(self) -> Subscription | None:
        try:
            present = (await self.world.executor.run(partial(snapshot, self.world, self.task.topic))).by_ordinal
        except NotFoundError:
            return None
        found = present.get(ordinal_of(self.task.subscription_id))
        return found if found is not None and found.subscription_id == self.task.subscription_id else None

    async def read_dues(self, subscription: Subscription | None) -> list[Due]:
        """Return the head alone, or a window of the backlog once the receiver answered well."""
        window = subscription.window if subscription is not None and self.answered else 1
        read = partial(stored.dues, self.world.store, self.task.subscription_id, limit=window)
        dues = await self.world.executor.run(read)
        if dues and dues[0].attempts:
            return dues[:1]
        return list({due.message_id: due for due in reversed(dues)}.values())[::-1]

    async def attempt(self, subscription: Subscription, dues: list[Due]) -> bool:
        """Attempt *dues*; return False when one failed and its schedule was written."""
        deliveries: list[tuple[Message, int]] = []
        known: dict[str, Due] = {}
        for due in dues:
            row = await self.outcomes.owing(due)
            if row is not None:
                deliveries.append((row.message, due.attempts))
                known[due.message_id] = due
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
        made = {each: entry.attempts for each, entry in progress.settled.items()}
        unwritten = {each for each, due in known.items() if made.get(each, 0) > due.attempts} | set(progress.failures)
        try:
            await self.write_outcomes(subscription, known, progress, unwritten)
        finally:
            if unwritten:  # Whoever comes next makes these attempts once more.
                self.world.journal.count("OutcomesLost", len(unwritten))
        return not progress.failures

    def share_s(self, subscription: Subscription) -> float:
        """Return for how long attempts may start: they end before this claim does, and none starts after the budget."""
        claim_s = (self.hold.claimed_until - self.world.clock.now()) / 1000
        return min(self.hold.left_s(), claim_s - subscription.settings.timeout_s - judging_s(subscription) - 1)

    async def write_outcomes(
        self, subscription: Subscription, known: Mapping[str, Due], progress: Progress, unwritten: set[str]
    ) -> None:
        """Write what came of the attempts, ends before failures; take from *unwritten* what is kept."""
        marked: list[Due] = []
        for message_id, entry in progress.settled.items():
            standing = await self.outcomes.settle(
                known[message_id], known[message_id].as_last_seen(entry), patient=False
            )
            if standing is None or standing.ended:
                unwritten.discard(message_id)
            if standing is not None:
                marked.append(standing)
        for message_id in progress.judged - progress.settled.keys() - progress.failures.keys():
            await self.outcomes.write_yes(known[message_id])
        failed = [due for message_id, due in known.items() if message_id in progress.failures]
        for due in failed[1:]:
            await self.outcomes.write_failure(due, progress.failures[due.message_id], self.hold.check())
            unwritten.discard(due.message_id)
        if failed:
            head = progress.failures[failed[0].message_id]
            await self.outcomes.write_failure(
                failed[0], head, self.rescheduled(subscription, head, progress, failed[0])
            )
            unwritten.discard(failed[0].message_id)
            self.hold.is_claimed = False
        for due in marked:
            await self.outcomes.settle(due, due.ending(EntryState.EXPIRED), patient=True)

    def rescheduled(self, subscription: Subscription, head: Failure, progress: Progress, due: Due) -> Write:
        """Return the lane's write after its head failed: the next attempt, or suspension after a 410."""
        decay = subscription.settings.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
        lane = replace(
            self.hold.lane,
            state=LaneState.LOST_CONTACT if decay else LaneState.BLOCKED,
            next_attempt_at=head.next_attempt_at,
            wake_at=head.next_attempt_at,
        )
        if progress.gone:
            now = self.world.clock.now()
            generation = self.world.dice.unique_id(now)
            lane = replace(lane, state=LaneState.SUSPENDED, generation=generation, wake_at=due.expires_at)
        return self.hold.move(lane)
