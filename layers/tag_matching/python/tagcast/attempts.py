"""Attempts of one subscription: one at a time or a window in flight, until the first failure (semantics §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tagcast.model import Entry, EntryState, LaneState, Message, Outcome, Push, Strategy, Subscription
from tagcast.ports import World
from tagcast.retry import BACKOFF_INTERVAL_S_RANGE, Verdict, after_failure, delay_s


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt after which the delivery is still owed."""

    attempts: int
    ended_at: int
    outcome: Outcome
    next_attempt_at: int


@dataclass(slots=True)
class Progress:
    """What came of some deliveries, by message id: terminal entries and failures; the rest was not started."""

    settled: dict[str, Entry] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)
    """Those to which the subscription's filter function has just said yes."""

    @property
    def gone(self) -> bool:
        """Say whether the receiver answered that it wants nothing ever again."""
        return any(failure.outcome.gone for failure in self.failures.values())


async def attempt(world: World, subscription: Subscription, message: Message, attempts: int) -> Entry | Failure:
    """Push once, as attempt number *attempts*; return the terminal entry or the failure that leaves it owed."""
    push = Push(subscription, message, attempts)
    started = world.clock.monotonic()
    outcome = await world.pusher.push(push)
    took_ms = round((world.clock.monotonic() - started) * 1000)
    ended_at = world.clock.now()
    if outcome.delivered:
        verdict = Verdict(EntryState.DELIVERED)
    elif outcome.gone:
        verdict = Verdict(EntryState.BLOCKED, ended_at)
    else:
        verdict = _after_failure(world, push, outcome, ended_at)
    world.journal.attempted(push, outcome, verdict.state, took_ms)
    return _consequence(push, outcome, verdict, ended_at)


def failed_unpushed(world: World, push: Push, detail: str) -> Entry | Failure:
    """Return what follows when *push* failed before it was made: the same as of any other failed attempt."""
    outcome, ended_at = Outcome(False, detail), world.clock.now()
    return _consequence(push, outcome, _after_failure(world, push, outcome, ended_at), ended_at)


def planned_at(world: World, subscription: Subscription, failures: int, ended_at: int) -> int:
    """Return when a delivery is attempted again whose *failures*-th attempt ended at *ended_at*."""
    wait_s = delay_s(subscription.retry, failures, world.dice.uniform(*BACKOFF_INTERVAL_S_RANGE)) or 0.0
    return ended_at + round(wait_s / world.time_scale * 1000)


def _after_failure(world: World, push: Push, outcome: Outcome, ended_at: int) -> Verdict:
    return after_failure(
        push.subscription.retry,
        push.attempt,
        ended_at=ended_at,
        expires_at=push.message.expires_at,
        retry_after_s=outcome.retry_after_s,
        jitter_s=world.dice.uniform(*BACKOFF_INTERVAL_S_RANGE),
        time_scale=world.time_scale,
    )


def _consequence(push: Push, outcome: Outcome, verdict: Verdict, ended_at: int) -> Entry | Failure:
    if verdict.state is EntryState.BLOCKED:
        assert verdict.next_attempt_at is not None
        return Failure(push.attempt, ended_at, outcome, verdict.next_attempt_at)
    return Entry(verdict.state, push.attempt, ended_at, outcome.detail)


async def attempt_in_order(
    world: World,
    subscription: Subscription,
    deliveries: Sequence[tuple[Message, int]],
    *,
    share_s: float,
    window: int,
) -> Progress:
    """Push *deliveries* (message, attempts made so far), starting them in order, at most *window* in flight.

    Nothing new is started after a failure that leaves its delivery owed, nor once *share_s* seconds are over.
    """
    progress = Progress()
    started = world.clock.monotonic()
    waiting = iter(deliveries)

    async def serve() -> None:
        for message, made in waiting:
            if message.is_expired(world.clock.now()):
                progress.settled[message.message_id] = Entry(EntryState.EXPIRED, made)
                world.journal.settled(message, subscription, EntryState.EXPIRED)
                continue
            result = await attempt(world, subscription, message, made + 1)
            if isinstance(result, Failure):
                progress.failures[message.message_id] = result
            else:
                progress.settled[message.message_id] = result
            if progress.failures or world.clock.monotonic() - started >= share_s:
                return

    await asyncio.gather(*(serve() for _ in range(min(window, len(deliveries)))))
    return progress


def lane_state_after(subscription: Subscription, progress: Progress) -> LaneState:
    """Return the state of a lane that stops being active because of *progress*."""
    if progress.gone:
        return LaneState.SUSPENDED
    if progress.failures and subscription.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY:
        return LaneState.LOST_CONTACT
    return LaneState.BLOCKED
