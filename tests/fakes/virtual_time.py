"""A world in virtual time: receivers and calls of the store take seconds, and none of them is waited for.

A call of the store on the event loop holds everything up, as boto3 does; beside the loop it takes one of a bounded
number of places.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from tagcast.model import (
    Batching,
    Endpoint,
    Outcome,
    Protocol,
    Push,
    PushBatch,
    RetryPolicy,
    Strategy,
    Subscription,
)
from tagcast.ports import Key, Row, Table, Write
from tagcast.registry.subscriptions import get_subscription, put_subscription
from tagcast.rows.due import DUES, PendingDelivery
from tagcast.rows.keys import due_key
from tagcast.rows.message import MessageRow

from functions.fan_out.app import handle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.queue_records import in_one_order
from tests.fakes.settings import settings_for
from tests.fakes.whole_message import whole_message
from tests.fakes.world import OK, FakeWorld

P = ParamSpec("P")
T = TypeVar("T")
EPOCH = 1_800_000_000_000


class VirtualTime(asyncio.BaseEventLoop):
    """An event loop that goes to the next timer at once."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self.seconds = 0.0

    def time(self) -> float:
        return self.seconds

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "everything waits, and for nothing"
        self.seconds += max(0.0, timeout)
        return []

    def _process_events(self, event_list: Any) -> None:
        pass


@dataclass
class VirtualClock:
    loop: VirtualTime

    def now(self) -> int:
        return EPOCH + round(self.loop.seconds * 1000)

    def monotonic(self) -> float:
        return self.loop.seconds

    def sleep(self, seconds: float) -> None:
        self.loop.seconds += seconds

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class VirtualExecutor:
    """So many calls at a time, each as long as one call of the store."""

    store: TimedStore
    calls_max: int = 32

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.calls_max)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._places:
            await asyncio.sleep(self.store.call_s)
            self.store.beside_the_loop = True
            try:
                return call(*args, **kwargs)
            finally:
                self.store.beside_the_loop = False


class TimedStore(MemoryStore):
    """A table whose calls take virtual time: beside the loop that of the executor, else that of everybody."""

    def __init__(self, loop: VirtualTime, call_s: float) -> None:
        super().__init__()
        self.loop = loop
        self.call_s = call_s
        self.beside_the_loop = False

    def _spend(self) -> None:
        if not self.beside_the_loop:
            self.loop.seconds += self.call_s

    def get(self, key: Key) -> Row | None:
        self._spend()
        return super().get(key)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        self._spend()
        return super().get_many(keys)

    def query(self, table: Table, pk: str, **bounds: Any) -> list[Row]:
        self._spend()
        return super().query(table, pk, **bounds)

    def transact(self, writes: Sequence[Write]) -> None:
        self._spend()
        super().transact(writes)


@dataclass(frozen=True)
class Started:
    """A push as its receiver saw it."""

    name: str
    body: str
    at_s: float
    attempt: int


class VirtualReceivers:
    """Receivers by subscription name: after how many seconds they answer, and what; the others answer well at once."""

    def __init__(self, loop: VirtualTime) -> None:
        self.loop = loop
        self.replies: dict[str, tuple[float, Outcome]] = {}
        self.work_s = 0.0
        """What the processor does for a push when it starts; meanwhile the loop does nothing else."""
        self.started: list[Started] = []
        self.requests = 0
        self.under_way: dict[str, int] = defaultdict(int)
        self.most: dict[str, int] = defaultdict(int)
        self.done_at_s: dict[str, float] = {}

    async def push(self, push: Push) -> Outcome:
        return await self._answer(push.subscription, (push,))

    async def push_batch(self, batch: PushBatch) -> Outcome:
        return await self._answer(batch.subscription, batch.pushes)

    async def _answer(self, subscription: Subscription, pushes: Sequence[Push]) -> Outcome:
        name = subscription.name
        self.requests += 1
        self.loop.seconds += self.work_s
        for push in pushes:
            self.started.append(Started(name, push.message.draft.body.decode(), self.loop.seconds, push.attempt))
        seconds, outcome = self.replies.get(name, (0.0, OK))
        host = subscription.settings.endpoint.target
        for counted in (host, ""):
            self.under_way[counted] += 1
            self.most[counted] = max(self.most[counted], self.under_way[counted])
        try:
            if seconds >= subscription.settings.timeout_s:
                await asyncio.sleep(subscription.settings.timeout_s)
                return Outcome(False, "timeout")
            await asyncio.sleep(seconds)
            self.done_at_s[name] = self.loop.seconds
            return outcome
        finally:
            for counted in (host, ""):
                self.under_way[counted] -= 1

    def pushes_of(self, name: str) -> list[Started]:
        return [started for started in self.started if started.name == name]


