"""The push engine: checks the deliveries of a run at the gates, and pushes the deliveries that pass.

See docs/protocol.md, Pushing, and docs/filters.md, Functions.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from heapq import nlargest

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.errors import FilterEvaluationError, ReplacedError, UnavailableError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.function_filter import FILTER_ERROR, FunctionFilter, function_of, judging_s
from tagcast.filters.kinds import compile_filter
from tagcast.ids import subscription_id
from tagcast.model import (
    ContentFormat,
    Endpoint,
    Entry,
    EntryState,
    LaneState,
    Message,
    Ordering,
    Outcome,
    PastAttempt,
    Protocol,
    Push,
    PushBatch,
    Strategy,
    Subscription,
)
from tagcast.outcome import NOT_OPENED
from tagcast.ports import Clock, GroupQueue, QueueEntry, World
from tagcast.pushing.circuit import CIRCUIT, CircuitCheck
from tagcast.pushing.push_slots import CLOCK_STEP_S, SLOTS, BytesInFlight, Priority, PushSlots, Slot
from tagcast.pushing.rate_limit import RATE, Permit, take_permit
from tagcast.pushing.response_text import response_text
from tagcast.pushing.retry_delay import BACKOFF_INTERVAL_S_RANGE, Disposition, after_failure, delay_s
from tagcast.queues import queue_group
from tagcast.rows import stored
from tagcast.sealing import cached_secrets, open_secrets
from tagcast.subscription_settings import ENQUEUED_AT_ONCE, UNVERIFIED, Signature, shared_secrets

PUT_OFF_S = 10
"""Seconds until the service retries a delivery that it could not attempt."""

Delivery = tuple[Message, int]
"""A message and the number of its previous attempts."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt whose delivery is still pending."""

    outcome: Outcome
    next_attempt_at: int
    past: PastAttempt
    """The attempt as it is stored."""

    @property
    def not_before(self) -> int | None:
        """The earliest time of the next attempt; None if only the schedule decides it.

        A Retry-After or :func:`put_off` sets this time.
        """
        return None if self.outcome.retry_after_s is None else self.next_attempt_at


Result = Entry | Failure
"""The result of an attempt: a terminal entry, or a failure whose delivery is still pending."""


@dataclass(frozen=True, slots=True)
class Hold:
    """No further attempt of a run may begin before *until*, for this *reason*."""

    until: int
    reason: str


