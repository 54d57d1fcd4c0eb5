"""A thousand lanes with the same pending message, all receivers healthy again: workers in virtual time over its rows.

The table behaves as DynamoDB does where it matters here: a call takes milliseconds; a transaction holds its rows until
it is committed, and who comes between gets a conflict; a condition is judged when the transaction begins; one row gives
a thousand write units a second, of which a transactional write takes two for each KiB, whether it succeeds or not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ParamSpec, TypeVar

from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.errors import ConditionLostError, ContendedError
from tagcast.model import Outcome, Push, TopicSettings
from tagcast.ports import Key, Put, Table, World, Write
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry.subscriptions import delete_subscription
from tagcast.registry.topics import put_topic
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES, Lane
from tagcast.tables import Check
from tagcast_aws.store.conflicts import CONFLICTS_MAX, PAUSE_S

from tests.fakes.virtual_time import EPOCH, TimedStore, TimedWorld, VirtualTime
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FAIL, OK, OneByOne
from tests.item_size import row_size

BUDGET_S, PAUSE_AFTER_FAULT_S = 75.0, 30.0
READ_S, COMMIT_S, REFUSAL_S = (0.003, 0.008), (0.008, 0.016), 0.004
UNITS_PER_S = 1_000.0
SPREAD_S = 0.5
"""Within that all lanes wake."""

P = ParamSpec("P")
T = TypeVar("T")


class _ConflictError(ContendedError):
    """What the adapter tries again by itself before it tells the core."""


class HotStore(TimedStore):
    """Rows that are held by a transaction until it is committed, and messages whose row gives only so much."""

    def __init__(self, loop: VirtualTime, chance: Random) -> None:
        super().__init__(loop, 0.0)
        self.chance = chance
        self.held: set[Key] = set()
        self.tail_s = 0.0
        """How long the answer to the call just made takes from now on."""
        self.units, self.units_at = UNITS_PER_S, 0.0
        self.counts: Counter[str] = Counter()

    def adopt(self, other: TimedStore) -> None:
        self.rows = other.rows

    def write(self, write: Write) -> None:
        self._commit((write,), alone=True)

    def transact(self, writes: Sequence[Write]) -> None:
        self._commit(writes, alone=False)

    def _commit(self, writes: Sequence[Write], *, alone: bool) -> None:
        self.tail_s = REFUSAL_S
        self._take_units(writes)
        if any(write.key in self.held for write in writes):
            self.counts["conflicts"] += 1
            raise _ConflictError
        if not all(self._holds(write.key, write.expect) for write in writes):
            self.counts["conditions lost"] += 1
            raise ConditionLostError
        self.tail_s = self.chance.uniform(*COMMIT_S)
        if alone:
            self._end(writes)
            return
        self.held |= {write.key for write in writes}
        self.loop.call_later(self.tail_s, self._end, writes)

    def _end(self, writes: Sequence[Write]) -> None:
        self.held -= {write.key for write in writes}
        super().transact(writes)

    def _take_units(self, writes: Sequence[Write]) -> None:
        message = next((w for w in writes if w.key.pk.startswith("MSG#") and not isinstance(w, Check)), None)
        if message is None:
            return
        now = self.loop.seconds
        self.units = min(UNITS_PER_S, self.units + (now - self.units_at) * UNITS_PER_S)
        self.units_at = now
        written = message.row if isinstance(message, Put) else self.rows[message.key]
        units = 2 * -(-row_size(written) // 1024)
        if self.units < units:
            self.counts["throttled"] += 1
            raise ContendedError
        self.units -= units


@dataclass
class HotExecutor:
    """Calls of many processes, none of which waits for another's; conflicts are tried again as the adapter does."""

    store: HotStore

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        for conflict in range(1, CONFLICTS_MAX + 1):
            await asyncio.sleep(self.store.chance.uniform(*READ_S))
            self.store.tail_s = 0.0
            self.store.beside_the_loop = True
            try:
                result = call(*args, **kwargs)
            except _ConflictError:
                await asyncio.sleep(REFUSAL_S)
                if conflict == CONFLICTS_MAX:
                    raise
                await asyncio.sleep(self.store.chance.uniform(0.0, PAUSE_S * 4 ** (conflict - 1)))
                continue
            except ContendedError:
                await asyncio.sleep(REFUSAL_S)
                raise
            finally:
                self.store.beside_the_loop = False
            await asyncio.sleep(self.store.tail_s)
            return result
        raise AssertionError


@dataclass
class HerdDice:
    chance: Random

    def uniform(self, low: float, high: float) -> float:
        return self.chance.uniform(low, high)

    def unique_id(self, now: int) -> str:
        return f"{(now << 22) + self.chance.randrange(1 << 22):020d}"

    def secret(self) -> str:
        return f"{self.chance.getrandbits(128):032x}"


