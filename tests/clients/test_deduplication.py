"""Deduplication: a message is claimed, processed and confirmed, whatever dies in between, whichever store keeps it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Barrier, Thread
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tagcast_client import (
    AsyncDeduplicator,
    AsyncMemoryStore,
    Claim,
    Deduplicator,
    InProgressError,
    MemoryStore,
    Received,
    SeenStore,
)

from tests.clients.recipes import load_recipe

MESSAGE = Received("01787000000000000001", "orders", "billing", 1, b"")


@dataclass
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def table_store(clock: Clock) -> Any:
    client = boto3.client("dynamodb", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="s")
    client.create_table(
        TableName="seen",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
    )
    return load_recipe("dynamodb_store").TableStore(client, "seen", clock)


@pytest.fixture(params=["memory", "table"])
def store(request: pytest.FixtureRequest, clock: Clock) -> Iterator[SeenStore]:
    if request.param == "memory":
        yield MemoryStore(clock=clock)
        return
    with mock_aws():
        yield table_store(clock)


def is_processed(seen: Deduplicator, message: Received = MESSAGE) -> bool:
    with seen.once(message) as is_new:
        return is_new


def test_a_message_is_processed_once_and_again_if_that_failed(store: SeenStore) -> None:
    seen = Deduplicator(store)

    def fails() -> None:
        with seen.once(MESSAGE) as is_new:
            assert is_new
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk"):
        fails()
    assert [is_processed(seen) for _ in range(3)] == [True, False, False]
    assert is_processed(seen, replace(MESSAGE, subscription="other"))


def test_a_message_whose_process_died_is_new_when_the_claim_ends(store: SeenStore, clock: Clock) -> None:
    died = Deduplicator(store).once(MESSAGE)
    assert died.__enter__(), "and nothing more happens in this process"

    restarted = Deduplicator(store)
    clock.now += 29
    with pytest.raises(InProgressError) as told:
        is_processed(restarted)
    assert told.value.retry_after_s == 30
    clock.now += 1
    assert [is_processed(restarted) for _ in range(2)] == [True, False]
    died.__exit__(None, None, None)


def test_a_claim_lasts_its_lease_and_its_holder_has_it(store: SeenStore, clock: Clock) -> None:
    clock.now += 0.9
    assert store.claim("m", "own", 30) is Claim.NEW
    clock.now += 29.9
    assert store.claim("m", "other", 30) is Claim.IN_PROGRESS
    clock.now += 1.1
    assert store.claim("m", "other", 30) is Claim.NEW


def test_a_claim_that_the_sdk_sends_twice_is_its_own() -> None:
    with mock_aws():
        store = table_store(Clock())
        assert [store.claim("m", "own", 30) for _ in range(2)] == [Claim.NEW] * 2


def test_what_was_processed_is_remembered_for_a_day(store: SeenStore, clock: Clock) -> None:
    seen = Deduplicator(store)
    for waited_s, expected in ((0, True), (86_399, False), (1, True)):
        clock.now += waited_s
        assert is_processed(seen) is expected


def test_who_fails_after_its_lease_does_not_end_the_claim_of_another(store: SeenStore, clock: Clock) -> None:
    assert store.claim("m", "slow", 30) is Claim.NEW
    clock.now += 30
    assert store.claim("m", "quick", 30) is Claim.NEW
    store.release("m", "slow")
    assert store.claim("m", "third", 30) is Claim.IN_PROGRESS
    store.confirm("m", 60)
    store.release("m", "slow")
    store.release("m", "quick")
    assert store.claim("m", "third", 30) is Claim.DONE


def test_what_its_holder_gives_up_is_new(store: SeenStore) -> None:
    assert [store.claim("m", "one", 30), store.claim("m", "two", 30)] == [Claim.NEW, Claim.IN_PROGRESS]
    store.release("m", "one")
    assert store.claim("m", "two", 30) is Claim.NEW
    store.release("never claimed", "one")


def test_of_many_at_the_same_time_one_gets_the_message() -> None:
    store, found = MemoryStore(), []
    together = Barrier(8)

    def claim(place: int) -> None:
        together.wait()
        found.append(store.claim("m", str(place), 30))

    threads = [Thread(target=claim, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.value for each in found) == ["in_progress"] * 7 + ["new"]


def test_the_memory_is_bounded_and_what_was_renewed_last_is_not_the_oldest(clock: Clock) -> None:
    store = MemoryStore(size_max=2, clock=clock)
    assert [store.claim(name, "t", 10) for name in "ab"] == [Claim.NEW, Claim.NEW]
    clock.now += 10
    assert store.claim("a", "t", 10) is Claim.NEW, "its lease was over"
    assert store.claim("c", "t", 10) is Claim.NEW, "so that b is the oldest now"
    assert [store.claim(name, "t", 10) for name in "acb"] == [Claim.IN_PROGRESS, Claim.IN_PROGRESS, Claim.NEW]


async def test_the_asynchronous_deduplicator_does_the_same(clock: Clock) -> None:
    store = AsyncMemoryStore(clock=clock)
    seen = AsyncDeduplicator(store)

    async def processed() -> bool:
        async with seen.once(MESSAGE) as is_new:
            return is_new

    async def cancelled() -> None:
        async with seen.once(MESSAGE):
            await asyncio.sleep(60)

    working = asyncio.create_task(cancelled())
    await asyncio.sleep(0)
    with pytest.raises(InProgressError):
        await processed()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    died = seen.once(MESSAGE)
    assert await died.__aenter__()
    with pytest.raises(InProgressError):
        await processed()
    clock.now += 30
    assert [await processed() for _ in range(2)] == [True, False]
    await died.__aexit__(None, None, None)
