"""Many lanes whose heads are the same message: no end waits for another, and no push is repeated."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace

from tagcast.delivery.lease import Task
from tagcast.model import Entry, EntryState
from tagcast.ports import Key, Row, Table, Write
from tagcast.registry.subscriptions import delete_subscription
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES

from tests.fakes.dead_host import execution
from tests.fakes.virtual_time import TimedWorld, VirtualExecutor
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FAIL, OK

CALL_S, PUSH_S = 0.012, 0.05
WORKER: ContextVar[str] = ContextVar("WORKER")


def failed(lanes: int, *bodies: str) -> TimedWorld:
    """Let so many lanes fail at these messages; calls of one worker take no time from another's."""
    timed = TimedWorld(CALL_S)
    timed.subscribe(*(f"s{number}" for number in range(lanes)), answers=(0.0, FAIL))
    timed.first_round(*bodies)
    timed.world = replace(timed.world, executor=VirtualExecutor(timed.store, calls_max=lanes))
    return timed


def ends(timed: TimedWorld, row: Row) -> Iterable[Entry]:
    read = whole_message(timed.store, "test1", str(row["message_id"]))
    assert read is not None
    return read.map.ended.values()


def worked_s(timed: TimedWorld) -> list[float]:
    """Wake all lanes at the same time; return how long each worked until nothing was pending."""

    async def working(task: Task) -> float:
        WORKER.set(task.subscription_id)
        await execution(timed.world, task)
        return timed.loop.seconds - began_s

    async def everybody() -> list[float]:
        return await asyncio.gather(*map(working, tasks))

    lanes = [LANES.value_of(row) for row in timed.store.query(Table.MESSAGES, lane_key("test1", "").pk)]
    tasks = [Task("test1", each.subscription_id, each.generation) for each in lanes]
    timed.loop.seconds += 600
    began_s = timed.loop.seconds
    return timed.run(everybody())


def test_the_ends_of_lanes_that_wake_together_meet_in_no_row() -> None:
    timed = failed(60, "1")
    timed.receivers.replies = dict.fromkeys(timed.receivers.replies, (PUSH_S, OK))
    timed.receivers.started.clear()
    workers = defaultdict[Key, set[str]](set)

    def note(writes: Sequence[Write]) -> None:
        for write in writes:
            workers[write.key].add(WORKER.get())

    timed.store.before_transact = note
    took_s = worked_s(timed)

    assert set(Counter(push.name for push in timed.receivers.started).values()) == {1}
    assert {key for key, several in workers.items() if len(several) > 1} == set()
    assert len([key for key in workers if key.sk.startswith("END#")]) == 60
    assert not [key for key in workers if key.sk == "MSG"], "each of its writes costs its whole size"
    assert max(took_s) < PUSH_S + 20 * CALL_S


def test_what_removed_subscriptions_owe_ends_many_at_once() -> None:
    timed = failed(30, *map(str, range(60)))
    for name in timed.receivers.replies:
        delete_subscription(timed.world, "test1", name)

    took_s = worked_s(timed)

    entries = [entry for key, row in timed.store.rows.items() if key.sk == "MSG" for entry in ends(timed, row)]
    assert Counter(entry.state for entry in entries) == {EntryState.CANCELLED: 30 * 60}
    assert sum(entry.attempts for entry in entries) == 30, "what was attempted before is told"
    assert not [key for key in timed.store.rows if key.pk.startswith("DUE#")]
    assert max(took_s) < 20 * CALL_S
