"""One attempt, of a delivery or of several in one request: the push, and what follows from its outcome.

See docs/semantics.md, Delivery and Batches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tagcast.model import (
    Entry,
    EntryState,
    LaneState,
    Message,
    Outcome,
    PastAttempt,
    Push,
    PushBatch,
    Strategy,
    Subscription,
)
from tagcast.ports import World
from tagcast.pushing.circuit import CircuitCheck
from tagcast.pushing.response_text import response_text
from tagcast.pushing.retry import BACKOFF_INTERVAL_S_RANGE, Disposition, after_failure, delay_s
from tagcast.settings import secrets_told

PUT_OFF_S = 10
"""How long the service waits before it tries a delivery again that it could not attempt."""

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

    @property
    def not_before(self) -> int | None:
        """Return when the receiver asked to be tried again, if it did: whatever else comes, nobody tries earlier."""
        return None if self.outcome.retry_after_s is None else self.next_attempt_at


Result = Entry | Failure
"""What an attempt leaves: a terminal entry, or a failure after which the delivery is still owed."""


@dataclass(frozen=True, slots=True)
class Held:
    """Nothing more of a run may begin before *until*, for this *reason*."""

    until: int
    reason: str


@dataclass(slots=True)
class RunResult:
    """What came of a run's deliveries, by message id: terminal entries and failures; the rest was not started.

    *enqueued* are those that lie in the queue of their group: they are still owed, but nobody has to deliver them.
    *judged* are those to which the subscription's filter function has just said yes.
    """

    ended: dict[str, Entry] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    enqueued: set[str] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)
    held: Held | None = None

    @property
    def is_empty(self) -> bool:
        """Say whether nothing came of any delivery."""
        return not (self.ended or self.failures or self.enqueued or self.judged)

    def add(self, result: RunResult) -> None:
        """Add what came of others of the same run."""
        self.ended |= result.ended
        self.failures |= result.failures
        self.enqueued |= result.enqueued


def alive(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], result: RunResult, now: int
) -> list[Delivery]:
    """Return those of *deliveries* whose life is not over at *now*, and end the others in *result*.

    Nobody looks at the clock between this and the push: it may be set anew at any time.
    """
    waiting = []
    for message, made in deliveries:
        if message.is_expired(now):
            end_unpushed(world, subscription, message, Entry(EntryState.EXPIRED, made), result)
        else:
            waiting.append((message, made))
    return waiting


def end_unpushed(world: World, subscription: Subscription, message: Message, entry: Entry, result: RunResult) -> None:
    """End a delivery in *result* without a push."""
    result.ended[message.message_id] = entry
    world.telemetry.settled(message, subscription, entry.state)


def put_off(world: World, made: int, detail: str) -> Failure:
    """Return what comes of a delivery that the service itself could not attempt: it is not counted as an attempt.

    Such a delivery is never discarded for that; only its life ends it. *made* are the attempts before.
    """
    now = world.clock.now()
    again_at = now + round(PUT_OFF_S * 1000 / world.time_scale)
    return Failure(made, now, Outcome(False, detail), again_at, PastAttempt(made, now, 0, detail))


async def attempt(world: World, push: Push, circuit: CircuitCheck) -> Result:
    """Push once."""
    started = world.clock.monotonic()
    outcome = await world.pusher.push(push)
    took_ms = round((world.clock.monotonic() - started) * 1000)
    circuit.hear(outcome)
    return _result(world, push, outcome, world.clock.now(), took_ms)


async def attempt_batch(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], now: int, circuit: CircuitCheck
) -> dict[str, Result]:
    """Push *deliveries* in one request at *now*; return, by message id, what came of those whose attempt counts.

    Nobody knows for which message a request fails that fails as a whole: that counts for its head alone. In order,
    nothing behind the first failed one counts. All others are as if they had not been pushed.
    """
    pushes = tuple(Push(subscription, message, made + 1) for message, made in deliveries)
    batch = PushBatch(subscription, pushes, f"batch_{world.dice.unique_id(now)}")
    started = world.clock.monotonic()
    outcome = await world.pusher.push_batch(batch)
    circuit.hear(outcome)
    took_ms, ended_at = round((world.clock.monotonic() - started) * 1000), world.clock.now()
    return {
        push.message.message_id: _result(world, push, outcome.of(push.message.message_id), ended_at, took_ms)
        for push in pushes[: _counted(batch, outcome)]
    }


def _counted(batch: PushBatch, outcome: Outcome) -> int:
    """Return of how many pushes of *batch*, from its head on, the attempt counts."""
    if not outcome.delivered:
        return 1
    failed = [place for place, push in enumerate(batch.pushes) if push.message.message_id in outcome.failed]
    return failed[0] + 1 if failed and batch.subscription.settings.keeps_order else len(batch.pushes)


def _result(world: World, push: Push, outcome: Outcome, ended_at: int, took_ms: int) -> Result:
    if outcome.delivered:
        disposition = Disposition(EntryState.DELIVERED)
    elif outcome.gone:
        disposition = Disposition(EntryState.BLOCKED, ended_at)
    else:
        disposition = _after_failure(world, push, outcome, ended_at)
    world.telemetry.attempted(push, outcome, disposition.state, took_ms)
    return _consequence(push, outcome, disposition, ended_at, took_ms)


def failed_unpushed(world: World, push: Push, detail: str) -> Result:
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


def _consequence(push: Push, outcome: Outcome, disposition: Disposition, ended_at: int, took_ms: int = 0) -> Result:
    if outcome.delivered:
        return Entry(disposition.state, push.attempt, ended_at, outcome.detail)
    said = response_text(outcome.answer, secrets_told(push.subscription.settings)) if outcome.answer else ""
    past = PastAttempt(push.attempt, ended_at, took_ms, outcome.detail, outcome.status, said)
    if disposition.state is EntryState.BLOCKED:
        assert disposition.next_attempt_at is not None
        return Failure(push.attempt, ended_at, outcome, disposition.next_attempt_at, past)
    return Entry(disposition.state, push.attempt, ended_at, outcome.detail, history=(past,))


def lane_state_after(subscription: Subscription, failures: Collection[Failure]) -> LaneState:
    """Return the state of a lane after *failures*; without any it is blocked behind what was not started."""
    if any(failure.outcome.gone for failure in failures):
        return LaneState.SUSPENDED
    decays = subscription.settings.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
    if failures and decays and not subscription.settings.is_group:
        return LaneState.LOST_CONTACT
    return LaneState.BLOCKED
