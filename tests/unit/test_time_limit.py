"""What the service is too busy to see in time is not the receiver's failure."""

import asyncio

import pytest
from tagcast_aws.endpoints.time_limit import TimeLimit

from tests.fakes.virtual_time import VirtualTime


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_answer_that_came_while_the_loop_stood_still_is_heard(loop: VirtualTime) -> None:
    def stand_still() -> None:
        loop.seconds += 0.3

    loop.call_later(0.05, stand_still)
    async with TimeLimit(0.2):
        await asyncio.sleep(0.1)
        await turns(20)


async def test_a_silent_receiver_runs_into_the_timeout_at_its_instant(loop: VirtualTime) -> None:
    with pytest.raises(TimeoutError):
        async with TimeLimit(2):
            await asyncio.sleep(60)
    assert loop.seconds == pytest.approx(2)


async def test_even_a_loop_that_is_always_late_comes_to_an_end(loop: VirtualTime) -> None:
    def stand_still_again() -> None:
        loop.seconds += 0.5
        loop.call_later(0.01, stand_still_again)

    loop.call_later(0.01, stand_still_again)
    with pytest.raises(TimeoutError):
        async with TimeLimit(1):
            await asyncio.sleep(60)
    assert loop.seconds < 5
