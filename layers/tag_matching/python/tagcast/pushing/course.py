"""The course of one subscription's deliveries: what goes into one request, and one at a time or a window in flight.

See docs/semantics.md, Delivery and Batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.model import EntryState, Push, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import Delivery, Failure, Progress, Result, attempt, attempt_batch
from tagcast.pushing.bytes_in_flight import BytesInFlight
from tagcast.pushing.circuit import Passage
from tagcast.pushing.push_slots import Ask, PushSlots, Rank
from tagcast.pushing.rate_limit import Grant, take
from tagcast.pushing.receivers import NEVER, LastPush, LastPushes
from tagcast.pushing.unattempted import alive

Request = Sequence[Delivery]
"""What is pushed together, in its order."""


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
) -> tuple[list[Delivery], Grant]:
    """Return what of *deliveries* the rate that *subscription* has lets begin, and when."""
    rate = subscription.settings.max_per_second
    assert rate is not None
    requests = requests_of(subscription, deliveries, weights)
    grant = await take(world, subscription.subscription_id, rate, len(requests))
    return [each for request in requests[: grant.count] for each in request], grant


async def attempt_in_order(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], share: Share
) -> Progress:
    """Push *deliveries* in order: one at a time until the receiver answers well, then in its window.

    Nothing new is started after a failure that leaves its delivery owed, nor once the *share* is over, which begins
    with the first of them. That one waits for a slot at most as long as a share lasts.
    """
    until = world.clock.monotonic() + share.seconds
    waiting = deque(requests_of(subscription, deliveries, share.slots.bytes))
    course = _Course(world, subscription, share, until, waiting, share.answered)
    await course.run()
    return course.progress


@dataclass(slots=True)
class _Course:
    """Deliveries of one subscription in their order, and how far they came."""

    world: World
    subscription: Subscription
    share: Share
    until: float
    waiting: deque[Request]
    answered: bool = False
    begun: bool = False
    taken: int = 0
    progress: Progress = field(default_factory=Progress)
    receiver: str = field(init=False)
    known: LastPushes = field(init=False)

    def __post_init__(self) -> None:
        self.known = self.world.memory.of(LastPushes)
        self.receiver = self.subscription.subscription_id

    @property
    def slots(self) -> PushSlots:
        return self.share.slots

    @property
    def passage(self) -> Passage:
        return self.share.passage

    async def run(self, lead: bool = True, held: Ask | None = None) -> None:
        """Push what stands next, one after the other in one slot; the *lead* opens the window after a good answer."""
        try:
            while self.waiting and self.may_take():
                opens = lead and self.answered and len(self.waiting) > 1
                if opens and (window := self.subscription.settings.window) > 1:
                    beside = [self.run(lead=False) for _ in range(min(window, len(self.waiting)) - 1)]
                    first, held = self.run(lead=False, held=held), None
                    faults = await side_by_side((first, *beside))
                    if faults:
                        raise faults[0]
                    return
                request = self.waiting.popleft()
                await self.turn()
                ask, before, held = self.ask(request), held, None
                if not await self.slots.take(ask, self.until, instead_of=before):
                    return
                held = ask
                if not self.begun:  # The receiver's share is not what the service made it wait.
                    self.begun, self.until = True, self.world.clock.monotonic() + self.share.seconds
                if self.progress.failures:  # Of those beside it, while it waited.
                    return
                await self.attempt(request)
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

    def ask(self, request: Request) -> Ask:
        rank = Rank.ANSWERED if self.answered else self.known.get(self.receiver, NEVER).rank
        loads = tuple(self.slots.bytes.load_of(self.subscription, message) for message, _ in request)
        return Ask(self.passage.host, rank, loads)

    def may_take(self) -> bool:
        """Say whether the rate has given a request away that is not made yet."""
        return self.share.grant is None or self.taken < self.share.grant.count

    def may_go_on(self) -> bool:
        return not self.progress.failures and self.world.clock.monotonic() < self.until

    async def attempt(self, request: Request) -> None:
        """Attempt what is not over; what does not count of a request that failed stands first again.

        Nothing may come between the look at lives and the push.
        """
        now = self.world.clock.now()
        waiting = alive(self.world, self.subscription, request, self.progress, now)
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
                self.progress.failures[message_id] = result
            else:
                self.progress.settled[message_id] = result
                well |= result.state is EntryState.DELIVERED
        if well:
            self.answered = True
            self.slots.answered(self.passage.host)
        self.known.remember(self.receiver, LastPush(Rank.TRUSTED if well else Rank.FAILING, took_s))

    async def push(self, deliveries: Sequence[Delivery], now: int) -> dict[str, Result]:
        if self.subscription.settings.batching is not None:
            return await attempt_batch(self.world, self.subscription, deliveries, now, self.passage)
        [(message, made)] = deliveries
        return {message.message_id: await attempt(self.world, Push(self.subscription, message, made + 1), self.passage)}