@dataclass(slots=True)
class RunResult:
    """The results of a run, by message id: *ended* deliveries, *failures*, and *enqueued* deliveries.

    Deliveries without a result were not started. The *enqueued* deliveries were handed over to the queue of their group
    and are still pending. The *judged* deliveries passed the filter function in this run. *got_through* counts the
    successes, including deliveries to a group's queue. *held* says how long deliveries without a result must wait, and
    why. It is None if no gate holds them.
    """

    ended: dict[str, Entry] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    enqueued: set[str] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)
    got_through: int = 0
    held: Hold | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no delivery has a result, and none passed the filter function."""
        return not (self.ended or self.failures or self.enqueued or self.judged)

    def add(self, result: RunResult) -> None:
        """Add the results of other deliveries of the same run. The fields *judged* and *held* stay unchanged."""
        self.ended |= result.ended
        self.failures |= result.failures
        self.enqueued |= result.enqueued
        self.got_through += result.got_through


def drop_expired(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], result: RunResult, now: int
) -> list[Delivery]:
    """Return the *deliveries* that have not expired at *now*, and end the others in *result*.

    The push uses the same *now*, because the clock may be set back or forward in between.
    """
    waiting = []
    for message, made in deliveries:
        if message.is_expired(now):
            add_end(world, subscription, message, Entry(EntryState.EXPIRED, made), result)
        else:
            waiting.append((message, made))
    return waiting


def add_end(world: World, subscription: Subscription, message: Message, entry: Entry, result: RunResult) -> None:
    """Record in *result* that the delivery of *message* ended as *entry*, without a push."""
    result.ended[message.message_id] = entry
    world.telemetry.record_end(message, subscription, entry.state)


def put_off(world: World, message: Message, made: int, detail: str) -> Failure:
    """Return the failure of a delivery that the service could not attempt. The failure does not count as an attempt.

    So a delivery with only such failures ends by its expiry. *made* is the number of earlier attempts, and *detail* the
    reason for display.
    """
    now = world.clock.now()
    again_at = min(now + round(PUT_OFF_S * 1000 / world.time_scale), message.expires_at)
    return Failure(Outcome(False, detail, retry_after_s=PUT_OFF_S), again_at, PastAttempt(made, now, 0, detail))


async def attempt(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], now: int, circuit: CircuitCheck
) -> dict[str, Result]:
    """Push *deliveries* in one request at *now*; return the counted results by message id.

    A request has several deliveries only if the subscription has batches. If the whole request fails, it is unknown
    which message failed, so the failure counts only for the head. On an ordered subscription, no result after the first
    failure counts. A delivery without a counted result stays as if it had not been pushed.
    """
    pushes = tuple(Push(subscription, message, made + 1) for message, made in deliveries)
    started = world.clock.monotonic()
    if subscription.settings.batching is None:
        outcome = await world.pusher.push(pushes[0])
    else:
        outcome = await world.pusher.push_batch(PushBatch(subscription, pushes, f"batch_{world.dice.unique_id(now)}"))
    took_ms = round((world.clock.monotonic() - started) * 1000)
    circuit.hear(outcome)
    ended_at, results = world.clock.now(), dict[str, Result]()
    for push in pushes[: _count_attempted(pushes, outcome)]:
        message_id = push.message.message_id
        its = outcome.of(message_id) if outcome.failed else outcome
        results[message_id] = _result(world, push, its, ended_at, took_ms)
    return results


def _count_attempted(pushes: Sequence[Push], outcome: Outcome) -> int:
    """Return how many *pushes* of one request count as attempts, beginning with the head."""
    if not outcome.delivered:
        return 1
    failed = [place for place, push in enumerate(pushes) if push.message.message_id in outcome.failed]
    return failed[0] + 1 if failed and pushes[0].subscription.settings.keeps_order else len(pushes)


def _result(world: World, push: Push, outcome: Outcome, ended_at: int, took_ms: int) -> Result:
    if outcome.delivered:
        disposition = Disposition(EntryState.DELIVERED)
    elif outcome.gone:
        disposition = Disposition(EntryState.BLOCKED, ended_at)
    else:
        disposition = _after_failure(world, push, outcome, ended_at)
    world.telemetry.record_attempt(push, outcome, disposition.state, took_ms)
    return _consequence(push, outcome, disposition, ended_at, took_ms)


def planned_at(world: World, subscription: Subscription, failures: int, ended_at: int) -> int:
    """Return the time of the next attempt of a delivery after *failures* failed attempts, the last at *ended_at*.

    Return *ended_at* if the policy allows no more retries.
    """
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
    response = response_text(outcome.answer, shared_secrets(push.subscription.settings)) if outcome.answer else ""
    past = PastAttempt(push.attempt, ended_at, took_ms, outcome.detail, outcome.status, response)
    if disposition.state is EntryState.BLOCKED:
        assert disposition.next_attempt_at is not None
        return Failure(outcome, disposition.next_attempt_at, past)
    return Entry(disposition.state, push.attempt, ended_at, outcome.detail, history=(past,))


def lane_state_after(subscription: Subscription, failures: Collection[Failure]) -> LaneState:
    """Return the state of a lane with a backlog after *failures*. Without failures the lane is BLOCKED."""
    if any(failure.outcome.gone for failure in failures):
        return LaneState.SUSPENDED
    decays = subscription.settings.retry.strategy is Strategy.EXPONENTIAL_DECAY_RETRY
    if failures and decays and not subscription.settings.is_group:
        return LaneState.LOST_CONTACT
    return LaneState.BLOCKED


def independent_state_after(failures: Collection[Failure], *, got_through: bool, has_more: bool) -> LaneState:
    """Return the state of a lane under INDEPENDENT_RETRY after *failures*.

    *got_through* says whether any delivery succeeded, and *has_more* whether any delivery was not started. Contact is
    lost if no delivery succeeded and a failure concerns the receiver, not only one message.
    """
    if any(failure.outcome.gone for failure in failures):
        return LaneState.SUSPENDED
    if not got_through and not all(failure.outcome.refused for failure in failures):
        return LaneState.LOST_CONTACT
    return LaneState.BLOCKED if has_more else LaneState.RETRYING


KNOWN_MAX = 10_000
"""A process remembers the last push to at most 10,000 receivers."""
HEAD_STARTS = SLOTS // 2
"""A batch first pushes to its slowest receivers, in at most half of the slots. Other receivers get the other slots."""


@dataclass(frozen=True, slots=True)
class LastPush:
    """The last push to a receiver: its duration in seconds, and the *priority* that the next push gets."""

    priority: Priority
    took_s: float


NEVER = LastPush(Priority.UNKNOWN, 0.0)


class LastPushes(dict[str, LastPush]):
    """This process's last push to each subscription, by id. Only the order of pushes depends on it."""

    def remember(self, receiver: str, last: LastPush) -> None:
        """Remember the last push to *receiver*, a subscription id."""
        if len(self) >= KNOWN_MAX:
            self.clear()
        self[receiver] = last


