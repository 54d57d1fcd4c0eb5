"""Metrics by topic and subscription: only of topics that were named, and never more than was said."""

from __future__ import annotations

import pytest
from tagcast.operating import lanes
from tagcast_aws.runtime.telemetry import METERED_MAX, OTHERS, UNITS

from tests.cloudwatch.deployed import Deployed
from tests.fakes.world import FAIL, OK


def test_a_delivery_is_told_with_its_latency_and_its_attempts(deployed: Deployed) -> None:
    fakes = deployed.fakes
    fakes.topic()
    fakes.subscribe("A")
    fakes.pusher.behaviours["A"] = lambda push: OK if push.attempt == 3 else FAIL
    fakes.publish("1")
    deployed.pass_by(0.25)
    deployed.fan_out()
    for _ in range(2):
        lanes.retry_now(deployed.world, "test1", "A")
        deployed.pass_by(10)
        deployed.retry()

    of_a = {"topic": "test1", "subscription": "A"}
    assert deployed.values("DeliveryMs", **of_a) == [20_250]
    assert deployed.values("Attempts", **of_a) == [3]
    assert deployed.values("Delivered", **of_a) == deployed.values("Delivered") == [1]
    assert deployed.values("AttemptFailed", **of_a) == deployed.values("AttemptFailed") == [1, 1]
    assert deployed.values("FirstRoundMs") == [250]


def test_a_lane_that_is_not_active_tells_what_it_owes(deployed: Deployed) -> None:
    fakes = deployed.fakes
    fakes.topic()
    for name in ("A", "paused", "active"):
        fakes.subscribe(name)
    fakes.pusher.behaviours["A"] = lambda push: FAIL
    lanes.pause(deployed.world, "test1", "paused")
    fakes.publish("1", "2")
    deployed.pass_by(100)
    fakes.publish("3")
    deployed.fan_out()
    deployed.pass_by(86_400 - 3_600 - 50)

    deployed.sweep()

    for name in ("A", "paused"):
        told = {metric: deployed.values(metric, topic="test1", subscription=name) for metric in UNITS}
        assert (told["Backlog"], told["ExpiringWithinHour"]) == ([3], [2])
        assert told["OldestPendingSeconds"] == [86_400 - 3_600 + 50]
    assert deployed.values("Backlog", topic="test1", subscription="active") == []
    assert deployed.values("ExpiringWithinHour") == [2], "what somebody paused rings no alarm"


def test_a_batch_that_comes_again_tells_of_no_second_wait(deployed: Deployed) -> None:
    deployed.fakes.topic()
    deployed.fakes.subscribe("A")
    deployed.fakes.publish("1")
    again = list(deployed.fakes.queue.entries)
    deployed.fan_out()
    deployed.fakes.queue.entries = again
    deployed.fan_out()

    assert deployed.values("FirstRoundMs") == [0]


def test_what_the_sweep_ends_is_counted(deployed: Deployed) -> None:
    deployed.fakes.topic()
    deployed.fakes.subscribe("A")
    lanes.pause(deployed.world, "test1", "A")
    deployed.fakes.publish("1", "2")
    deployed.fan_out()
    deployed.pass_by(86_400)

    deployed.sweep()

    assert deployed.values("Expired") == [2]


def test_topics_that_were_not_named_have_no_metrics_of_their_own(deployed: Deployed) -> None:
    deployed.fakes.topic("other")
    deployed.fakes.subscribe("A", topic="other")
    deployed.fakes.pusher.behaviours["A"] = lambda push: FAIL
    deployed.fakes.publish("1", topic="other")
    deployed.fan_out()
    deployed.sweep()

    assert {each.dimensions for each in deployed.data} == {frozenset({("service", "tagcast")})}


def test_only_the_first_subscriptions_of_a_topic_have_metrics_of_their_own(deployed: Deployed) -> None:
    deployed.fakes.topic()
    for number in range(METERED_MAX + 2):
        deployed.fakes.subscribe(f"s{number}")
    deployed.fakes.publish("1")
    deployed.fan_out()

    told = [dict(each.dimensions) for each in deployed.data if each.name == "DeliveryMs"]
    named = [dimensions["subscription"] for dimensions in told]
    assert sorted(named) == sorted([*(f"s{number}" for number in range(METERED_MAX)), OTHERS, OTHERS])


@pytest.mark.parametrize("values", [1, 100, 250])
def test_a_line_holds_a_hundred_values_and_none_is_lost(deployed: Deployed, values: int) -> None:
    deployed.fakes.topic()
    deployed.fakes.subscribe("A")

    def tell(_: object) -> None:
        for number in range(values):
            deployed.world.telemetry.record_subscription("test1", 0, "A", {"Backlog": float(number)})

    deployed.fakes.pusher.before_push = tell
    deployed.fakes.publish("1")
    deployed.fan_out()

    assert deployed.values("Backlog", topic="test1", subscription="A") == [float(n) for n in range(values)]
