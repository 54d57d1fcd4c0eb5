"""Slots of pushes one by one: how many there are, who gets the next one, and who is sent away."""

import asyncio

import pytest
from tagcast.model import Endpoint, Protocol
from tagcast.pushing.push_slots import HOSTS_MIN, SLOTS, Priority, PushSlots, Slot
from tagcast.rows.host import host_of

from tests.fakes.virtual_time import VirtualClock, VirtualTime
from tests.fakes.world import QuietTelemetry

FOREVER = float("inf")


async def take(slots: PushSlots, host: str, *, answered: bool, until: float) -> bool:
    priority = Priority.ANSWERED if answered else Priority.UNKNOWN
    return await slots.take(host, priority, until) is not None


def give_back(slots: PushSlots, host: str, *, well: bool) -> None:
    if well:
        slots.count_answer(host)
    slots.give_back(Slot(host, Priority.UNKNOWN))


async def granted(slots: PushSlots, host: str, *, answered: bool = False) -> bool:
    """Ask, and send whoever does not get a slot at once away."""
    return await take(slots, host, answered=answered, until=0.0)


async def test_a_host_holds_at_most_an_eighth_and_one_more_for_each_good_answer(loop: VirtualTime) -> None:
    async with PushSlots(VirtualClock(loop), 16) as slots:
        assert [await granted(slots, "h") for _ in range(3)] == [True, True, False]
        give_back(slots, "h", well=True)
        assert [await granted(slots, "h") for _ in range(3)] == [True, True, False]
        give_back(slots, "h", well=False)
        assert [await granted(slots, "h") for _ in range(2)] == [True, False]
        assert await granted(slots, "other")


@pytest.mark.parametrize(("total", "host_max"), [(SLOTS, SLOTS // HOSTS_MIN), (4, 1), (1, 1)])
async def test_the_share_of_a_host_is_at_least_one(loop: VirtualTime, total: int, host_max: int) -> None:
    async with PushSlots(VirtualClock(loop), total) as slots:
        taken = [await granted(slots, "h") for _ in range(host_max + 1)]
        assert taken == [True] * host_max + [False]


async def test_whoever_answered_well_comes_before_first_attempts_and_each_in_the_order_of_asking(
    loop: VirtualTime,
) -> None:
    order: list[str] = []

    async with PushSlots(VirtualClock(loop), 16) as slots:
        for number in range(16):
            assert await granted(slots, f"h{number}")

        async def asks(name: str, *, answered: bool) -> None:
            assert await take(slots, name, answered=answered, until=FOREVER)
            order.append(name)
            give_back(slots, name, well=True)

        tasks = [
            asyncio.ensure_future(asks(name, answered=answered))
            for name, answered in (("a", False), ("b", True), ("c", False), ("d", True))
        ]
        await asyncio.sleep(1)
        assert order == []
        give_back(slots, "h0", well=False)
        await asyncio.gather(*tasks)
    assert order == ["b", "d", "a", "c"]
    assert (slots.waited_ms, slots.refused) == (4_000, 0)


async def test_those_who_wait_for_a_host_keep_their_order_and_hold_up_nobody_else(loop: VirtualTime) -> None:
    order: list[str] = []

    async with PushSlots(VirtualClock(loop), 16) as slots:
        assert await granted(slots, "h")
        assert await granted(slots, "h")

        async def asks(name: str, host: str) -> None:
            assert await take(slots, host, answered=False, until=FOREVER)
            order.append(name)

        tasks = [asyncio.ensure_future(asks(name, "h")) for name in "abc"]
        tasks.append(asyncio.ensure_future(asks("other", "i")))
        await asyncio.sleep(1)
        assert order == ["other"]
        give_back(slots, "h", well=True)
        await asyncio.sleep(1)
        assert order == ["other", "a", "b"]
        give_back(slots, "h", well=False)
        await asyncio.gather(*tasks)
    assert order == ["other", "a", "b", "c"]


@pytest.mark.parametrize("untils", [(2.0, 3.5), (3.5, 2.0)])
@pytest.mark.parametrize("by_host", [False, True])
async def test_whoever_waits_is_sent_away_at_its_instant_and_counted(
    loop: VirtualTime, by_host: bool, untils: tuple[float, ...]
) -> None:
    async with PushSlots(VirtualClock(loop), 16) as slots:
        for number in range(2 if by_host else 16):
            assert await granted(slots, "h" if by_host else f"h{number}")
        tasks, ended = list[asyncio.Future[bool]](), list[float]()
        for until in untils:
            tasks.append(asyncio.ensure_future(take(slots, "h", answered=False, until=until)))
            tasks[-1].add_done_callback(lambda _: ended.append(loop.time()))
            await asyncio.sleep(0.5)
        assert await asyncio.gather(*tasks) == [False, False]
        await asyncio.sleep(0)
        assert ended == pytest.approx([2.0, 3.5])
    assert (slots.waited_ms, slots.refused) == (5_000, 2)


@pytest.mark.parametrize("is_granted", [True, False])
async def test_a_cancelled_wait_keeps_no_slot_that_it_was_granted_and_takes_none_later(
    loop: VirtualTime, is_granted: bool
) -> None:
    async with PushSlots(VirtualClock(loop), 16) as slots:
        for number in range(16):
            assert await granted(slots, f"h{number}")
        waits = asyncio.ensure_future(take(slots, "a", answered=False, until=FOREVER))
        await asyncio.sleep(0)
        if is_granted:
            give_back(slots, "h0", well=False)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        if not is_granted:
            give_back(slots, "h0", well=False)
        assert [await granted(slots, f"i{number}") for number in range(2)] == [True, False]
        for number in range(1, 6):
            give_back(slots, f"h{number}", well=False)
        assert [await granted(slots, "a") for _ in range(3)] == [True, True, False], "it was no good answer"


async def test_what_waiting_came_to_is_told_once_there_is_something_to_tell(loop: VirtualTime) -> None:
    async with PushSlots(VirtualClock(loop), 16) as slots:
        telemetry = QuietTelemetry()
        slots.record_waits(telemetry)
        assert dict(telemetry.counts) == {}
        slots.waited_ms, slots.refused = 12, 3
        slots.record_waits(telemetry)
        assert dict(telemetry.counts) == {"SlotWaitMs": 12, "PushesDeferred": 3}


@pytest.mark.parametrize(
    ("protocol", "target", "host"),
    [
        (Protocol.HTTP, "http://Example.com/hook?for=1", "http://example.com"),
        (Protocol.HTTPS, "https://example.com:8443/a", "https://example.com:8443"),
        (Protocol.SQS, "arn:aws:sqs:eu-west-1:123456789012:Q", "arn:aws:sqs:eu-west-1:123456789012:Q"),
        (Protocol.LAMBDA, "Decide", "Decide"),
    ],
)
def test_endpoints_that_share_their_fate_are_one_host(protocol: Protocol, target: str, host: str) -> None:
    assert host_of(Endpoint(protocol, target)) == host