def order_pushes(world: World, topic_id: str, ordinals: Collection[int]) -> list[int]:
    """Return the *ordinals* of a topic's subscriptions in the order of their pushes.

    A batch lasts until its slowest receiver responds, and each start takes time, so pushes to slow receivers start
    first. The service promises no order between subscriptions.
    """
    if len(ordinals) < 2:
        return list(ordinals)
    known = world.memory.of(LastPushes)
    lasts = [(ordinal, known.get(subscription_id(topic_id, ordinal), NEVER)) for ordinal in sorted(ordinals)]
    return slowest_first(
        [(ordinal, last.took_s if last.priority is Priority.TRUSTED else 0.0) for ordinal, last in lasts]
    )


def slowest_first(took: Sequence[tuple[int, float]], head: int = HEAD_STARTS) -> list[int]:
    """Return the ordinals in *took* (ordinal, seconds): at most *head* slow ones, slowest first, then the others.

    >>> slowest_first([(0, 0.1), (1, 3.0), (2, 0.0), (3, 9.0), (4, 0.2)], head=2)
    [3, 1, 0, 2, 4]
    """
    first = [ordinal for ordinal, _ in nlargest(head, took, key=lambda each: each[1])]
    others = set(first)
    return first + [ordinal for ordinal, _ in took if ordinal not in others]


Request = Sequence[Delivery]
"""Deliveries pushed together, in their order."""


ASKED_AGAIN_S = 1.0
"""A run checks at most once a second whether its lane was paused or its subscription deleted."""
ANSWERED_WITHIN_S, SUBSCRIPTIONS_WITHIN = 0.75, 500
"""A batch waits for responses until 0.75 s after its last push began, and 0.75 s more per further 500 subscriptions."""


