"""Writes late results, i.e. results of pushes for which the batch did not wait (docs/protocol.md, The first round, 3).

Until the response arrives, no other worker attempts the delivery: the lane is claimed, or its due time is later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.delivery.dead_letter import publish_dead_letter_after_run
from tagcast.delivery.ending import end_due
from tagcast.delivery.lane_run import write_late
from tagcast.delivery.lease import LaneLease
from tagcast.errors import ConditionLostError
from tagcast.model import LaneState, Message, Subscription
from tagcast.ports import World, Write
from tagcast.pushing.engine import Failure, RunResult, independent_state_after
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import PendingDelivery, due_reschedule
from tagcast.rows.lane import Lane


@dataclass(frozen=True, slots=True)
class LateWriter:
    """Writes the late results of a run of pushes under INDEPENDENT_RETRY.

    *claimed* is the lane that the batch created under a claim, so that no other worker repeats these pushes. It is None
    if the lane has no claim or existed before. *got_through* says whether a push of the run succeeded.
    """

    world: World
    subscription: Subscription
    claimed: Lane | None
    got_through: bool

    async def write(self, dues: Sequence[PendingDelivery], result: RunResult) -> None:
        """Write the results of pushes of *dues*, and let the lane continue. A lane without a backlog becomes active.

        Deliveries that another worker attempted or ended since are skipped.
        """
        for due in dues:
            if due.message_id in result.ended:
                entry = due.as_last_seen(result.ended[due.message_id])
                await self._until_written(partial(end_due, self.world.store, self.subscription.topic, due, entry))
        failed = [due for due in dues if due.message_id in result.failures]
        moved = [await self._move(due, result.failures[due.message_id]) for due in failed]
        held = [due for due in dues if due.not_before and not due.attempts]
        freed = [due for due in held if due.message_id not in result.ended and due.message_id not in result.failures]
        for due in freed:
            await self._free(due, is_judged=due.message_id in result.judged)
        if freed or not any(moved):
            await self._until_written(self._go_on)

    async def _until_written(self, write: Callable[[], object]) -> bool:
        """Retry a write on conflicts. Return False if the last try fails; then the next worker repeats the attempt."""
        for lost in range(1, TRIES_MAX + 1):
            try:
                await self.world.executor.run(write)
            except ConditionLostError:
                await self.world.clock.pause(pause_s(self.world, lost))
            else:
                return True
        self.world.telemetry.count("OutcomesLost", 1)
        return False

    async def _move(self, due: PendingDelivery, failure: Failure) -> bool:
        """Give a failed delivery its own next attempt. Return whether this plans the lane's next attempt, too."""
        moved = due.after_failure(failure.past, failure.not_before).reschedule(failure.next_attempt_at)
        state = independent_state_after((failure,), got_through=self.got_through, has_more=False)
        plan = partial(self._plan_lane, due, state, failure.next_attempt_at)
        return await self._until_written(partial(self._write_beside, due_reschedule(due, moved), plan))

    async def _free(self, due: PendingDelivery, *, is_judged: bool) -> None:
        """Let other workers attempt a delivery that was in flight and got no result of its own."""
        now = self.world.clock.now()
        free = replace(due, not_before=None, unjudged=due.unjudged and not is_judged).reschedule(now)
        writes = due_reschedule(due, free)
        await self._until_written(partial(self._write_beside, writes, partial(_keep_plan, due)))

    def _go_on(self) -> None:
        """Let a lane that waited for responses continue, or activate it if its backlog is empty."""
        if (lane := self._read_lane()) is None:
            return
        now, after = self.world.clock.now(), LaneState.RETRYING if self.got_through else None
        write, sooner = self._plan_lane(None, after, now, lane)
        store, sid = self.world.store, self.subscription.subscription_id
        if sooner is not None and not stored.due_rows(store, sid, limit=1):
            store.write(lane_transitions.activate(lane))
            return
        self._execute((write,), sooner)

    def _write_beside(self, writes: Sequence[Write], plan: Callable[[Lane], tuple[Write, Lane | None]]) -> None:
        """Execute *writes* with the planned write of the lane."""
        if (lane := self._read_lane()) is not None:
            write, sooner = plan(lane)
            self._execute((*writes, write), sooner)

    def _read_lane(self) -> Lane | None:
        """Return the lane; None if it is active or removed."""
        lane = stored.lane(self.world.store, self.subscription.topic, self.subscription.subscription_id)
        return None if lane is None or lane.state is LaneState.REMOVED else lane

    def _execute(self, writes: Sequence[Write], sooner: Lane | None) -> None:
        """Execute *writes* in one transaction; start the workflow of *sooner*, the lane if it is now due earlier."""
        self.world.store.transact(writes)
        if sooner is not None and not sooner.state.is_asleep:
            self.world.workflow.start(sooner.topic, sooner.subscription_id, sooner.generation)

    def _plan_lane(
        self, due: PendingDelivery | None, after: LaneState | None, due_at: int, lane: Lane
    ) -> tuple[Write, Lane | None]:
        """Return the lane's write, and the lane if it continues earlier.

        A lane keeps its plan if a worker has claimed it, or if contact is lost and the receiver did not answer now.
        """
        now, names = self.world.clock.now(), () if due is None else (due.message_id,)
        is_lost = lane.state is LaneState.LOST_CONTACT
        state = lane.state if after is None or (after is LaneState.RETRYING and not is_lost) else after
        is_answered = is_lost and state is not LaneState.LOST_CONTACT
        is_blocked = lane.state is LaneState.BLOCKED
        if self._is_claimed_by_another(lane) or not (is_blocked or lane.pushes_new or is_answered):
            expires_at = now if due is None else due.expires_at
            return lane_transitions.join(lane, names, expires_at), None
        if state is LaneState.BLOCKED:
            due_at = now
        elif state is LaneState.RETRYING:
            due_at = min(due_at, lane.next_attempt_at or 0)
        generation = self.world.dice.unique_id(now)
        planned, write = lane_transitions.plan_before(lane, generation, state, due_at, now)
        return write, planned

    def _is_claimed_by_another(self, lane: Lane) -> bool:
        own = self.claimed
        return lane.is_claimed and (own is None or (lane.generation, lane.claim) != (own.generation, own.claim))


