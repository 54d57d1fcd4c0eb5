"""Attempts of one subscription: one at a time or a window in flight, until the first failure.

See docs/semantics.md, Delivery.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.model import (
    Entry,
    EntryState,
    LaneState,
    Message,
    Outcome,
    PastAttempt,
    Push,
    Strategy,
    Subscription,
)
from tagcast.ports import World
from tagcast.pushing.circuit import Passage
from tagcast.pushing.push_slots import Ask, PushSlots, Rank
from tagcast.pushing.rate_limit import Grant
from tagcast.pushing.response_text import response_text
from tagcast.pushing.retry import BACKOFF_INTERVAL_S_RANGE, Disposition, after_failure, delay_s
from tagcast.settings import secrets_of

KNOWN_MAX = 10_000
"""So many receivers a process remembers the last push of."""


class GotThrough(dict[str, bool]):
    """Whether this process's last push to a subscription got through; it ranks them, and nothing else."""


Delivery = tuple[Message, int]
"""A message and the number of attempts made so far."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt after which the delivery is still owed."""

    attempts: int
    ended_at: int
    outcome: Outcome
    next_attempt_at: int
    past: PastAttempt
    """The attempt as it is remembered."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one subscription may take of an invocation: for how long pushes may start, and in whose slots."""

    slots: PushSlots
    seconds: float
    passage: Passage
    answered: bool = False
    """Whether the receiver answered well just now, so that its window is open from the beginning."""
    grant: Grant | None = None
    """What the subscription's rate lets begin, and when, if it has one."""


@dataclass(slots=True)
class Progress:
    """What came of some deliveries, by message id: terminal entries and failures; the rest was not started.

    What was *handed* over lies in the queue of its group: it is still owed, but nobody has to deliver it.
    """

    settled: dict[str, Entry] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    handed: set[str] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)
    """Those to which the subscription's filter function has just said yes."""


async def attempt(world: World, push: Push, passage: Passage) -> Entry | Failure:
    """Push once; return the terminal entry or the failure that leaves the delivery owed."""
    started = world.clock.monotonic()
    outcome = await world.pusher.push(push)
    took_ms = round((world.clock.monotonic() - started) * 1000)
    ended_at = world.clock.now()
    passage.hear(outcome)
    if outcome.delivered:
        disposition = Disposition(EntryState.DELIVERED)
    elif outcome.gone:
        disposition = Disposition(EntryState.BLOCKED, ended_at)
    else:
        disposition = _after_failure(world, push, outcome, ended_at)
    world.telemetry.attempted(push, outcome, disposition.state, took_ms)
    return _consequence(push, outcome, disposition, ended_at, took_ms)


def failed_unpushed(world: World, push: Push, detail: str) -> Entry | Failure:
    """Return what follows when *push* failed before it was made: the same as of any other failed attempt."""
    outcome, ended_at = Outcome(False, detail), world.clock.now()
    return _consequence(push, outcome, _after_failure(world, push, outcome, ended_at), ended_at)


def planned_at(world: World, subscription: Subscription, failures: int, ended_at: int) -> int:
    """Return when a delivery is attempted again whose *failures*-th attempt ended at *ended_at*."""
    wait_s = delay_s(subscription.settings.retry, failures, world.dice.uniform(*BACKOFF_INTERVAL_S_RANGE)) or 0.0
    return ended_at + round(wait_s / world.time_scale * 1000)


def _after_failure(world: World, push: Push, outcome: Outcome, ended_at: int) -> Disposition:
    return after_failure(
        push.subscription.settings.retry,
        push.attempt,
        ended_at=ended_at,
        expires_at=push.message.expires_at,
        retry_after_s=outcome.retry_after_s,
        jitter_s=world.dice.uniform(*BACKOFF_INTERVAL_S_RANGE),
        time_scale=world.time_scale,
    )


def _consequence(
    push: Push, outcome: Outcome, disposition: Disposition, ended_at: int, took_ms: int = 0
) -> Entry | Failure:
    if outcome.delivered:
        return Entry(disposition.state, push.attempt, ended_at, outcome.detail)
    said = response_text(outcome.answer, secrets_of(push.subscription.settings)) if outcome.answer else ""
    past = PastAttempt(push.attempt, ended_at, took_ms, outcome.detail, outcome.status, said)
    if disposition.state is EntryState.BLOCKED:
        assert disposition.next_attempt_at is not None
        return Failure(push.attempt, ended_at, outcome, disposition.next_attempt_at, past)
    return Entry(disposition.state, push.attempt, ended_at, outcome.detail, history=(past,))


