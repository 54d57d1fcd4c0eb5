"""Memory of pushes under way: shared once, bounded, and no receiver's failure."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tagcast.model import ContentFormat, Draft, Endpoint, Message, Protocol, Subscription
from tagcast.pushing.push_slots import BYTES_MAX, COPIES, BytesInFlight, Load, Priority, PushSlots

from tests.fakes.virtual_time import TimedWorld, VirtualClock, VirtualTime
from tests.fakes.world import OK
from tests.unit.test_envelope import push_of

SUBSCRIPTION = push_of().subscription

CONTROLS = Draft(b"\x01" * 64 * 1024)
HANGING = (1e9, OK)


def test_all_http_pushes_of_a_message_in_one_format_count_once() -> None:
    counted = BytesInFlight()
    message = push_of(draft=CONTROLS).message
    others = [replace(SUBSCRIPTION, ordinal=ordinal) for ordinal in range(100)]
    loads = [counted.load_of(each, message) for each in others]
    assert len(set(loads)) == 1
    assert loads[0].size == pytest.approx(6 * 64 * 1024, rel=0.01)
    bare = replace(SUBSCRIPTION, settings=replace(SUBSCRIPTION.settings, content_format=ContentFormat.SIMPLIFIED))
    assert counted.load_of(bare, message).size == 64 * 1024


def test_each_call_of_the_sdk_counts_with_its_copies() -> None:
    counted = BytesInFlight()
    message = push_of(draft=CONTROLS).message
    functions = [
        replace(SUBSCRIPTION, ordinal=ordinal, settings=replace(SUBSCRIPTION.settings, endpoint=endpoint))
        for ordinal, endpoint in enumerate((Endpoint(Protocol.LAMBDA, "f0"), Endpoint(Protocol.LAMBDA, "f1")))
    ]
    one, other = (counted.load_of(each, message) for each in functions)
    assert one != other
    assert one.size == COPIES * counted.load_of(SUBSCRIPTION, message).size


def test_what_does_not_fit_waits_and_what_is_too_large_goes_alone() -> None:
    counted = BytesInFlight(100)
    a, b, huge = Load(("a",), 60), Load(("b",), 60), Load(("huge",), 1_000)
    counted.add((a,))
    assert counted.fits((a,))
    assert not counted.fits((b,))
    counted.add((a,))
    assert not counted.remove((a,))
    assert not counted.fits((b,))
    assert counted.remove((a,))
    assert counted.fits((huge,))
    counted.add((huge,))
    assert not counted.fits((b,))


async def test_a_place_is_handed_on_only_to_what_fits_into_memory(loop: VirtualTime) -> None:
    message = push_of(draft=CONTROLS).message
    first, second = ([(SUBSCRIPTION, replace(message, message_id=each))] for each in "12")

    async with PushSlots(VirtualClock(loop), bytes_max=9 * len(CONTROLS.body)) as slots:
        place = await slots.take("a", Priority.UNKNOWN, 0.0)
        large = await slots.take("b", Priority.UNKNOWN, 0.0, first)
        assert place is not None
        assert large is not None
        assert await slots.take("a", Priority.UNKNOWN, 0.0, second, place) is None
        assert await slots.take("b", Priority.UNKNOWN, 0.0, second, large) is not None


def test_events_of_filter_functions_are_as_many_at_once_as_memory_allows() -> None:
    world = TimedWorld()
    at_once, most = 0, 0

    class Slow:
        async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...]:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once -= 1
            return (True,) * len(messages)

    world.world = world.fake.world = replace(world.world, filter_functions=Slow())
    for n in range(20):
        world.subscribe(f"judged{n}", filter={"kind": "function", "function": f"judge{n}"})

    world.first_round(*(CONTROLS.body.decode() for _ in range(10)))

    assert most == BYTES_MAX // (10 * COPIES * 6 * 64 * 1024)


def test_hanging_functions_with_large_bodies_are_tried_as_far_as_memory_goes_and_small_ones_pass_them() -> None:
    world = TimedWorld()
    world.subscribe(*(f"large{n}" for n in range(90)), protocol=Protocol.LAMBDA, timeout_s=10, answers=HANGING)
    world.subscribe("healthy", answers=(0.05, OK))

    round_ = world.first_round(*(CONTROLS.body.decode() for _ in range(10)))

    most = BYTES_MAX // (COPIES * 6 * 64 * 1024)
    assert most - 3 <= world.receivers.most[""] - 1 <= most
    assert round_.backlog_of("healthy") == []
    never_tried = [f"large{n}" for n in range(90) if not world.receivers.pushes_of(f"large{n}")]
    assert len(never_tried) >= 90 - most
    assert {due.attempts for name in never_tried for due in round_.backlog_of(name)} == {0}
    assert world.fake.telemetry.counts["PushesDeferred"] == len(never_tried)