@dataclass(slots=True)
class InFlight:
    """The runs of a batch with pushes in flight, by the ordinals of their subscriptions.

    A response is late if it has not arrived *within_s* seconds after the last start of a push in any run. Only the last
    start counts, because the loop has no time to read responses while pushes start.
    """

    clock: Clock
    within_s: float = ANSWERED_WITHIN_S
    _runs: dict[int, int] = field(default_factory=dict)
    _begun_s: float = -math.inf
    _begun: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, clock: Clock, subscriptions: int) -> InFlight:
        """Return an empty instance for a batch with this number of *subscriptions*."""
        return cls(clock, ANSWERED_WITHIN_S * max(1, math.ceil(subscriptions / SUBSCRIPTIONS_WITHIN)))

    @contextmanager
    def flight(self, watch: RunWatch, messages: Set[str]) -> Iterator[None]:
        """Count a push of *messages*, or a function call for *messages*, as in flight while the context lasts."""
        ordinal = watch.ordinal
        watch.messages |= messages
        self._runs[ordinal] = self._runs.get(ordinal, 0) + 1
        self._begun_s = self.clock.monotonic()
        self._begun.set()
        try:
            yield
        finally:
            watch.messages -= messages
            self._runs[ordinal] -= 1
            if not self._runs[ordinal]:
                del self._runs[ordinal]

    async def late(self) -> tuple[int, ...]:
        """Wait until responses are late; return the ordinals of all subscriptions with a push in flight."""
        while True:  # It ends: with the batch.
            await self._begun.wait()
            self._begun.clear()
            while self._runs:
                wait_s = self._begun_s + self.within_s - self.clock.monotonic()
                if wait_s < CLOCK_STEP_S:
                    return tuple(self._runs)
                await self.clock.pause(wait_s)


@dataclass(slots=True, eq=False)
class RunWatch:
    """A batch's view of one subscription's run: the run's pushes in flight, and the run's results (*parts*).

    If *is_left*, the batch continues without the run. Then the run starts no more pushes or calls of the filter
    function.
    """

    in_flight: InFlight
    ordinal: int
    is_left: bool = False
    parts: list[RunResult] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)
    """The messages of the pushes, and of the call of the filter function, that are in flight."""

    def result(self) -> RunResult:
        """Return the current results of the run."""
        result = RunResult(held=self.parts[0].held if self.parts else None)
        for part in self.parts:
            result.add(part)
            result.judged |= part.judged
        return result


@dataclass(frozen=True, slots=True)
class Run:
    """One subscription's deliveries in their order, attempted together.

    Pushes start within *seconds*, in *slots*. *unjudged* has the ids of messages that need a verdict of the filter
    function. If *answered*, a push just succeeded, so pushes are concurrent from the start. If *asks_circuit*, the
    receiver may not respond, so the run first checks the circuit of the host. *attempted_at* is the time of the head's
    last attempt, or None.
    """

    subscription: Subscription
    deliveries: Sequence[Delivery]
    slots: PushSlots
    seconds: float
    circuit: CircuitCheck
    unjudged: Collection[str] = frozenset()
    answered: bool = False
    asks_circuit: bool = False
    attempted_at: int | None = None
    permit: Permit | None = None
    """The permit of the subscription's rate; None if the subscription has no rate."""
    watch: RunWatch | None = None
    """The watch of the batch that may continue without this run; None if the run is part of no batch."""
    may_continue: Callable[[], Awaitable[bool]] | None = None
    """Checks whether the lane still allows attempts to begin; None if the run is too short for this check."""

    @property
    def is_left(self) -> bool:
        """Whether the batch continued without this run, so that no more pushes or calls may begin."""
        return self.watch is not None and self.watch.is_left

    def flight(self, deliveries: Sequence[Delivery]) -> AbstractContextManager[None]:
        """Return a context in which a push of *deliveries*, or a call of the filter function, is in flight."""
        if self.watch is None:
            return nullcontext()
        return self.watch.in_flight.flight(self.watch, {message.message_id for message, _ in deliveries})


def requests_of(subscription: Subscription, deliveries: Sequence[Delivery], weights: BytesInFlight) -> list[Request]:
    """Split *deliveries*, in their order, into as few requests as the subscription's bounds allow.

    A delivery that failed before is alone in its request, so that no other delivery fails with it. Removing a
    delivery never increases the number of requests. *weights* returns the size of each message.
    """
    batching = subscription.settings.batching
    if batching is None:
        return [[each] for each in deliveries]
    requests: list[list[Delivery]] = []
    size = 0
    for delivery in deliveries:
        message, made = delivery
        added = weights.item_size(subscription, message)
        last = requests[-1] if requests else []
        joins = 0 < len(last) < batching.messages_max and not made and not last[0][1]
        if joins and size + added <= batching.bytes_max:
            last.append(delivery)
            size += added
        else:
            requests.append([delivery])
            size = added
    return list(requests)


