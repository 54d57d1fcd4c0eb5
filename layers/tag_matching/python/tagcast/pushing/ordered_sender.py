"""The ordered sender: what of a run goes into one request, and what is in flight together: one request or a window.

See docs/semantics.md, Delivery and Batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.ids import subscription_id
from tagcast.model import EntryState, Push, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import Delivery, Failure, Result, RunResult, alive, attempt, attempt_batch
from tagcast.pushing.circuit import CircuitCheck
from tagcast.pushing.push_slots import SLOTS, BytesInFlight, Priority, PushSlots, SlotRequest
from tagcast.pushing.rate_limit import Permit, take

KNOWN_MAX = 10_000
"""A process remembers its last push to at most 10,000 receivers."""
HEAD_STARTS = SLOTS // 2
"""A batch begins with its slowest receivers, at most half of the slots, so that the others find slots beside them."""


@dataclass(frozen=True, slots=True)
class LastPush:
    """How a receiver's next push ranks after the last one, and how long that took, in seconds."""

    priority: Priority
    took_s: float


NEVER = LastPush(Priority.UNKNOWN, 0.0)


class LastPushes(dict[str, LastPush]):
    """This process's last push to each subscription, by its id; it orders pushes, and nothing else."""

    def remember(self, receiver: str, last: LastPush) -> None:
        """Remember the *last* push to the subscription with the id *receiver*."""
        if len(self) >= KNOWN_MAX:
            self.clear()
        self[receiver] = last


def in_turn(world: World, topic_id: str, ordinals: Collection[int]) -> list[int]:
    """Return the *ordinals* of subscriptions of one topic in the order in which their pushes are begun.

    A batch ends with its slowest receiver, and each start takes time, so the slow ones go first. Between different
    subscriptions no order is promised.
    """
    if len(ordinals) < 2:
        return list(ordinals)
    known = world.memory.of(LastPushes)
    lasts = [(ordinal, known.get(subscription_id(topic_id, ordinal), NEVER)) for ordinal in sorted(ordinals)]
    return slowest_first(
        [(ordinal, last.took_s if last.priority is Priority.TRUSTED else 0.0) for ordinal, last in lasts]
    )


def slowest_first(took: Sequence[tuple[int, float]], head: int = HEAD_STARTS) -> list[int]:
    """Return the ordinals in *took*, beside the seconds that each took: first the *head* slowest, then the others.

    >>> slowest_first([(0, 0.1), (1, 3.0), (2, 0.0), (3, 9.0), (4, 0.2)], head=2)
    [3, 1, 0, 2, 4]
    """
    first = [ordinal for ordinal, _ in nlargest(head, took, key=lambda each: each[1])]
    others = set(first)
    return first + [ordinal for ordinal, _ in took if ordinal not in others]


Request = Sequence[Delivery]
"""What is pushed together, in its order."""


@dataclass(frozen=True, slots=True)
class Run:
    """One subscription's deliveries in their order, which are attempted together.

    Pushes start within *seconds*, in *slots*. *unjudged* are the messages to which its filter function has yet to say
    yes. *answered*: the receiver answered well just now, so that its window is open from the beginning.
    With *asks_circuit* the attempt before failed, *attempted_at*, and the circuit of the host is asked first.
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
    """What the rate of the subscription lets begin, and when, if it has one."""


def requests_of(subscription: Subscription, deliveries: Sequence[Delivery], weights: BytesInFlight) -> list[Request]:
    """Split *deliveries*, in their order, into as few requests as the subscription's bounds allow.

    What failed before is alone in its request, so that it takes nothing else with it. Of fewer deliveries there are
    never more requests.
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


async def take_requests(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], weights: BytesInFlight
) -> tuple[list[Delivery], Permit]:
    """Return what of *deliveries* the rate that *subscription* has lets begin, and when."""
    rate = subscription.settings.max_per_second
    assert rate is not None
    requests = requests_of(subscription, deliveries, weights)
    permit = await take(world, subscription.subscription_id, rate, len(requests))
    return [each for request in requests[: permit.count] for each in request], permit


