"""An ordered subscription retries the first message until it expires: asked for through the API, kept by the core."""

from itertools import pairwise
from typing import Any

import pytest
from tagcast.model import EntryState, RetryPolicy, Strategy
from tagcast.subscription_settings import RETRIES_FOR_LIFE

from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.api.test_http_api import Client
from tests.unit.worlds import entry, lane_if_any

HOOK = {"endpoint": {"protocol": "http", "url": "http://a.test/"}}
GROUP: dict[str, Any] = {"endpoint": {"protocol": "pull"}}
SUBSCRIPTION = "/topics/orders/subscriptions/a"
FOR_LIFE = {"strategy": "BACKOFF_RETRY", "max_retries": "life", "max_interval_seconds": 512}
INDEPENDENT = {"strategy": "INDEPENDENT_RETRY", "max_retries": 176, "max_interval_seconds": 512}
DECAY = INDEPENDENT | {"strategy": "EXPONENTIAL_DECAY_RETRY"}
HOUR_MS = 3_600_000


def order_and_retries(answer: Any) -> tuple[bool, Any]:
    assert answer.status in (200, 201), answer.json
    return answer.json["ordered"], answer.json["retry"]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({}, (False, INDEPENDENT)),
        ({"ordered": False}, (False, INDEPENDENT)),
        ({"ordered": True}, (True, FOR_LIFE)),
        (GROUP | {"ordered": True}, (True, FOR_LIFE)),
        (GROUP, (False, INDEPENDENT)),
        ({"ordered": True, "retry": None}, (True, FOR_LIFE)),
        ({"retry": None}, (False, INDEPENDENT)),
        ({"retry": {"strategy": "BACKOFF_RETRY", "max_retries": "life"}}, (True, FOR_LIFE)),
        (
            {"ordered": True, "retry": FOR_LIFE | {"interval_seconds": 5, "max_interval_seconds": 60}},
            (True, FOR_LIFE | {"interval_seconds": 5, "max_interval_seconds": 60}),
        ),
        (
            {"ordered": True, "retry": {"strategy": "BACKOFF_RETRY"}},
            (True, {"strategy": "BACKOFF_RETRY", "max_retries": 3}),
        ),
    ],
)
def test_an_ordered_subscription_retries_until_expiry_unless_it_says_otherwise(
    api: Client, asked: dict[str, Any], shown: tuple[bool, Any]
) -> None:
    made = api("PUT", SUBSCRIPTION, HOOK | asked)

    assert order_and_retries(made) == shown
    again = {name: made.json[name] for name in ("endpoint", "ordered", "retry")}
    assert order_and_retries(api("PUT", SUBSCRIPTION, again)) == shown


@pytest.mark.parametrize(
    ("present", "patch", "shown"),
    [
        ({}, {"ordered": True}, (True, FOR_LIFE)),
        ({"ordered": True}, {"timeout_seconds": 5}, (True, FOR_LIFE)),
        ({"ordered": True}, {"retry": {"max_retries": 5}}, (True, {"strategy": "BACKOFF_RETRY", "max_retries": 5})),
        ({"ordered": True}, {"retry": None}, (True, FOR_LIFE)),
        ({"retry": {"strategy": "BACKOFF_RETRY", "max_retries": 5}}, {"retry": None}, (True, FOR_LIFE)),
        ({"retry": DECAY}, {"retry": None}, (False, INDEPENDENT)),
        ({"ordered": True}, {"ordered": False, "retry": None}, (False, INDEPENDENT)),
        ({"ordered": True}, {"ordered": None, "retry": None}, (False, INDEPENDENT)),
        ({"retry": DECAY}, {"ordered": True, "retry": None}, (True, FOR_LIFE)),
        (
            {"ordered": True},
            {"ordered": None, "retry": {"strategy": "BACKOFF_RETRY", "interval_seconds": 5}},
            (True, FOR_LIFE | {"interval_seconds": 5}),
        ),
        (
            {"ordered": True},
            {"ordered": False, "retry": {"strategy": "EXPONENTIAL_DECAY_RETRY", "max_retries": 9}},
            (False, DECAY | {"max_retries": 9}),
        ),
    ],
)
def test_a_patch_of_the_order_changes_how_a_subscription_retries(
    api: Client, present: dict[str, Any], patch: dict[str, Any], shown: tuple[bool, Any]
) -> None:
    api("PUT", SUBSCRIPTION, HOOK | present)

    assert order_and_retries(api("PATCH", SUBSCRIPTION, patch)) == shown