async def send_in_order(world: World, run: Run) -> RunResult:
    """Push the deliveries of *run* in order: one by one until a success, then as many at once as the settings allow.

    If a delivery failed and is still pending, no new push starts. The exception is a receiver that refused only that
    message, under INDEPENDENT_RETRY. No push starts later than the run's *seconds* after the first push. The first push
    waits for its slot for at most the same time.
    """
    until = world.clock.monotonic() + run.seconds
    waiting = deque(requests_of(run.subscription, run.deliveries, run.slots.bytes))
    sender = _Sender(world, run, until, waiting, run.answered)
    if run.watch is not None:
        run.watch.parts.append(sender.result)
    await sender.send()
    return sender.result


@dataclass(slots=True)
class _Sender:
    """The requests of a run that are still waiting, and the progress of the run."""

    world: World
    run: Run
    until: float
    waiting: deque[Request]
    answered: bool = False
    begun: bool = False
    taken: int = 0
    is_stopped: bool = False
    result: RunResult = field(default_factory=RunResult)
    asked_s: float = field(init=False)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    receiver: str = field(init=False)
    known: LastPushes = field(init=False)

    def __post_init__(self) -> None:
        self.asked_s = self.world.clock.monotonic()
        self.known = self.world.memory.of(LastPushes)
        self.receiver = self.run.subscription.subscription_id

    async def send(self, lead: bool = True, held: Slot | None = None) -> None:
        """Push the next requests one after the other in one slot.

        The first sender is the *lead*: after a success it starts further senders, as many as the subscription's
        settings allow. *held* is a slot that this sender already has.
        """
        try:
            while self.waiting and (self.run.permit is None or self.taken < self.run.permit.count):
                opens = lead and self.answered and len(self.waiting) > 1
                if opens and (window := self.run.subscription.settings.window) > 1:
                    beside = [self.send(lead=False) for _ in range(min(window, len(self.waiting)) - 1)]
                    first, held = self.send(lead=False, held=held), None
                    faults = await side_by_side((first, *beside))
                    if faults:
                        raise faults[0]
                    return
                request = self.waiting.popleft()
                await self.turn()
                before, held = held, None
                held = await self.take(request, before)
                if held is None:
                    return
                if not self.begun:  # Waiting for a slot does not use up the receiver's time.
                    self.begun, self.until = True, self.world.clock.monotonic() + self.run.seconds
                await self.ask_lane()
                if self.is_stopped or self.run.is_left:  # This may have changed during the waits.
                    return
                await self.attempt(request)
                if not self.may_go_on():
                    return
        finally:
            if held is not None:
                self.run.slots.give_back(held)

    async def ask_lane(self) -> None:
        """Stop if the lane allows no further attempt. Concurrent pushes share one check and wait for it."""
        if self.run.may_continue is None or self.world.clock.monotonic() < self.asked_s + ASKED_AGAIN_S:
            return
        async with self.asking:
            if self.world.clock.monotonic() >= self.asked_s + ASKED_AGAIN_S:
                may_continue = await self.run.may_continue()
                self.is_stopped |= not may_continue  # A failure may have stopped the run during the check.
                self.asked_s = self.world.clock.monotonic()

    async def turn(self) -> None:
        """Wait for the next permit of the subscription's rate."""
        permit, place = self.run.permit, self.taken
        self.taken += 1
        if permit is not None and (wait_s := permit.wait_s(place, self.world.clock.now())):
            await self.world.clock.pause(wait_s)

    async def take(self, request: Request, before: Slot | None) -> Slot | None:
        """Take a slot for *request*, or return None if there is none in time. The slot *before* is given back."""
        priority = Priority.ANSWERED if self.answered else self.known.get(self.receiver, NEVER).priority
        pushes = [(self.run.subscription, message) for message, _ in request]
        return await self.run.slots.take(self.run.circuit.host, priority, self.until, pushes, before)

    def stops_after(self, failure: Failure) -> bool:
        """Return whether *failure* stops further pushes: the receiver is possibly unable to accept any message.

        False under INDEPENDENT_RETRY if the receiver responded and refused only this message.
        """
        return not (failure.outcome.refused and self.run.subscription.settings.is_independent)

    def may_go_on(self) -> bool:
        return not (self.is_stopped or self.run.is_left) and self.world.clock.monotonic() < self.until

    async def attempt(self, request: Request) -> None:
        """Attempt the unexpired deliveries of a request.

        Deliveries without a counted result return to the front of the waiting requests, as one request. Nothing may
        come between the check of expiry and the push.
        """
        now = self.world.clock.now()
        waiting = drop_expired(self.world, self.run.subscription, request, self.result, now)
        if not waiting:
            return
        began_s = self.world.clock.monotonic()
        with self.run.flight(waiting):
            results = await attempt(self.world, self.run.subscription, waiting, now, self.run.circuit)
        took_s = self.world.clock.monotonic() - began_s
        uncounted = [each for each in waiting if each[0].message_id not in results]
        if uncounted:
            self.waiting.appendleft(uncounted)
        got_through = 0
        for message_id, result in results.items():
            if isinstance(result, Failure):
                self.result.failures[message_id] = result
                self.is_stopped |= bool(uncounted) or self.stops_after(result)
            else:
                self.result.ended[message_id] = result
                got_through += result.state is EntryState.DELIVERED
        if got_through:
            self.answered = True
            self.result.got_through += got_through
            self.run.slots.count_answer(self.run.circuit.host)
        self.known.remember(self.receiver, LastPush(Priority.TRUSTED if got_through else Priority.FAILING, took_s))


