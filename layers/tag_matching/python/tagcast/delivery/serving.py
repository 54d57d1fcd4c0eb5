"""One subscription's part of a batch: what was read for it and what came of it so far, its pushes, and its backlog."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tagcast.delivery.appending import Left, appending
from tagcast.errors import ConditionLostError
from tagcast.model import Entry, EntryState, LaneState, Message, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import Failure, Progress
from tagcast.pushing.circuit import Passage
from tagcast.pushing.course import Share, take_requests
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.rate_limit import RATE
from tagcast.pushing.verdicts import attempt_judged
from tagcast.rows.lane import Lane
from tagcast.rows.message import MessageRow
from tagcast.settings import UNVERIFIED

SHARE_S, SHARE_OF, SHARE_AMONG, SHARE_S_MAX = 2.0, 10, 500, 4.0
"""So long a subscription's pushes may start, for each so many messages or subscriptions of a batch, and at most."""


@dataclass(frozen=True, slots=True)
class Part:
    """The messages of a batch that are for the subscription *ordinal*, its lane as read, and what ended or failed here.

    Pushes start before *until*, in the clock's monotonic seconds.
    *handed* are those that lie in the queue of a group since this batch, *judged* those to which its filter function
    said yes. *is_served*: everything it was owed has ended here or stands in its backlog.
    *free_at* is when more may begin than was pushed here, and *reason* the word for why not before.
    """

    ordinal: int
    rows: Mapping[str, MessageRow]
    lane: Lane | None
    ended: Mapping[str, Entry] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    handed: frozenset[str] = frozenset()
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
        """Return, in queue order, what the subscription is owed, neither handed over before nor ended here."""
        return [
            row
            for message_id, row in self.rows.items()
            if self.ordinal in row.map.owed
            and self.ordinal not in row.map.handed
            and message_id not in self.ended
            and message_id not in self.handed
        ]

    def open(self) -> list[MessageRow]:
        """Return what is owed and does not stand in the backlog, as far as the lane was read: which ends it itself."""
        lane = self.lane
        return [row for row in self.owed() if lane is None or not lane.holds(row.message.message_id)]

    def waits(self, row: MessageRow) -> bool:
        """Say whether the subscription's part of a message's first round is not over."""
        return row.map.round_open and self.ordinal not in row.map.over and self.ordinal not in row.map.late

    def over(self, now: int) -> list[Message]:
        """Return what came to the end of its life in its first round."""
        return [row.message for row in self.open() if self.waits(row) and row.message.is_expired(now)]

    def may_be_pushed(self, now_s: float) -> bool:
        """Say whether a push may start: the lane is active, nothing failed, and the share of the batch is not over."""
        return self.lane is None and not self.failures and now_s < self.until

    def pushable(self) -> list[Message]:
        """Return what stands before anything that is owed elsewhere."""
        owed = self.owed()
        first = next((place for place, row in enumerate(owed) if not self.waits(row)), len(owed))
        return [row.message for row in owed[:first]]

    def left(self) -> Left:
        """Return what has to join the backlog; what is owed after a closed round stands there already."""
        messages = [row.message for row in self.open() if self.waits(row)]
        return Left(messages, self.failures, self.judged, self.free_at, self.reason)

    def cancelled(self) -> Part:
        """Return the part when nobody is subscribed any more: whatever is owed ends without a push."""
        ended = {row.message.message_id: Entry(EntryState.CANCELLED) for row in self.open()}
        return replace(self, ended={**self.ended, **ended}, is_served=True)

    def expired(self, now: int) -> Part:
        """Return the part when what came to the end of its life has ended; after its first round a lane does that."""
        if not (over := self.over(now)):
            return self
        ended = {each.message_id: _expiry(self.failures.get(each.message_id)) for each in over}
        failures = {each: failure for each, failure in self.failures.items() if each not in ended}
        return replace(self, ended={**self.ended, **ended}, failures=failures)

    def limited(self, free_at: int, reason: str) -> Part:
        """Return the part of which, for this *reason*, nothing more may begin before *free_at*."""
        return replace(self, free_at=free_at, reason=reason)

    def pushed(self, progress: Progress, until: float) -> Part:
        """Return the part after pushes that were to start before *until*."""
        return replace(
            self,
            ended={**self.ended, **progress.settled},
            failures=progress.failures,
            handed=self.handed | progress.handed,
            judged=self.judged | progress.judged,
            until=until,
        )

    def served(self) -> Part:
        """Return the part when its backlog has taken the rest."""
        return replace(self, is_served=True)

    def read_again(self, rows: Mapping[str, MessageRow], lane: Lane | None) -> Part:
        """Return the part as it was read again."""
        return replace(self, rows=rows, lane=lane)


async def push(passage: Passage, part: Part, slots: PushSlots, among: int) -> Part:
    """Push what stands before anything that is owed elsewhere, as far as the rate of one *among* so many allows."""
    world, subscription = passage.world, passage.subscription
    if subscription.settings.unverified is not None:  # The lane looks at once whether it still is not.
        return part.limited(world.clock.now(), UNVERIFIED)
    deliveries, grant = [(message, 0) for message in part.pushable()], None
    if subscription.settings.max_per_second and deliveries:
        deliveries, grant = await take_requests(world, subscription, deliveries, slots.bytes)
        part = part.limited(grant.free_at, RATE)
    unjudged = {message.message_id for message, _ in deliveries} - part.judged
    share_s = min(SHARE_S_MAX, SHARE_S * max(math.ceil(len(deliveries) / SHARE_OF), math.ceil(among / SHARE_AMONG)))
    share, until = Share(slots, share_s, passage, grant=grant), world.clock.monotonic() + share_s
    return part.pushed(await attempt_judged(world, subscription, deliveries, unjudged, share), until)


async def append(world: World, subscription: Subscription, part: Part) -> bool:
    """Append what is left to the backlog; return False if the lane is not as it was read any more."""
    if not (left := part.left()).messages:
        return True
    now = world.clock.now()
    plan = appending(subscription, part.lane, left, now, world.dice.unique_id(now))
    try:
        await world.executor.run(partial(world.store.transact, plan.writes))
    except ConditionLostError:
        return False
    if (lane := plan.started) is not None:
        start = partial(world.workflow.start, lane.topic, lane.subscription_id, lane.generation)
        await world.executor.run(start)
    return True


def _expiry(failure: Failure | None) -> Entry:
    """Return the entry of what expired; an attempt that was made before is not forgotten."""
    if failure is None:
        return Entry(EntryState.EXPIRED)
    detail, history = failure.outcome.detail, (failure.past,)
    return Entry(EntryState.EXPIRED, failure.attempts, failure.ended_at, detail, history=history)