@pytest.mark.parametrize(("ordered", "last"), [(False, 17), (True, 30)])
def test_the_group_of_a_heartbeat_gives_up_after_rocketmqs_retries_and_an_ordered_one_never(
    api: Client, ordered: bool, last: int
) -> None:
    """RocketMQ retries 16 times, and without an end for a consumer that relies on an order."""
    api("PUT", f"{SUBSCRIPTION}/members/m", {"filter": None, "ordered": ordered})
    api("POST", "/topics/orders/messages", {"body": "poisonous"})
    api.fakes.deliver()
    attempts = []
    for _ in range(30):
        for message in api("POST", f"{SUBSCRIPTION}/pull", {"wait_seconds": 0}).json["messages"]:
            attempts.append(message["attempt"])
            api("POST", f"{SUBSCRIPTION}/nack", {"receipt_handles": [message["receipt_handle"]]})

    assert attempts == list(range(1, last + 1))


@pytest.mark.parametrize("ordered", [False, True])
def test_a_patch_ends_the_retries_for_life_of_a_group(api: Client, ordered: bool) -> None:
    group = {"endpoint": {"protocol": "pull"}, "ordered": ordered, "retry": FOR_LIFE}
    api("PUT", SUBSCRIPTION, group)

    changed = api("PATCH", SUBSCRIPTION, {"ordered": ordered, "retry": {"max_retries": 5}})

    assert order_and_retries(changed) == (ordered, {"strategy": "BACKOFF_RETRY", "max_retries": 5})


@pytest.mark.parametrize(
    "patch", [{"ordered": False}, {"ordered": None}, {"ordered": None, "retry": {"max_retries": 5}}]
)
def test_an_order_that_contradicts_the_strategy_is_refused_with_the_way_out(api: Client, patch: dict[str, Any]) -> None:
    api("PUT", SUBSCRIPTION, HOOK | {"ordered": True})

    refused = api("PATCH", SUBSCRIPTION, patch)

    assert refused.status == 422
    [fault] = refused.json["errors"]
    assert fault["pointer"] == "#/ordered"
    assert "The other strategies keep none" in fault["detail"]


def test_batches_to_a_fifo_queue_cannot_be_ordered(api: Client) -> None:
    fifo = {"protocol": "sqs", "arn": "arn:aws:sqs:eu-west-1:123456789012:q.fifo"}
    queue = {"endpoint": fifo, "batch": {"max_messages": 5}}

    assert api("PUT", SUBSCRIPTION, queue).status == 201
    assert api("PUT", SUBSCRIPTION, queue | {"ordered": True}).json["errors"][0]["pointer"] == "#/batch"


def ordered(fake: FakeWorld, longest_s: int = 512) -> None:
    fake.subscribe("A", retry=RetryPolicy(Strategy.BACKOFF_RETRY, RETRIES_FOR_LIFE, interval_s_max=longest_s))


def test_after_six_hours_of_outage_an_ordered_subscription_gets_everything_in_order(fake: FakeWorld) -> None:
    ordered(fake)
    back_at = fake.clock.instant + 6 * HOUR_MS
    fake.pusher.behaviours["A"] = lambda push: OK if fake.clock.instant >= back_at else FAIL
    bodies = [f"{number:02d}" for number in range(20)]

    fake.first_round(*bodies)
    fake.run_workflows(until=back_at + 600_000)

    assert fake.pusher.received["A"] == bodies
    assert lane_if_any(fake) is None


def test_the_waits_of_an_ordered_head_double_up_to_the_longest_and_end_with_its_life(fake: FakeWorld) -> None:
    ordered(fake, longest_s=60)
    tried: list[int] = []

    def refuse(push: Any) -> Any:
        if push.message.draft.body == b"1":
            tried.append(fake.clock.instant)
            return FAIL
        return OK

    fake.pusher.behaviours["A"] = refuse
    first, _ = fake.publish("1", "2")
    accepted_at = fake.clock.instant
    fake.deliver()

    fake.run_workflows(until=accepted_at + 2 * 24 * HOUR_MS)

    waits = [(later - earlier) / 1000 for earlier, later in pairwise(tried)]
    assert waits[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert max(waits) == 60
    assert entry(fake, first).state is EntryState.EXPIRED
    assert tried[-1] < accepted_at + 24 * HOUR_MS
    assert len(tried) > 1_400, "60 s apart for a day"