async def send_in_order(world: World, run: Run) -> RunResult:
    """Push the deliveries of *run* in order: one at a time until the receiver answers well, then in its window.

    Nothing new is started after a failure that leaves its delivery owed, nor when the time of the run is over, which
    begins with the first push. That one waits for a slot at most as long.
    """
    until = world.clock.monotonic() + run.seconds
    waiting = deque(requests_of(run.subscription, run.deliveries, run.slots.bytes))
    sender = _Sender(world, run, until, waiting, run.answered)
    await sender.send()
    return sender.result


@dataclass(slots=True)
class _Sender:
    """The deliveries of a run, and how far they came."""

    world: World
    run: Run
    until: float
    waiting: deque[Request]
    answered: bool = False
    begun: bool = False
    taken: int = 0
    result: RunResult = field(default_factory=RunResult)
    receiver: str = field(init=False)
    known: LastPushes = field(init=False)

    def __post_init__(self) -> None:
        self.known = self.world.memory.of(LastPushes)
        self.receiver = self.run.subscription.subscription_id

    async def send(self, lead: bool = True, held: SlotRequest | None = None) -> None:
        """Push what stands next, one after the other in one slot; the *lead* opens the window after a good answer."""
        try:
            while self.waiting and self.may_take():
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
                ask, before, held = self.ask(request), held, None
                if not await self.run.slots.take(ask, self.until, instead_of=before):
                    return
                held = ask
                if not self.begun:  # The receiver's time is not what the service made it wait.
                    self.begun, self.until = True, self.world.clock.monotonic() + self.run.seconds
                if self.result.failures:  # Of those beside it, while it waited.
                    return
                await self.attempt(request)
                if not self.may_go_on():
                    return
        finally:
            if held is not None:
                self.run.slots.give_back(held)

    async def turn(self) -> None:
        """Wait until the rate of the subscription lets the next attempt begin."""
        permit, place = self.run.permit, self.taken
        self.taken += 1
        if permit is not None and (wait_s := permit.wait_s(place, self.world.clock.now())):
            await self.world.clock.pause(wait_s)

    def ask(self, request: Request) -> SlotRequest:
        priority = Priority.ANSWERED if self.answered else self.known.get(self.receiver, NEVER).priority
        loads = tuple(self.run.slots.bytes.load_of(self.run.subscription, message) for message, _ in request)
        return SlotRequest(self.run.circuit.host, priority, loads)

    def may_take(self) -> bool:
        """Say whether the rate has given a request away that is not made yet."""
        return self.run.permit is None or self.taken < self.run.permit.count

    def may_go_on(self) -> bool:
        return not self.result.failures and self.world.clock.monotonic() < self.until

    async def attempt(self, request: Request) -> None:
        """Attempt what is not over; what does not count of a request that failed stands first again.

        Nothing may come between the look at lives and the push.
        """
        now = self.world.clock.now()
        waiting = alive(self.world, self.run.subscription, request, self.result, now)
        if not waiting:
            return
        began_s = self.world.clock.monotonic()
        results = await self.push(waiting, now)
        took_s = self.world.clock.monotonic() - began_s
        uncounted = [each for each in waiting if each[0].message_id not in results]
        if uncounted:
            self.waiting.appendleft(uncounted)
        well = False
        for message_id, result in results.items():
            if isinstance(result, Failure):
                self.result.failures[message_id] = result
            else:
                self.result.ended[message_id] = result
                well |= result.state is EntryState.DELIVERED
        if well:
            self.answered = True
            self.run.slots.answered(self.run.circuit.host)
        self.known.remember(self.receiver, LastPush(Priority.TRUSTED if well else Priority.FAILING, took_s))

    async def push(self, deliveries: Sequence[Delivery], now: int) -> dict[str, Result]:
        subscription, circuit = self.run.subscription, self.run.circuit
        if subscription.settings.batching is not None:
            return await attempt_batch(self.world, subscription, deliveries, now, circuit)
        [(message, made)] = deliveries
        return {message.message_id: await attempt(self.world, Push(subscription, message, made + 1), circuit)}