NOT_TAKEN = "the group's queue did not take it"


async def attempt_run(world: World, run: Run) -> RunResult:
    """Attempt the deliveries that pass the gates.

    Each gate may remove deliveries from the run, and records in the result that these ended, failed, or are held.
    Deliveries without a result were not started.
    """
    result = RunResult()
    if run.watch is not None:
        run.watch.parts.append(result)
    run = _end_expired(world, run, result)
    run = _hold_unverified(run, result)
    run = await _check_circuit(world, run, result)
    run = await _take_permit(world, run, result)
    run = await _take_verdicts(world, run, result)
    run = await _prepare_keys(world, run, result)
    if run.deliveries and not run.is_left:
        sent = _enqueue(world, run) if run.subscription.settings.is_group else send_in_order(world, run)
        result.add(await sent)
    return result


def _end_expired(world: World, run: Run, result: RunResult) -> Run:
    return replace(run, deliveries=drop_expired(world, run.subscription, run.deliveries, result, world.clock.now()))


def _hold_unverified(run: Run, result: RunResult) -> Run:
    """Hold all deliveries of an unverified endpoint until the head expires. Only a verification ends this earlier."""
    if run.subscription.settings.unverified is None or not run.deliveries:
        return run
    result.held = Hold(run.deliveries[0][0].expires_at, UNVERIFIED)
    return replace(run, deliveries=())


async def _check_circuit(world: World, run: Run, result: RunResult) -> Run:
    """Check the circuit of a doubtful host if the run asks for it. A probe attempts only the head."""
    if not (run.deliveries and run.asks_circuit and run.circuit.is_doubtful):
        return run
    attempt_s = run.subscription.settings.timeout_s + judging_s(run.subscription)
    await run.circuit.ask(attempt_s, run.attempted_at)
    if run.circuit.until is not None:
        result.held = Hold(min(run.circuit.until, run.deliveries[0][0].expires_at), CIRCUIT)
        return replace(run, deliveries=())
    return replace(run, deliveries=run.deliveries[:1]) if run.circuit.probe else run