def _keep_plan(due: PendingDelivery, lane: Lane) -> tuple[Write, None]:
    """Return the lane's write if *due* moves within its backlog. The lane's next attempt stays as planned."""
    return lane_transitions.join(lane, (), due.expires_at), None


@dataclass(frozen=True, slots=True)
class LateRun:
    """Pushes that were still in flight when the batch continued. Their *messages* joined the backlog as *dues*.

    *lease* is the run's lease of the lane; None if this run did not claim the lane. *before* has the earlier results,
    which the batch itself writes.
    """

    lease: LaneLease | None
    world: World
    subscription: Subscription
    messages: Sequence[Message]
    dues: Sequence[PendingDelivery]
    before: RunResult

    async def write(self, result: RunResult) -> None:
        """Write the results that are not in *before*, and let the lane continue."""
        news = RunResult(
            ended={each: entry for each, entry in result.ended.items() if each not in self.before.ended},
            failures={each: failed for each, failed in result.failures.items() if each not in self.before.failures},
            judged=result.judged - self.before.judged,
            held=result.held,
        )
        if self.lease is not None and not self.subscription.settings.is_independent:
            await write_late(self.lease, self.subscription, self.dues, news)
            return
        await publish_dead_letter_after_run(self.world, self.subscription, self.messages, news.ended)
        claimed = None if self.lease is None else self.lease.lane
        late = LateWriter(self.world, self.subscription, claimed, bool(result.got_through))
        await late.write(self.dues, news)