class Recovered(OneByOne):
    """Receivers that take 50 ms and are fine again."""

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()

    async def push(self, push: Push) -> Outcome:
        await asyncio.sleep(0.05)
        self.received[push.subscription.name] += 1
        return OK


@dataclass(frozen=True)
class Stampede:
    """What came of a herd: *seconds* from the first worker to the last end in the table."""

    seconds: float
    extra: int
    counts: Counter[str]


def stampede(lanes: int, body_bytes: int) -> Stampede:
    """Let *lanes* lanes fail at one message, heal their receivers, wake all workers at once and see them settle."""
    timed = TimedWorld(0.0)
    put_topic(timed.world, "test1", TopicSettings(body_bytes_max=262_144))
    names = [f"s{number}" for number in range(lanes)]
    timed.subscribe(*names, answers=(0.0, FAIL))
    letters = [chr(code) for code in range(33, 127)]  # Hardly anything deflates less.
    first = timed.first_round("".join(Random(1).choices(letters, k=body_bytes)))
    receivers = Recovered()
    store, world, woken = _hot(timed, lanes)
    world = replace(world, pusher=receivers)
    timed.loop.seconds = max(lane.next_attempt_at or 0 for lane in woken) / 1000 - EPOCH / 1000
    began_s = timed.loop.seconds

    async def everybody() -> None:
        await asyncio.gather(*(_execution(world, _task(lane), store.chance.uniform(0.0, SPREAD_S)) for lane in woken))

    timed.run(everybody())
    row = whole_message(store, "test1", first.ids[0])
    assert row is not None
    assert not row.map.pending
    assert {entry.state.value for entry in row.map.ended.values()} == {"delivered"}
    return Stampede(timed.loop.seconds - began_s, sum(receivers.received.values()) - lanes, store.counts)


def _hot(timed: TimedWorld, lanes: int) -> tuple[HotStore, World, list[Lane]]:
    """Return the rows of *timed* as a hot table, a world with it, and its lanes, of which there are so many."""
    store = HotStore(timed.loop, Random(1))
    store.adopt(timed.store)
    found = [LANES.value_of(row) for row in store.query(Table.MESSAGES, lane_key("test1", "").pk)]
    assert len(found) == lanes
    return store, replace(timed.world, store=store, executor=HotExecutor(store), dice=HerdDice(store.chance)), found


def _task(lane: Lane) -> Task:
    return Task("test1", lane.subscription_id, lane.generation)


@dataclass(frozen=True)
class Removal:
    """What came of the backlogs of removed subscriptions.

    *seconds* from the first worker to the last end, *worker_s* how long functions worked in all.
    """

    seconds: float
    worker_s: float
    attempts: int


def removal(lanes: int, messages: int, *, at_once: int) -> Removal:
    """Remove *lanes* subscriptions with so many pending messages each; so many workers end them at the same time."""
    timed = TimedWorld(0.0)
    names = [f"s{number}" for number in range(lanes)]
    timed.subscribe(*names, answers=(0.0, FAIL))
    first = timed.first_round(*(str(number) for number in range(messages)))
    for name in names:
        delete_subscription(timed.world, "test1", name)
    store, world, removed = _hot(timed, lanes)
    began_s, places, worker_s = timed.loop.seconds, asyncio.Semaphore(at_once), 0.0

    async def working(lane: Lane) -> None:
        nonlocal worker_s
        async with places:
            since = timed.loop.seconds
            await _execution(world, _task(lane), 0.0)
            worker_s += timed.loop.seconds - since

    async def everybody() -> None:
        await asyncio.gather(*map(working, removed))

    timed.run(everybody())
    rows = [row for each in first.ids if (row := whole_message(store, "test1", each)) is not None]
    assert not any(row.map.pending for row in rows)
    entries = [entry for row in rows for entry in row.map.ended.values()]
    assert {entry.state.value for entry in entries} == {"cancelled"}
    assert not any(key.pk.startswith("DUE#") for key in store.rows)
    return Removal(timed.loop.seconds - began_s, worker_s, sum(entry.attempts for entry in entries))


async def _execution(world: World, task: Task, wait_s: float) -> None:
    """Play the workflow of one lane, as functions/redelivery.asl.json has it."""
    while True:
        await asyncio.sleep(wait_s)
        try:
            async with PushSlots(world.clock) as slots:
                answer = await redeliver(world, task, BUDGET_S, slots)
        except ContendedError:
            wait_s = PAUSE_AFTER_FAULT_S
            continue
        if answer.wait_until is None:
            return
        task, wait_s = answer.task, max(0.0, (answer.wait_until - world.clock.now()) / 1000)
