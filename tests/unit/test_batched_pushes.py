"""Several messages in a request: what goes together, what counts as an attempt, what comes again."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.errors import ConditionLostError
from tagcast.model import Batching, EntryState, Outcome, PushBatch, Strategy
from tagcast.operating import lanes
from tagcast.ports import Write
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry import subscriptions
from tagcast.rows import stored

from tests.fakes.handlers import answered
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import FAIL, OK, FakeClock, FakeWorld
from tests.unit.worlds import entry

DECAY = Strategy.EXPONENTIAL_DECAY_RETRY
A = "/topics/test1/subscriptions/A"
URL = {"protocol": "https", "url": "https://a.test/"}
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:orders"


class SetForward(FakeClock):
    """A clock that somebody sets a day forward once it was read *readings* times."""

    readings = 1_000
    read = 0

    def now(self) -> int:
        self.readings -= 1
        self.instant += 86_400_000 if self.readings == 0 else 0
        self.read = super().now()
        return self.read


def fail(batch: PushBatch) -> Outcome:
    return FAIL


def take(batch: PushBatch) -> Outcome:
    return OK


def batched(
    fake: FakeWorld,
    answer: Callable[[PushBatch], Outcome] = take,
    messages_max: int = 100,
    bytes_max: int = 65_536,
    **settings: Any,
) -> None:
    """Subscribe a receiver of batches, which gives this answer."""
    fake.subscribe("A", batching=Batching(messages_max, bytes_max), **settings)
    fake.pusher.batch_behaviours["A"] = answer


def heal(fake: FakeWorld) -> None:
    """Let the receiver take everything, for a minute, and forget the requests before."""
    fake.pusher.batch_behaviours["A"] = take
    fake.pusher.batches.clear()
    fake.run_for(60)


def bodies(batch: PushBatch) -> list[str]:
    return [push.message.draft.body.decode() for push in batch.pushes]


def requests(fake: FakeWorld) -> list[list[str]]:
    return [bodies(batch) for batch in fake.pusher.batches]


def failing(*poison: str) -> Callable[[PushBatch], Outcome]:
    """Return a receiver that fails whatever holds a poisonous message, and does not say which it is."""
    return lambda batch: FAIL if set(poison) & set(bodies(batch)) else OK


def naming(*poison: str) -> Callable[[PushBatch], Outcome]:
    """Return a receiver that takes a request and names the poisonous messages in it."""
    return lambda batch: replace(
        OK,
        failed={
            push.message.message_id: "named" for push in batch.pushes if push.message.draft.body.decode() in poison
        },
    )


def test_what_was_published_singly_goes_together_in_its_order(fake: FakeWorld) -> None:
    batched(fake)
    ids = [fake.publish(str(number))[0] for number in range(10)]
    fake.deliver()

    assert requests(fake) == [[str(number) for number in range(10)]]
    shown = [entry(fake, message_id) for message_id in ids]
    assert {(each.state, each.attempts, each.last_attempt_at) for each in shown} == {
        (EntryState.DELIVERED, 1, shown[0].last_attempt_at)
    }


def test_a_request_keeps_both_bounds_and_a_message_that_exceeds_them_is_alone(fake: FakeWorld) -> None:
    batched(fake, messages_max=3, bytes_max=2_048)
    fake.first_round("1", "2", "3", "4", "x" * 4_000, "5", "y" * 700, "z" * 700)

    assert requests(fake) == [["1", "2", "3"], ["4"], ["x" * 4_000], ["5", "y" * 700], ["z" * 700]]


def test_the_bytes_of_a_request_are_those_of_all_its_messages(fake: FakeWorld) -> None:
    batched(fake, bytes_max=2_048)
    fake.publish(*"1234567")  # Each takes 540 bytes.
    fake.deliver()

    assert requests(fake) == [["1", "2", "3"], ["4", "5", "6"], ["7"]]


def test_each_request_has_an_id_of_its_own(fake: FakeWorld) -> None:
    batched(fake, messages_max=2)
    fake.first_round("1", "2", "3", "4")

    ids = [batch.batch_id for batch in fake.pusher.batches]
    assert len(set(ids)) == 2
    assert all(each.startswith("batch_") for each in ids)


def test_a_batch_that_fails_is_an_attempt_of_its_head_alone(fake: FakeWorld) -> None:
    batched(fake, fail)
    ids = fake.first_round("1", "2", "3")

    shown = [entry(fake, message_id) for message_id in ids]
    assert [(each.state, each.attempts) for each in shown] == [
        (EntryState.BLOCKED, 1),
        (EntryState.BLOCKED, 0),
        (EntryState.BLOCKED, 0),
    ]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_poisonous_message_takes_no_other_with_it(fake: FakeWorld, strategy: Strategy) -> None:
    batched(fake, failing("7"), strategy=strategy, max_retries=1)
    ids = fake.first_round(*map(str, range(10)))
    fake.run_for(3_600)

    ends = {str(number): entry(fake, message_id).state for number, message_id in enumerate(ids)}
    assert ends == {str(number): EntryState.DELIVERED for number in range(10)} | {"7": EntryState.DISCARDED}
    # Independent deliveries do not wait until it is alone for the first time.
    assert requests(fake).count(["7"]) == (2 if strategy is Strategy.INDEPENDENT_RETRY else 1)


def test_after_a_failure_the_head_is_alone_and_what_follows_doubles(fake: FakeWorld) -> None:
    batched(fake, fail)
    fake.first_round(*map(str, range(10)))
    heal(fake)

    assert [len(each) for each in requests(fake)] == [1, 2, 4, 3]
    assert fake.pusher.received["A"] == list(map(str, range(10)))


def test_in_order_all_behind_the_first_that_failed_comes_again(fake: FakeWorld) -> None:
    batched(fake, naming("1", "3"))
    ids = fake.first_round("0", "1", "2", "3", "4")

    assert [entry(fake, each).state for each in ids] == [EntryState.DELIVERED, *[EntryState.BLOCKED] * 4]
    assert [entry(fake, each).attempts for each in ids] == [1, 1, 0, 0, 0]
    heal(fake)

    assert requests(fake) == [["1"], ["2", "3"], ["4"]]


def test_without_order_only_what_failed_comes_again_and_each_alone(fake: FakeWorld) -> None:
    batched(fake, naming("1", "3"), strategy=DECAY)
    ids = fake.first_round("0", "1", "2", "3", "4")

    assert [entry(fake, each).state is EntryState.DELIVERED for each in ids] == [True, False, True, False, True]
    assert {entry(fake, each).attempts for each in ids} == {1}
    heal(fake)

    assert requests(fake) == [["1"], ["3"]]


def test_what_is_over_is_left_out_of_a_batch(fake: FakeWorld) -> None:
    fake.topic(retention_s=60)
    batched(fake)
    old = fake.publish("old")
    fake.clock.sleep(30)
    fake.publish("new", "newer")
    fake.clock.sleep(31)
    fake.deliver()

    assert requests(fake) == [["new", "newer"]]
    assert entry(fake, old[0]).state is EntryState.EXPIRED


def test_the_rate_counts_requests(fake: FakeWorld) -> None:
    batched(fake, messages_max=4, max_per_second=0.5)
    ids = fake.first_round(*map(str, range(10)))

    assert requests(fake) == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert {(entry(fake, each).attempts, entry(fake, each).last_outcome) for each in ids[8:]} == {(0, "rate")}


def test_a_filter_function_s_no_is_left_out_of_a_batch(fake: FakeWorld) -> None:
    batched(fake, filter={"kind": "function", "function": "decide"})
    fake.filter_functions.behaviours["A"] = lambda found: tuple(each.draft.body != b"1" for each in found)
    ids = fake.first_round("0", "1", "2")

    assert requests(fake) == [["0", "2"]]
    assert entry(fake, ids[1]).state is EntryState.FILTERED


def test_a_head_that_was_skipped_is_not_in_the_next_batch(fake: FakeWorld) -> None:
    batched(fake, fail)
    ids = fake.first_round("0", "1", "2")
    lanes.skip_head(fake.world, "test1", "A", "poison")
    heal(fake)

    assert requests(fake) == [["1"], ["2"]]
    assert entry(fake, ids[0]).state is EntryState.CANCELLED


def test_a_410_to_a_batch_suspends_and_leaves_all_of_it_owed(fake: FakeWorld) -> None:
    batched(fake, lambda batch: Outcome(False, "http 410", gone=True))
    ids = fake.first_round("0", "1")

    assert lanes.lane_view(fake.world, subscriptions.get_subscription(fake.world, "test1", "A")).state == "suspended"
    assert {entry(fake, each).state for each in ids} == {EntryState.BLOCKED}


def drained(*written: str, together: int = 100) -> tuple[FakeWorld, list[int], list[Any]]:
    """Let the receiver be away while these are published, and come back.

    Return the world, how many messages each transaction ended, none more than *together*, and the entries.
    """
    ended: list[int] = []

    def count(writes: Sequence[Write]) -> None:
        ends = sum(write.key.pk.startswith("MSG#") for write in writes)
        if ends > together:
            raise ConditionLostError
        ended.append(ends)

    fake = FakeWorld()
    fake.store.before_transact = count
    fake.topic()
    batched(fake, fail, bytes_max=1024 * 1024)
    ids = fake.first_round(*written)
    ended.clear()
    heal(fake)
    return fake, ended, [entry(fake, each) for each in ids]


def test_the_ends_of_a_batch_are_written_together() -> None:
    _, ended, ends = drained(*map(str, range(100)))

    assert {each.state for each in ends} == {EntryState.DELIVERED}
    assert [count for count in ended if count] == [1, 2, 4, 8, 16, 32, 33, 4]


def test_a_transaction_takes_no_more_than_dynamodb_does() -> None:
    _, ended, _ = drained(*(f"{place:65536}" for place in range(90)))

    assert max(ended) == 2 * 1024 * 1024 // 65_536


def test_where_others_write_the_same_messages_each_end_is_written_alone() -> None:
    fake, _, ends = drained(*map(str, range(20)), together=1)

    assert {(each.state, each.attempts) for each in ends[1:]} == {(EntryState.DELIVERED, 1)}
    assert fake.pusher.received["A"] == list(map(str, range(20)))
    assert fake.telemetry.counts["OutcomesLost"] == 0


def put(fake: FakeWorld, **body: object) -> Any:
    return answered(fake.world, "PUT", A, json.dumps(body))


def test_batches_are_stored_and_shown(fake: FakeWorld) -> None:
    assert put(fake, endpoint=URL, batch={"max_messages": 100, "max_bytes": 1_048_576})["statusCode"] == 201
    assert json.loads(answered(fake.world, "GET", A)["body"])["batch"] == {"max_messages": 100, "max_bytes": 1_048_576}
    put(fake, endpoint={"protocol": "sqs", "arn": QUEUE}, batch={"max_messages": 10}, content_format="simplified")
    assert json.loads(answered(fake.world, "GET", A)["body"])["batch"] == {"max_messages": 10, "max_bytes": 262_144}


def test_a_batch_with_a_null_content_format_gets_the_default_format(fake: FakeWorld) -> None:
    assert put(fake, endpoint=URL, batch={"max_messages": 2}, content_format=None)["statusCode"] == 201


@pytest.mark.parametrize(
    ("pointer", "body"),
    [
        ("#/batch/max_messages", {"batch": {"max_bytes": 4_096}}),
        ("#/batch/max_bytes", {"batch": {"max_messages": 2, "max_bytes": 1_048_577}}),
        ("#/content_format", {"batch": {"max_messages": 2}, "content_format": "simplified"}),
        ("#/content_format", {"batch": {"max_messages": 2}, "content_format": "cmq_json"}),
        ("#/retry/max_retries", {"batch": {"max_messages": 2}, "retry": {"max_retries": 0}}),
        ("#/batch", {"batch": {"max_messages": 2}, "endpoint": {"protocol": "pull"}}),
        (
            "#/batch",
            {
                "batch": {"max_messages": 2},
                "endpoint": {"protocol": "sqs", "arn": f"{QUEUE}.fifo"},
                "retry": {"strategy": "BACKOFF_RETRY"},
            },
        ),
    ],
)
def test_batches_that_could_not_be_kept_are_refused(fake: FakeWorld, pointer: str, body: dict[str, object]) -> None:
    refused = put(fake, **{"endpoint": URL} | body)

    assert refused["statusCode"] == 422
    assert [each["pointer"] for each in json.loads(refused["body"])["errors"]] == [pointer]


@pytest.mark.parametrize("readings", range(1, 12))
def test_no_batch_begins_after_a_look_at_the_clock_that_finds_it_over(fake: FakeWorld, readings: int) -> None:
    clock = SetForward(fake.clock.instant)
    begun: list[int] = []

    def begin(batch: PushBatch) -> Outcome:
        begun.append(clock.read - min(push.message.expires_at for push in batch.pushes))
        return OK

    batched(fake, begin)
    ids = fake.publish("1", "2")
    fake.world = replace(fake.world, clock=clock)
    clock.readings = readings
    fake.fan_out("test1", ids)

    assert all(late < 0 for late in begun)
    assert {entry(fake, each).state for each in ids} <= {EntryState.DELIVERED, EntryState.EXPIRED}


RTT_S, CALL_S, MESSAGES = 0.03, 0.005, 500


def first_rounds(size: int, batching: Batching | None) -> float:
    """Return how many messages a second are served in rounds of *size*, one after the other."""
    world = TimedWorld(CALL_S)
    world.subscribe("A", answers=(RTT_S, OK), batching=batching)
    seconds = 0.0
    for _ in range(MESSAGES // size):
        served = world.first_round(*("x" * 1_024 for _ in range(size)))
        assert not served.failures
        assert not served.backlog_of("A")
        seconds += served.took_s
    return MESSAGES / seconds


def backlog(batching: Batching | None) -> float:
    """Return how many messages a second leave a backlog, in which all were published while the receiver was away."""
    world = TimedWorld(CALL_S)
    world.subscribe("A", answers=(RTT_S, Outcome(False, "http 503")), batching=batching)
    for _ in range(MESSAGES // 10):
        world.first_round(*("x" * 1_024 for _ in range(10)))
    world.receivers.replies["A"] = (RTT_S, OK)
    owner = subscriptions.get_subscription(world.world, "test1", "A").subscription_id
    lane = stored.lane(world.store, "test1", owner)
    assert lane is not None
    world.loop.seconds += 3_600
    began = world.loop.seconds

    async def redelivered() -> None:
        async with PushSlots(world.world.clock) as slots:
            await redeliver(world.world, Task("test1", owner, lane.generation), 75.0, slots)

    while stored.lane(world.store, "test1", owner) is not None:
        world.run(redelivered())
    return MESSAGES / (world.loop.seconds - began)


def test_a_receiver_in_order_that_is_30_ms_away_takes_a_thousand_messages_a_second_in_batches() -> None:
    """A call of the table takes 5 ms, and computing nothing: time is virtual."""
    batches = Batching(100, 1024 * 1024)
    singly, together = first_rounds(50, None), first_rounds(100, batches)

    assert singly >= 0.8 / RTT_S, "a first round is all push"
    assert together >= 1_000
    assert together / singly > 33.7
    assert backlog(batches) / backlog(None) > 35
