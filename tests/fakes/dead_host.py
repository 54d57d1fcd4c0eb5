"""Many lanes at one host that gives no answer for an hour, in virtual time; each invocation is another process."""

import asyncio
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.model import Outcome, Strategy
from tagcast.ports import Memory, Table, World
from tagcast.pushing.circuit import HostNews
from tagcast.pushing.push_slots import PushSlots
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES

from functions.fan_out.app import handle
from tests.fakes.queue_records import batch_of
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import OK, InlineExecutor

K = TypeVar("K")
UNREACHED = Outcome(False, "connection refused", unreached=True)
DECAY = Strategy.EXPONENTIAL_DECAY_RETRY
HOUR_S = 3_600.0
ANSWER_S = 0.1
BUDGET_S = 75.0


@dataclass
class RandomDice:
    chance: Random

    def uniform(self, low: float, high: float) -> float:
        return self.chance.uniform(low, high)

    def unique_id(self, now: int) -> str:
        return f"{(now << 22) + self.chance.randrange(1 << 22):020d}"

    def secret(self) -> str:
        return f"{self.chance.getrandbits(128):032x}"


class OtherProcess(Memory):
    """A process that has heard of no host."""

    def __init__(self, warm: Memory) -> None:
        super().__init__()
        self.warm = warm

    def of(self, kind: type[K]) -> K:
        return super().of(kind) if kind is HostNews else self.warm.of(kind)


@dataclass(frozen=True)
class Outage:
    """What came of it: when attempts began, in seconds since the host died, and how the lanes fared behind it.

    *first_round* is how many were made before any lane had failed, *recovered_s* after how many seconds with a host
    that answers the last lane had its message, *times* how often each lane got it.
    """

    first_round: int
    began_s: list[float]
    recovered_s: float
    times: list[int]
    beside: int
    """How often a healthy receiver got the message meanwhile."""


def outage(lanes: int) -> Outage:
    """Give *lanes* lanes of one host a pending message; the host gives no answer for an hour, and then does."""
    timed = TimedWorld(0.0)
    names = [f"D{place}" for place in range(lanes)]
    timed.subscribe(*names, host="dead", strategy=DECAY, max_retries=176, answers=(ANSWER_S, UNREACHED))
    timed.subscribe("W", host="well")
    timed.fake.publish("1")
    for entry in timed.fake.queue.entries:  # One for each section, if there are many.
        timed.run(handle(batch_of([entry]), timed.world))
    first = len(timed.receivers.started)
    beside = len(timed.receivers.pushes_of("W"))
    world = replace(timed.world, executor=InlineExecutor(), dice=RandomDice(Random(1)))
    owing = [LANES.value_of(row) for row in timed.store.query(Table.MESSAGES, lane_key("test1", "").pk)]
    timed.receivers.started.clear()

    async def story() -> tuple[float, float]:
        began_s = timed.loop.seconds
        tasks = [Task("test1", lane.subscription_id, lane.generation) for lane in owing]
        workers = [asyncio.create_task(execution(world, task)) for task in tasks]
        await asyncio.sleep(HOUR_S)
        timed.receivers.done_at_s.clear()
        timed.receivers.replies = dict.fromkeys(names, (ANSWER_S, OK))
        await asyncio.gather(*workers)
        return began_s, max(timed.receivers.done_at_s.values()) - began_s - HOUR_S

    began_s, recovered_s = timed.run(story())
    during = [each.at_s - began_s for each in timed.receivers.started if each.at_s < began_s + HOUR_S]
    got = [sum(1 for each in timed.receivers.pushes_of(name) if each.at_s >= began_s + HOUR_S) for name in names]
    return Outage(first - beside, during, recovered_s, got, beside)


async def execution(world: World, task: Task) -> None:
    """Play the workflow of one lane, each time in another process, until nothing is pending."""
    while True:
        async with PushSlots(world.clock) as slots:
            answer = await redeliver(replace(world, memory=OtherProcess(world.memory)), task, BUDGET_S, slots)
        if answer.wait_until is None:
            return
        task = answer.task
        await asyncio.sleep(max(0.0, (answer.wait_until - world.clock.now()) / 1000))