async def _take_permit(world: World, run: Run, result: RunResult) -> Run:
    """Take permits for as many attempts as the rate allows soon. *held* of *result* gets the next free instant."""
    rate = run.subscription.settings.rate
    if rate is None or not run.deliveries:
        return run
    requests = requests_of(run.subscription, run.deliveries, run.slots.bytes)
    permit = await take_permit(world, run.subscription.subscription_id, rate, len(requests))
    result.held = Hold(permit.free_at, RATE)
    return replace(run, deliveries=[each for some in requests[: permit.count] for each in some], permit=permit)


async def _take_verdicts(world: World, run: Run, result: RunResult) -> Run:
    """Let the filter function decide about all unjudged messages, in one call, in a slot like a push.

    A run has at most 100 deliveries. If no slot is free in time, nothing is called or pushed. An error of the function
    under the policy ``block`` is a failed attempt of the first unjudged message. Messages before that message continue;
    messages behind it are not started and stay unjudged. If another filter replaced the function, that filter decides.
    """
    if not run.unjudged:
        return run
    unjudged = [each for each in run.deliveries if each[0].message_id in run.unjudged]
    if not unjudged:
        return run
    function = function_of(run.subscription)
    if function is None:
        subscription, present = run.subscription, compile_filter(run.subscription.settings.filter)
        verdicts = [is_matched(world, subscription, present, message) for message, _ in unjudged]
        return _apply_verdicts(world, run, verdicts, unjudged, result)
    # The event takes as much memory as pushes of these messages to the function.
    endpoint = Endpoint(Protocol.LAMBDA, function.function)
    settings = replace(run.subscription.settings, endpoint=endpoint, content_format=ContentFormat.JSON, batching=None)
    caller, until = replace(run.subscription, settings=settings), world.clock.monotonic() + run.seconds
    loads = [(caller, message) for message, _ in unjudged]
    slot = await run.slots.take(function.function, Priority.UNKNOWN, until, loads)
    if slot is None:
        return replace(run, deliveries=())
    try:
        return await _ask_function(world, run, function, unjudged, result)
    finally:
        run.slots.give_back(slot)


def is_matched(world: World, subscription: Subscription, filter: CompiledFilter, message: Message) -> bool:
    """Return whether the *filter* of *subscription* matches an accepted message.

    A filter that fails does not match; the failure is counted.
    """
    try:
        return filter.evaluate(message) is True
    except FilterEvaluationError:
        world.telemetry.record_filter_failures(subscription.topic, (subscription.name,))
        return False


def _apply_verdicts(
    world: World, run: Run, verdicts: Sequence[bool], unjudged: Sequence[Delivery], result: RunResult
) -> Run:
    """End the *unjudged* deliveries that did not match; return the run of the others."""
    for (message, made), yes in zip(unjudged, verdicts, strict=True):
        if yes:
            result.judged.add(message.message_id)
        else:
            add_end(world, run.subscription, message, Entry(EntryState.FILTERED, made), result)
    return replace(run, deliveries=[each for each in run.deliveries if each[0].message_id not in result.ended])


