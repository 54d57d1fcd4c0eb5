"""One subscription's first round of a batch: its pushes, and how the rest joins its backlog.

See docs/protocol.md, The first round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from tagcast.errors import ConditionLostError
from tagcast.filters.function_filter import is_judged_by_function
from tagcast.model import Entry, EntryState, LaneState, Message, Subscription
from tagcast.ports import World, Write
from tagcast.pushing.attempts import Failure, RunResult, lane_state_after
from tagcast.pushing.circuit import CircuitCheck
from tagcast.pushing.engine import attempt_run
from tagcast.pushing.ordered_sender import Run
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.rate_limit import RATE
from tagcast.rows.due import PLACES, OwedDelivery, due_put, position
from tagcast.rows.lane import Lane, join_update, joined_by, lane_put
from tagcast.rows.message import MessageRow
from tagcast.settings import UNVERIFIED

TIME_S, TIME_S_MAX = 2.0, 4.0
"""Pushes to a subscription may start for 2 s, for each 10 messages or 500 subscriptions of a batch, at most for 4 s."""
MESSAGES_IN_TIME, SUBSCRIPTIONS_IN_TIME = 10, 500


@dataclass(frozen=True, slots=True)
class SubscriptionRound:
    """What a batch owes the subscription *ordinal*: messages and lane as they were read, and what came of them so far.

    Pushes start before *until*, in the clock's monotonic seconds.
    *enqueued* are those that this batch put into the queue of a group, *judged* those to which the filter function said
    yes. *is_served*: everything that was owed has ended here or stands in the backlog.
    *free_at* is when more may begin than was pushed here, and *reason* the word for why not before.
    """

    ordinal: int
    rows: Mapping[str, MessageRow]
    lane: Lane | None
    ended: Mapping[str, Entry] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    enqueued: frozenset[str] = frozenset()
    judged: frozenset[str] = frozenset()
    until: float = math.inf
    is_served: bool = False
    free_at: int | None = None
    reason: str | None = None

    @property
    def is_removed(self) -> bool:
        """Say whether the lane says that the subscription is gone."""
        return self.lane is not None and self.lane.state is LaneState.REMOVED

    def owed(self) -> list[MessageRow]:
        """Return, in queue order, what the subscription is owed, neither with a consumer nor ended here."""
        return [
            row
            for message_id, row in self.rows.items()
            if self.ordinal in row.map.owed
            and self.ordinal not in row.map.with_consumer
            and message_id not in self.ended
            and message_id not in self.enqueued
        ]

    def open(self) -> list[MessageRow]:
        """Return what is owed and does not stand in the backlog, as far as the lane was read: its worker ends it."""
        lane = self.lane
        return [row for row in self.owed() if lane is None or not lane.holds(row.message.message_id)]

    def waits(self, row: MessageRow) -> bool:
        """Say whether the subscription still waits for its first round of a message."""
        return (
            row.map.round_open
            and self.ordinal not in row.map.first_round_done
            and self.ordinal not in row.map.added_later
        )

    def may_be_pushed(self, now_s: float) -> bool:
        """Say whether a push may start: the lane is active, nothing failed, and its time is not over."""
        return self.lane is None and not self.failures and now_s < self.until

    def pushable(self) -> list[Message]:
        """Return what stands before anything that is owed outside this round."""
        owed = self.owed()
        first = next((place for place, row in enumerate(owed) if not self.waits(row)), len(owed))
        return [row.message for row in owed[:first]]

    def remainder(self) -> Remainder:
        """Return what has to join the backlog; what is owed after a closed round stands there already."""
        messages = [row.message for row in self.open() if self.waits(row)]
        return Remainder(messages, self.failures, self.judged, self.free_at, self.reason)

    def cancelled(self) -> SubscriptionRound:
        """Return the round when nobody is subscribed any more: whatever is owed ends without a push."""
        ended = {row.message.message_id: Entry(EntryState.CANCELLED) for row in self.open()}
        return replace(self, ended={**self.ended, **ended}, is_served=True)

    def pushed(self, result: RunResult, until: float, now: int) -> SubscriptionRound:
        """Return the round after pushes that were to start before *until*.

        The worker of a lane whose endpoint is not verified looks at once whether it is now.
        """
        held = result.held
        free_at = None if held is None else now if held.reason == UNVERIFIED else held.until
        return replace(
            self,
            ended={**self.ended, **result.ended},
            failures=result.failures,
            enqueued=self.enqueued | result.enqueued,
            judged=self.judged | result.judged,
            until=until,
            free_at=self.free_at if held is None else free_at,
            reason=self.reason if held is None else held.reason,
        )

    def served(self) -> SubscriptionRound:
        """Return the round when the backlog has taken the rest."""
        return replace(self, is_served=True)

    def read_again(self, rows: Mapping[str, MessageRow], lane: Lane | None) -> SubscriptionRound:
        """Return the round as it was read again."""
        return replace(self, rows=rows, lane=lane)


async def push(circuit: CircuitCheck, this: SubscriptionRound, slots: PushSlots, among: int) -> SubscriptionRound:
    """Push what may be pushed; *among* is how many subscriptions the batch has."""
    world, subscription = circuit.world, circuit.subscription
    deliveries = [(message, 0) for message in this.pushable()]
    unjudged = {message.message_id for message, _ in deliveries} - this.judged
    # What a rate lets begin does so within its horizon, however many wait for it.
    messages = 1 if subscription.settings.max_per_second is not None else len(deliveries)
    times = max(math.ceil(messages / MESSAGES_IN_TIME), math.ceil(among / SUBSCRIPTIONS_IN_TIME))
    seconds = min(TIME_S_MAX, TIME_S * times)
    until = world.clock.monotonic() + seconds
    run = Run(subscription, deliveries, slots, seconds, circuit, unjudged)
    return this.pushed(await attempt_run(world, run), until, world.clock.now())


async def append(world: World, subscription: Subscription, this: SubscriptionRound) -> bool:
    """Append what is left to the backlog; return False if the lane is not as it was read any more."""
    if not (left := this.remainder()).messages:
        return True
    now = world.clock.now()
    plan = plan_join(subscription, this.lane, left, now, world.dice.unique_id(now))
    try:
        await world.executor.run(partial(world.store.transact, plan.writes))
    except ConditionLostError:
        return False
    if (lane := plan.started) is not None:
        start = partial(world.workflow.start, lane.topic, lane.subscription_id, lane.generation)
        await world.executor.run(start)
    return True


@dataclass(frozen=True, slots=True)
class BacklogJoin:
    """The writes, to be made together or not at all, and the lane whose workflow has to be started after them."""

    writes: tuple[Write, ...]
    started: Lane | None = None


@dataclass(frozen=True, slots=True)
class Remainder:
    """What a batch could not end for one subscription: *messages* in their order, and what came of them so far."""

    messages: Sequence[Message]
    failures: Mapping[str, Failure]
    judged: Set[str]
    """Those to which the subscription's filter function has said yes."""
    free_at: int | None = None
    """When the next attempt may begin, if anything keeps it from beginning now."""
    reason: str | None = None
    """What does."""


