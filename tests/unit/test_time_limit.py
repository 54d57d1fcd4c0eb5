"""What the service is too busy to see in time is not the receiver's failure."""

import asyncio

import pytest
from tagcast_aws.endpoints.time_limit import TimeLimit

from tests.fakes.virtual_time import VirtualTime


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_answer_that_came_while_the_loop_stood_still_is_heard() -> None:
    loop = VirtualTime()

    def stand_still() -> None:
        loop.seconds += 0.3

    async def push() -> None:
        loop.call_later(0.05, stand_still)
        async with TimeLimit(0.2):
            await asyncio.sleep(0.1)
            await turns(20)

    loop.run_until_complete(push())


def test_a_silent_receiver_runs_into_the_timeout_at_its_instant() -> None:
    loop = VirtualTime()

    async def push() -> None:
        async with TimeLimit(2):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        loop.run_until_complete(push())
    assert loop.seconds == pytest.approx(2)


def test_even_a_loop_that_is_always_late_comes_to_an_end() -> None:
    loop = VirtualTime()

    def stand_still_again() -> None:
        loop.seconds += 0.5
        loop.call_later(0.01, stand_still_again)

    async def push() -> None:
        loop.call_later(0.01, stand_still_again)
        async with TimeLimit(1):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        loop.run_until_complete(push())
    assert loop.seconds < 5