async def attempt_in_order(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], share: Share
) -> Progress:
    """Push *deliveries* in order: one at a time until the receiver answers well, then in its window.

    Nothing new is started after a failure that leaves its delivery owed, nor once the *share* is over, which begins
    with the first of them. That one waits for a slot at most as long as a share lasts.
    """
    until = world.clock.monotonic() + share.seconds
    course = _Course(world, subscription, share, until, deque(deliveries), share.answered)
    await course.run()
    return course.progress


@dataclass(slots=True)
class _Course:
    """Deliveries of one subscription in their order, and how far they came."""

    world: World
    subscription: Subscription
    share: Share
    until: float
    waiting: deque[Delivery]
    answered: bool = False
    begun: bool = False
    taken: int = 0
    progress: Progress = field(default_factory=Progress)

    @property
    def slots(self) -> PushSlots:
        return self.share.slots

    async def run(self, lead: bool = True, held: Ask | None = None) -> None:
        """Push what stands next, one after the other in one slot; the *lead* opens the window after a good answer."""
        try:
            while self.waiting:
                window = self.subscription.settings.window
                if lead and self.answered and window > 1:
                    beside = [self.run(lead=False) for _ in range(min(window, len(self.waiting)) - 1)]
                    first, held = self.run(lead=False, held=held), None
                    faults = await side_by_side((first, *beside))
                    if faults:
                        raise faults[0]
                    return
                message, made = self.waiting.popleft()
                await self.turn()
                ask, before, held = self.ask(message), held, None
                if not await self.slots.take(ask, self.until, instead_of=before):
                    return
                held = ask
                if not self.begun:  # The receiver's share is not what the service made it wait.
                    self.begun, self.until = True, self.world.clock.monotonic() + self.share.seconds
                if self.progress.failures:  # Of those beside it, while it waited.
                    return
                await self.attempt(message, made)
                if not self.may_go_on():
                    return
        finally:
            if held is not None:
                self.slots.give_back(held)

    async def turn(self) -> None:
        """Wait until the rate of the subscription lets the next attempt begin."""
        grant, place = self.share.grant, self.taken
        self.taken += 1
        if grant is not None and (wait_s := grant.wait_s(place, self.world.clock.now())):
            await self.world.clock.pause(wait_s)

    def ask(self, message: Message) -> Ask:
        known = self.world.memory.of(GotThrough).get(self.subscription.subscription_id)
        rank = Rank.ANSWERED if self.answered else Rank.of(known)
        return Ask(self.share.passage.host, rank, self.slots.bytes.load_of(self.subscription, message))

    def may_go_on(self) -> bool:
        if self.share.passage.until is not None:
            return False
        return not self.progress.failures and self.world.clock.monotonic() < self.until

    async def attempt(self, message: Message, made: int) -> None:
        """Attempt a delivery unless its host has to be left alone, or settle it if its life is over."""
        if self.is_over(message, made) or await self.share.passage.is_shut():
            return
        result = await attempt(self.world, Push(self.subscription, message, made + 1), self.share.passage)
        well = isinstance(result, Entry) and result.state is EntryState.DELIVERED
        if isinstance(result, Failure):
            self.progress.failures[message.message_id] = result
        else:
            self.progress.settled[message.message_id] = result
        if well:
            self.answered = True
            self.slots.answered(self.share.passage.host)
        known = self.world.memory.of(GotThrough)
        if len(known) >= KNOWN_MAX:
            known.clear()
        known[self.subscription.subscription_id] = well

    def is_over(self, message: Message, made: int) -> bool:
        if not message.is_expired(self.world.clock.now()):
            return False
        self.progress.settled[message.message_id] = Entry(EntryState.EXPIRED, made)
        self.world.telemetry.settled(message, self.subscription, EntryState.EXPIRED)
        return True


def lane_state_after(subscription: Subscription, failures: Collection[Failure]) -> LaneState:
    """Return the state of a lane after *failures*; without any it is blocked behind what was not started."""
    if any(failure.outcome.gone for failure in failures):
        return LaneState.SUSPENDED
    decays = subscription.settings.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
    if failures and decays and not subscription.settings.is_group:
        return LaneState.LOST_CONTACT
    return LaneState.BLOCKED