async def _ask_function(
    world: World, run: Run, function: FunctionFilter, unjudged: Sequence[Delivery], result: RunResult
) -> Run:
    """Call the function; end or fail the *unjudged* deliveries not to be pushed; return the run of the others."""
    subscription = run.subscription
    with run.flight(unjudged):
        verdicts = await world.filter_functions.verdicts(subscription, [message for message, _ in unjudged])
    if verdicts is not None and len(verdicts) == len(unjudged):
        return _apply_verdicts(world, run, verdicts, unjudged, result)
    world.telemetry.record_filter_failures(subscription.topic, (subscription.name,))
    if function.on_error == "drop":
        for message, made in unjudged:
            dropped = Entry(EntryState.DISCARDED, made, last_outcome=FILTER_ERROR)
            add_end(world, subscription, message, dropped, result)
        return replace(run, deliveries=[each for each in run.deliveries if each[0].message_id not in result.ended])
    message, made = unjudged[0]
    push, outcome = Push(subscription, message, made + 1), Outcome(False, FILTER_ERROR)
    ended_at = world.clock.now()
    failed = _consequence(push, outcome, _after_failure(world, push, outcome, ended_at), ended_at)
    if isinstance(failed, Failure):
        result.failures[message.message_id] = failed
    else:
        add_end(world, subscription, message, failed, result)
    return replace(run, deliveries=run.deliveries[: run.deliveries.index(unjudged[0])])


async def _prepare_keys(world: World, run: Run, result: RunResult) -> Run:
    """Decrypt the subscription's secrets, and read the service's seeds, if a push needs them.

    If secrets or seeds cannot be read, nothing is pushed. This does not count as an attempt, because the service is at
    fault.
    """
    settings = run.subscription.settings
    needs_keys = settings.sealed is not None or settings.signature is Signature.V1A
    if not needs_keys or not run.deliveries:
        return run
    try:
        is_prepared = settings.signature is not Signature.V1A or world.signer.is_ready
        ready = cached_secrets(world, run.subscription) if is_prepared else None
        if ready is None:
            ready = await world.executor.run(_with_keys, world, run.subscription)
    except UnavailableError as fault:
        if not isinstance(fault, ReplacedError):
            world.telemetry.record_failure("secrets of a subscription", fault)
        for message, made in drop_expired(world, run.subscription, run.deliveries, result, world.clock.now())[:1]:
            result.failures[message.message_id] = put_off(world, message, made, NOT_OPENED)
        return replace(run, deliveries=())
    return replace(run, subscription=ready)


def _with_keys(world: World, subscription: Subscription) -> Subscription:
    if subscription.settings.signature is Signature.V1A:
        world.signer.prepare()
    return open_secrets(world, subscription)


async def _enqueue(world: World, run: Run) -> RunResult:
    """Send the deliveries to the group's queue, in their order, ten at a time, within the run's time.

    Only a pull counts as an attempt. If the queue refuses a delivery, its failure does not count as an attempt, because
    the service is at fault. Later deliveries are not started after a refusal, nor at the end of the time. See
    docs/protocol.md, Consumer groups.
    """
    group, result, until = run.subscription, RunResult(), world.clock.monotonic() + run.seconds
    waiting = drop_expired(world, group, run.deliveries, result, world.clock.now())
    if not waiting:
        return result
    entries = await world.executor.run(_entries, world, group, [message for message, _ in waiting])
    for start in range(0, len(waiting), ENQUEUED_AT_ONCE):
        if result.failures or (start and world.clock.monotonic() >= until):
            break
        end = start + ENQUEUED_AT_ONCE
        refused = await world.executor.run(world.group_queues.send, GroupQueue.of(group), entries[start:end])
        lost = {entry.message_id for entry in refused}
        for message, made in waiting[start:end]:
            if message.message_id not in lost:
                result.enqueued.add(message.message_id)
                result.got_through += 1
            elif not result.failures:  # Deliveries behind the first failure count as not tried.
                result.failures[message.message_id] = put_off(world, message, made, NOT_TAKEN)
    world.telemetry.count("HandedOver", len(result.enqueued))
    return result


def _entries(world: World, group: Subscription, messages: Sequence[Message]) -> list[QueueEntry]:
    """Return the queue entries of *messages*. Only in an ordered queue do messages share message groups."""
    ordering = Ordering.NONE
    if group.settings.ordered and (topic := stored.topic(world.store, group.topic)) is not None:
        ordering = topic.settings.ordering
    return [
        QueueEntry(each.topic, each.message_id, queue_group(ordering, each.topic, each.message_id, each.ordering_key))
        for each in messages
    ]
