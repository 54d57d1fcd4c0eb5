"""Blocking calls beside the event loop: bounded, and none outlives the wait for it."""

import asyncio
import threading
import time

import pytest
from tagcast_aws.runtime.system import CALLS_MAX, ThreadExecutor


async def test_a_call_runs_beside_the_loop_and_its_result_comes_back() -> None:
    there = await ThreadExecutor().run(lambda: threading.current_thread().name)

    assert there != threading.current_thread().name
    assert there.startswith("aws")


async def test_what_a_call_raises_is_raised() -> None:
    def refuse() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await ThreadExecutor().run(refuse)


@pytest.mark.parametrize(("executor", "calls_max"), [(ThreadExecutor(2), 2), (ThreadExecutor(), CALLS_MAX)])
async def test_no_more_calls_than_allowed_are_under_way_and_as_many_are(
    executor: ThreadExecutor, calls_max: int
) -> None:
    lock, under_way, most = threading.Lock(), 0, 0
    full = threading.Barrier(calls_max)

    def call() -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        full.wait(10)
        with lock:
            under_way -= 1

    await asyncio.gather(*(executor.run(call) for _ in range(2 * calls_max)))

    assert most == calls_max


async def test_a_cancelled_wait_ends_after_the_call_that_has_begun() -> None:
    begun, done = threading.Event(), []

    def call() -> None:
        begun.set()
        time.sleep(0.1)
        done.append(True)

    wait = asyncio.ensure_future(ThreadExecutor().run(call))
    await asyncio.to_thread(begun.wait, 10)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert done == [True]


async def test_a_cancelled_wait_for_a_call_that_has_not_begun_ends_at_once_and_the_call_never_runs() -> None:
    release, ran = threading.Event(), []

    executor = ThreadExecutor(1)
    first = asyncio.ensure_future(executor.run(lambda: release.wait(10)))
    second = asyncio.ensure_future(executor.run(lambda: ran.append(True)))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    assert await first is True
    assert await executor.run(lambda: "later") == "later"

    assert ran == []
