"""What batches save an ordered subscriber that is 30 ms away: messages a second, and requests; a script.

Time is virtual (tests/fakes/virtual_time.py): a round trip takes 30 ms, a call of the table 5 ms, and what this
machine's processor does costs nothing. One group of the queue is served at a time, ten messages or a pack of a hundred.
"""

from dataclasses import dataclass

from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.model import Batching, Outcome
from tagcast.ports import World
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import stored

from tests.benchmarks.harness import print_heading
from tests.benchmarks.ratios import report
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import OK

RTT_S, CALL_S, MESSAGES = 0.03, 0.005, 1_000
BATCHED = Batching(100, 1024 * 1024)
SINGLY_MIN, BATCHED_MIN = 0.8 / RTT_S, 1_000
"""The budgets, in messages a second: singly in a first round that is all push, batched in packs of a hundred."""


@dataclass(frozen=True)
class Measured:
    """So many messages a second, of which pushes alone would allow *bound*, and requests for each message."""

    per_second: float
    bound: float
    requests: float


def first_rounds(size: int, batching: Batching | None) -> Measured:
    """Serve all messages in rounds of *size*, one after the other."""
    world = TimedWorld(CALL_S)
    world.subscribe("A", answers=(RTT_S, OK), batching=batching)
    seconds = 0.0
    for _ in range(MESSAGES // size):
        served = world.first_round(*("x" * 1_024 for _ in range(size)))
        assert not served.failures
        assert not served.backlog_of("A")
        seconds += served.took_s
    return _measured(world, seconds)


def backlog(batching: Batching | None) -> Measured:
    """Drain a backlog in which everything stands that was published while the receiver was away."""
    world = TimedWorld(CALL_S)
    world.subscribe("A", answers=(RTT_S, Outcome(False, "http 503")), batching=batching)
    for _ in range(MESSAGES // 10):
        world.first_round(*("x" * 1_024 for _ in range(10)))
    world.receivers.replies["A"] = (RTT_S, OK)
    owner = get_subscription(world.world, "test1", "A").subscription_id
    lane = stored.lane(world.store, "test1", owner)
    assert lane is not None
    task, world.receivers.requests = Task("test1", owner, lane.generation), 0
    world.loop.seconds += 3_600
    began = world.loop.seconds
    while stored.lane(world.store, "test1", owner) is not None:
        world.run(_redelivered(world.world, task))
    return _measured(world, world.loop.seconds - began)


async def _redelivered(world: World, task: Task) -> None:
    async with PushSlots(world.clock) as slots:
        await redeliver(world, task, 75.0, slots)


def _measured(world: TimedWorld, seconds: float) -> Measured:
    requests = world.receivers.requests
    return Measured(MESSAGES / seconds, MESSAGES / (requests * RTT_S), requests / MESSAGES)


def main() -> None:
    """Print the table; exit with a fault when a budget is not reached."""
    rows = {
        "first round, 10 a queue batch, singly": first_rounds(10, None),
        "first round, 10 a queue batch, batched": first_rounds(10, BATCHED),
        "first round, packs of 100, singly": first_rounds(50, None),
        "first round, packs of 100, batched": first_rounds(100, BATCHED),
        "backlog, singly": backlog(None),
        "backlog, batched": backlog(BATCHED),
    }
    print_heading("of 1,000 messages of 1 KiB, in order", "messages/s", "pushes alone", "requests per message")
    for name, found in rows.items():
        print(f"| {name} | {found.per_second:,.1f} | {found.bound:,.1f} | {found.requests:.2f} |")
    singly, batched = rows["first round, packs of 100, singly"], rows["first round, packs of 100, batched"]
    report("batched first rounds", batched.per_second / singly.per_second, "pushed singly")
    report(
        "a batched backlog", rows["backlog, batched"].per_second / rows["backlog, singly"].per_second, "pushed singly"
    )
    missed = singly.per_second < SINGLY_MIN or batched.per_second < BATCHED_MIN
    raise SystemExit("a budget is not reached" if missed else 0)


if __name__ == "__main__":
    main()