@dataclass(frozen=True)
class Round:
    """What came of one batch, all instants counted from its beginning."""

    world: TimedWorld
    ids: list[str]
    began_s: float
    took_s: float
    failures: list[dict[str, str]]

    def done_at_s(self, name: str) -> float:
        return self.world.receivers.done_at_s[name] - self.began_s

    def backlog_of(self, name: str) -> list[PendingDelivery]:
        subscription = get_subscription(self.world.world, "test1", name)
        pk = due_key(subscription.subscription_id, "", "").pk
        return [DUES.value_of(row) for row in self.world.store.query(Table.MESSAGES, pk)]

    def row(self, place: int) -> MessageRow:
        row = whole_message(self.world.store, "test1", self.ids[place])
        assert row is not None
        return row


class TimedWorld:
    """The fakes of :class:`FakeWorld` in virtual time."""

    def __init__(self, call_s: float = 0.005) -> None:
        self.loop = VirtualTime()
        self.store = TimedStore(self.loop, call_s)
        self.receivers = VirtualReceivers(self.loop)
        self.fake = FakeWorld(store=self.store)
        self.clock = VirtualClock(self.loop)
        self.starts: list[tuple[str, float]] = []
        self.world = self.fake.world = replace(
            self.fake.world,
            clock=self.clock,
            pusher=self.receivers,
            executor=VirtualExecutor(self.store),
            workflow=self,
        )
        self.fake.topic()

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        self.starts.append((subscription_id, self.loop.seconds))
        return True

    def subscribe(
        self,
        *names: str,
        host: str = "",
        protocol: Protocol = Protocol.HTTP,
        timeout_s: int = 15,
        strategy: Strategy = Strategy.BACKOFF_RETRY,
        answers: tuple[float, Outcome] = (0.0, OK),
        filter: dict[str, object] | None = None,
        max_retries: int = 3,
        batching: Batching | None = None,
    ) -> None:
        """Subscribe all *names*, each at a host of its own unless one is given, with what they *answer*."""
        for name in names:
            endpoint = Endpoint(protocol, f"http://{host or name}.test/" if protocol is Protocol.HTTP else name)
            retry = RetryPolicy(strategy, max_retries)
            settings = settings_for(endpoint, retry, filter=filter, timeout_s=timeout_s, batching=batching)
            put_subscription(self.world, "test1", name, settings)
            self.receivers.replies[name] = answers

    def first_round(self, *bodies: str) -> Round:
        """Publish and let fan-out serve that one batch; return what came of it."""
        return self.round_of(self.fake.publish(*bodies))

    def round_of(self, ids: list[str]) -> Round:
        """Let fan-out serve these messages as one batch; return what came of it."""
        began_s = self.loop.seconds
        self.receivers.started.clear()
        answer = self.run(handle(in_one_order(ids), self.world))
        return Round(self, ids, began_s, self.loop.seconds - began_s, answer["batchItemFailures"])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* and return what it returns; see that it left nothing behind."""
        asyncio.set_event_loop(self.loop)
        try:
            result = self.loop.run_until_complete(work)
            left = asyncio.all_tasks(self.loop)
            assert not left, left
            return result
        finally:
            asyncio.set_event_loop(None)