def plan_join(subscription: Subscription, lane: Lane | None, left: Remainder, now: int, generation: str) -> BacklogJoin:
    """Plan how *left* joins the backlog of *subscription*; *lane* is its row as read, None while it is active.

    *generation* is the lane's new one if it becomes blocked. The writes lose their condition if the lane changed
    since it was read.
    """
    dues = _dues(subscription, lane, left)
    joining = [due_put(due) for due in dues]
    names, earliest = [due.message_id for due in dues], min(due.expires_at for due in dues)
    if lane is not None:
        return BacklogJoin((*joining, join_update(lane, names, earliest)))
    head = left.failures.get(left.messages[0].message_id)
    next_attempt_at = max(now, left.free_at or 0) if head is None else head.next_attempt_at
    state = lane_state_after(subscription, left.failures.values())
    asleep = state is LaneState.SUSPENDED
    blocked = Lane(
        topic=subscription.topic,
        subscription_id=subscription.subscription_id,
        state=state,
        generation=generation,
        appended=math.ceil(len(dues) / PLACES),
        claim=0,
        next_attempt_at=next_attempt_at,
        wake_at=earliest if asleep else next_attempt_at,
        joined=joined_by(b"", names),
        planned_for=None if head is None else left.messages[0].message_id,
    )
    return BacklogJoin((*joining, lane_put(blocked)), None if asleep else blocked)


def _dues(subscription: Subscription, lane: Lane | None, left: Remainder) -> list[OwedDelivery]:
    by_function, dues = is_judged_by_function(subscription), []
    waits = not left.failures and (lane is None or lane.state is LaneState.BLOCKED)
    by_default = None if subscription.settings.max_per_second is None else RATE
    reason = left.reason or by_default if waits else None
    for place, message in enumerate(left.messages):
        failure = left.failures.get(message.message_id)
        dues.append(
            OwedDelivery(
                subscription_id=subscription.subscription_id,
                position=position(0 if lane is None else lane.appended, place),
                message_id=message.message_id,
                attempts=0 if failure is None else failure.attempts,
                expires_at=message.expires_at,
                last_attempt_at=None if failure is None else failure.ended_at,
                last_outcome=reason if failure is None else failure.outcome.detail,
                unjudged=by_function and message.message_id not in left.judged,
                history=() if failure is None else (failure.past,),
                not_before=None if failure is None else failure.not_before,
            )
        )
    return dues
