"""Push slots: all receivers of an invocation share them, and no dead receiver can take them all.

See docs/protocol.md, Pushing.

A push in flight takes one slot. Receivers with a success in this batch go first, then receivers whose last push
succeeded. A host takes at most an eighth of all slots, plus one slot for each successful push. The time that a push
waits for a slot does not reduce the receiver's time.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tagcast.model import ContentFormat, Message, Protocol, Push, Subscription
from tagcast.ports import Clock, Telemetry
from tagcast.pushing.batch_form import item_bytes
from tagcast.pushing.envelope import content

BYTES_MAX = 64 * 1024 * 1024
SURE_BYTES_MAX = 4 * 1024
"""The size of a body up to 4 KiB is estimated. A longer body is encoded to measure it."""
ESCAPED_MAX = 6
"""JSON escapes one byte into at most 6."""
COPIES = 6
"""AWS's SDK holds about 6 copies of a request."""
ITEM_BYTES_AROUND = 256
"""An upper bound for names, numbers and commas around a message in a batch."""


@dataclass(frozen=True, slots=True)
class Load:
    """The memory of one push, in bytes. Pushes with the same *key* share this memory."""

    key: tuple[str, ...]
    size: int


class BytesInFlight:
    """Adds up the bytes of the loads in flight; the sum is at most *total*.

    A load larger than *total* starts only while no other load is in flight.
    """

    def __init__(self, total: int = BYTES_MAX) -> None:
        self._total = total
        self._used = 0
        self._holders: dict[tuple[str, ...], int] = {}
        self._sizes: dict[tuple[str, str, ContentFormat], int] = {}
        self._items: dict[tuple[str, str, ContentFormat, Protocol], int] = {}

    def load_of(self, subscription: Subscription, message: Message) -> Load:
        """Return the load of a push. HTTP pushes of one message in one format share the memory of its content."""
        settings = subscription.settings
        if settings.batching is None:
            form, size = settings.content_format.value, self._size(message, settings.content_format)
        else:
            form, size = f"{settings.content_format.value} item", self.item_size(subscription, message)
        if settings.endpoint.protocol in (Protocol.HTTP, Protocol.HTTPS):
            return Load((message.topic, message.message_id, form), size)
        return Load((message.topic, message.message_id, form, subscription.subscription_id), COPIES * size)

    def item_size(self, subscription: Subscription, message: Message) -> int:
        """Return the bytes of *message* in a batch, or slightly more."""
        key = (
            message.topic,
            message.message_id,
            subscription.settings.content_format,
            subscription.settings.endpoint.protocol,
        )
        if key not in self._items:
            self._items[key] = item_bytes(Push(subscription, message, 1)) + ITEM_BYTES_AROUND
        return self._items[key]

    def fits(self, loads: Sequence[Load]) -> bool:
        """Return whether *loads* may be added now."""
        added = sum(load.size for load in loads if load.key not in self._holders)
        return not added or self._used == 0 or self._used + added <= self._total

    def add(self, loads: Sequence[Load]) -> None:
        """Count one more push for each of *loads*."""
        for load in loads:
            holders = self._holders.get(load.key, 0)
            self._holders[load.key] = holders + 1
            self._used += 0 if holders else load.size

    def remove(self, loads: Sequence[Load]) -> bool:
        """Count one push less for each of *loads*. Return whether this freed the memory of a load."""
        was_last = False
        for load in loads:
            holders = self._holders.pop(load.key)
            if holders > 1:
                self._holders[load.key] = holders - 1
            else:
                self._used -= load.size
                was_last = True
        return was_last

    def _size(self, message: Message, content_format: ContentFormat) -> int:
        body = len(message.draft.body)
        if body <= SURE_BYTES_MAX:
            return ESCAPED_MAX * body
        key = message.topic, message.message_id, content_format
        if key not in self._sizes:
            self._sizes[key] = len(content(message, content_format).octets)
        return self._sizes[key]


SLOTS = 800
"""The maximum of pushes in flight. Each push takes a socket or a thread; Lambda allows 1,024 sockets and threads."""
HOSTS_MIN = 8
"""A dead host takes at most an eighth of the slots, so only eight dead hosts can take all slots."""
STARTS_AT_ONCE = 4
"""After 4 starts the loop reads responses again, so that no response waits for a thousand starts."""
Pushes = Sequence[tuple[Subscription, Message]]
"""The deliveries of one request."""
CLOCK_STEP_S = 0.001
"""An instant counts as reached if it is less than a millisecond ahead, because clocks count milliseconds."""


class Priority(IntEnum):
    """The order in which receivers get free slots."""

    ANSWERED = 0
    """A push to the receiver succeeded in this batch."""
    TRUSTED = 1
    """This process's last push to the receiver succeeded."""
    UNKNOWN = 2
    FAILING = 3
    """This process's last push to the receiver failed."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The resources of a request: a place at its *host*, and memory for its *loads*."""

    host: str
    priority: Priority
    loads: tuple[Load, ...] = ()


@dataclass(slots=True)
class _Host:
    busy: int = 0
    answers: int = 0
    waiting: deque[_Waiter] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Waiter:
    slot: Slot
    until: float
    granted: asyncio.Future[bool]


class PushSlots:
    """The slots of one invocation, on one event loop: *total* slots, and *bytes_max* bytes for :class:`BytesInFlight`.

    Use it as a context manager, and leave the context only after all pushes have ended.
    """

    def __init__(self, clock: Clock, total: int = SLOTS, bytes_max: int = BYTES_MAX) -> None:
        self._clock = clock
        self.bytes = BytesInFlight(bytes_max)
        self._free = total
        self._host_max = max(1, total // HOSTS_MIN)
        self._hosts: dict[str, _Host] = defaultdict(_Host)
        self._lines: dict[Priority, deque[_Waiter]] = {priority: deque() for priority in Priority}
        self._heavy: deque[_Waiter] = deque()
        self._starts_left = STARTS_AT_ONCE
        self._turn: asyncio.Handle | None = None
        self._deadline: asyncio.Task[None] | None = None
        self._sleeps_until = -math.inf
        self.waited_ms = 0
        self.refused = 0

    async def __aenter__(self) -> PushSlots:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the timers. Nothing waits for a slot any more."""
        if self._turn is not None:
            self._turn.cancel()
        if self._deadline is not None:
            self._deadline.cancel()
            await asyncio.wait((self._deadline,))

    async def take(
        self, host: str, priority: Priority, until: float, pushes: Pushes = (), instead_of: Slot | None = None
    ) -> Slot | None:
        """Take a slot for *pushes*. Return None if no slot becomes free before *until* (monotonic seconds).

        A slot that is free at once is taken even after *until*. Requests of equal priority are served in order.
        *instead_of* is a slot of the same host, which is given back first. If memory allows, the request gets the place
        of *instead_of* at once; otherwise the request waits like any other.
        """
        slot = Slot(host, priority, tuple(self.bytes.load_of(*each) for each in pushes))
        if instead_of is not None:
            self._release(instead_of)
            if self.bytes.fits(slot.loads):
                self._occupy(slot)
                self._grant()
                return slot
            self._call(self._hosts[instead_of.host])
        waiter = _Waiter(slot, until, asyncio.get_running_loop().create_future())
        self._lines[priority].append(waiter)
        self._grant()
        if waiter.granted.done():
            return slot if waiter.granted.result() else None
        if until < self._sleeps_until:
            self._watch_anew()
        started = self._clock.monotonic()
        try:
            granted = await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.result():
                self.give_back(slot)
            raise
        self.waited_ms += round((self._clock.monotonic() - started) * 1000)
        self.refused += not granted
        return slot if granted else None

    def give_back(self, slot: Slot) -> None:
        """Free a slot for waiting requests."""
        self._release(slot)
        self._call(self._hosts[slot.host])

    def count_answer(self, host: str) -> None:
        """Raise the limit of concurrent pushes to *host* by one, after a successful push. This frees no slot."""
        self._hosts[host].answers += 1
        self._call(self._hosts[host])

    def _call(self, owner: _Host) -> None:
        """Move requests that waited for a place at one host to the front, one for each free place of the host."""
        room = self._room(owner)
        called: list[_Waiter] = []
        while owner.waiting and len(called) < room:
            waiter = owner.waiting.popleft()
            if not waiter.granted.done():
                called.append(waiter)
        self._put_first(called)
        self._grant()

    def record_waits(self, telemetry: Telemetry) -> None:
        """Record as metrics how long requests waited for slots, and how many got no slot."""
        if self.waited_ms:
            telemetry.count("SlotWaitMs", self.waited_ms)
        if self.refused:
            telemetry.count("PushesDeferred", self.refused)

    def _room(self, host: _Host) -> int:
        return max(0, self._host_max + host.answers - host.busy)

    def _occupy(self, slot: Slot) -> None:
        self._free -= 1
        self._hosts[slot.host].busy += 1
        self.bytes.add(slot.loads)

    def _release(self, slot: Slot) -> None:
        self._free += 1
        self._hosts[slot.host].busy -= 1
        if self.bytes.remove(slot.loads):
            heavy, self._heavy = self._heavy, deque()
            self._put_first(heavy)

    def _put_first(self, waiters: Sequence[_Waiter]) -> None:
        for waiter in reversed(waiters):
            self._lines[waiter.slot.priority].appendleft(waiter)

    def _grant(self) -> None:
        """Give slots to waiting requests, in order, while slots are free."""
        short = False
        for line in self._lines.values():
            while line and self._free > 0 and self._starts_left > 0:
                waiter = line.popleft()
                host = self._hosts[waiter.slot.host]
                if waiter.granted.done():
                    continue
                if not self._room(host):
                    host.waiting.append(waiter)
                    short = True
                elif not self.bytes.fits(waiter.slot.loads):
                    self._heavy.append(waiter)
                    short = True
                else:
                    self._starts_left -= 1
                    self._occupy(waiter.slot)
                    waiter.granted.set_result(True)
        if self._turn is None and self._starts_left < STARTS_AT_ONCE:
            self._turn = asyncio.get_running_loop().call_soon(self._next_turn)
        if short or (self._free == 0 and any(self._lines.values())):
            self._watch()

    def _next_turn(self) -> None:
        self._turn = None
        self._starts_left = STARTS_AT_ONCE
        self._grant()

    def _watch(self) -> None:
        if self._deadline is None or self._deadline.done():
            self._deadline = asyncio.get_running_loop().create_task(self._refuse_the_late())

    def _watch_anew(self) -> None:
        """Replace the timer, because the new request must be refused earlier."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline, self._sleeps_until = None, -math.inf
        self._watch()

    async def _refuse_the_late(self) -> None:
        """Refuse waiting requests whose time is over."""
        while waiting := self._waiting():
            until = min(waiter.until for waiter in waiting)
            if until == math.inf:
                return
            self._sleeps_until = until
            await self._clock.pause(max(0.0, until - self._clock.monotonic()))
            self._sleeps_until = -math.inf
            now = self._clock.monotonic() + CLOCK_STEP_S
            for waiter in self._waiting():
                if waiter.until <= now and not waiter.granted.done():
                    waiter.granted.set_result(False)

    def _waiting(self) -> list[_Waiter]:
        lines = (*self._lines.values(), self._heavy, *(host.waiting for host in self._hosts.values()))
        return [waiter for line in lines for waiter in line if not waiter.granted.done()]
