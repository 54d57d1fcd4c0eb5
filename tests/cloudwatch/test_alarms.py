"""Each alarm of the template, evaluated as CloudWatch does it: once to ALARM and once to OK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tagcast.model import Ordering

from local.rules.needs import Account
from local.template.intrinsics import Resolver
from tests.aws.deployment import Deployment
from tests.aws.environments import Invocation
from tests.aws.lambdas import Weather
from tests.aws.stack import translated
from tests.aws.timeline import Timeline
from tests.cloudwatch.alarms import Datum, state
from tests.cloudwatch.deployed import Deployed
from tests.fakes.queue_records import batch_of
from tests.fakes.world import FAIL

TEMPLATE = translated()
ALARMS = dict(Resolver(TEMPLATE, Account("123456789012", "us-east-1")).of_type("AWS::CloudWatch::Alarm"))
OWN = {name for name, alarm in ALARMS.items() if alarm["Namespace"] == "tagcast"}
HOUR_S = 3_600
CALM_AND_BAD = {
    "Errors": (0, 1),
    "Throttles": (0, 1),
    "Invocations": (1, 0),
    "ExecutionsFailed": (0, 1),
    "ApproximateNumberOfMessagesVisible": (0, 1),
    "ApproximateAgeOfOldestMessage": (119, 121),
    ("RelayFunction", "IteratorAge"): (299_000, 301_000),
    ("ArchiveFunction", "IteratorAge"): (3_599_000, 3_601_000),
    "DeliveryToS3.DataFreshness": (3_599, 3_601),
}
"""Values of AWS's own metrics that are as they should be, and that somebody has to be called for."""


def blocked_for(world: Deployed, seconds: int) -> None:
    """A subscriber that fails, and a sweep so much later."""
    world.fakes.topic()
    world.fakes.subscribe("A")
    world.fakes.pusher.behaviours["A"] = lambda _: FAIL
    world.fakes.publish("1")
    world.fan_out()
    world.pass_by(seconds)
    world.sweep()
    world.pass_by(300)


def waiting(world: Deployed, *waits_s: int) -> None:
    """Half an hour in whose periods messages wait so long for their first round."""
    world.fakes.topic(ordering=Ordering.NONE)
    world.fakes.subscribe("A")
    for wait_s in waits_s:
        world.fakes.publish("1")
        world.pass_by(wait_s)
        world.fan_out()
        world.pass_by(300 - wait_s)


def sweeps(world: Deployed, *are_broken: bool) -> None:
    """A quarter of an hour with three sweeps, of which some cannot read a part of the lanes."""
    whole = world.fakes.store.lanes_to_wake

    def broken(shard: int, *given: Any, **more: Any) -> Any:
        raise TimeoutError

    for is_broken in are_broken:
        world.fakes.store.lanes_to_wake = broken if is_broken else whole  # type: ignore[method-assign]
        world.sweep()
        world.pass_by(300)


def queued(world: Deployed, text: str | None) -> None:
    """Ten minutes in which a message had its first round beside an entry of this *text*, if any."""
    world.fakes.topic()
    world.fakes.subscribe("A")
    world.fakes.publish("1")
    event = batch_of(world.fakes.queue.entries)
    if text is not None:
        event["Records"].append({**event["Records"][0], "messageId": "odd", "body": text})
    world.pass_by(300)
    world.fan_out_of(event)
    world.pass_by(300)


Story = Callable[[Deployed], None]
STORIES: dict[str, tuple[Story, Story]] = {
    "OldestBlockedHead": (lambda w: blocked_for(w, HOUR_S - 60), lambda w: blocked_for(w, HOUR_S + 60)),
    "ExpiringSoon": (lambda w: blocked_for(w, 23 * HOUR_S - 60), lambda w: blocked_for(w, 23 * HOUR_S + 60)),
    "LatencyObjective": (lambda w: waiting(w, 1, 6, 1, 6, 1, 1), lambda w: waiting(w, 1, 6, 1, 6, 6, 1)),
    "WorkFailures": (lambda w: sweeps(w, True, False, True), lambda w: sweeps(w, True, True, True)),
    "UnreadableEntries": (lambda w: queued(w, None), lambda w: queued(w, "{")),
}
"""What happens to a deployment that is as it should be, and to one that somebody has to look at."""


def test_every_alarm_about_our_own_metrics_has_its_story() -> None:
    assert STORIES.keys() == OWN


@pytest.mark.parametrize("expected", ["OK", "ALARM"])
@pytest.mark.parametrize("name", STORIES)
def test_an_alarm_rings_for_its_story_and_for_nothing_less(name: str, expected: str, deployed: Deployed) -> None:
    calm, bad = STORIES[name]
    deployed.fakes.clock.instant -= deployed.fakes.clock.instant % 1_800_000

    (calm if expected == "OK" else bad)(deployed)

    assert deployed.data
    assert state(ALARMS[name], deployed.data, deployed.now_s) == expected


@pytest.mark.parametrize("name", sorted(ALARMS.keys() - OWN))
def test_an_alarm_about_a_metric_of_aws_rings_when_it_is_bad_and_not_when_it_is_as_it_should_be(name: str) -> None:
    alarm = ALARMS[name]
    dimensions = frozenset((each["Name"], each["Value"]) for each in alarm["Dimensions"])
    owner = TEMPLATE.resources[name]["Properties"]["Dimensions"][0]["Value"].get("Ref")
    metric = alarm["MetricName"]
    calm, bad = CALM_AND_BAD[(owner, metric) if metric == "IteratorAge" else metric]

    def evaluated(value: float) -> str:
        now_s = 36_000.0
        instants = [now_s - 60 * minute for minute in range(1, 31)]
        return state(alarm, [Datum(alarm["Namespace"], metric, dimensions, at, value) for at in instants], now_s)

    assert (evaluated(calm), evaluated(bad)) == ("OK", "ALARM")
    assert state(alarm, [], 36_000.0) == ("ALARM" if name in ("SweepSilence", "ArchiveSilence") else "OK")


class Invoked(Weather):
    """Counts invocations as AWS/Lambda does."""

    def __init__(self) -> None:
        self.data: list[Datum] = []

    def begins(self, invocation: Invocation) -> None:
        dimensions = frozenset({("FunctionName", invocation.function.name)})
        self.data.append(Datum("AWS/Lambda", "Invocations", dimensions, invocation.began_at / 1000, 1))


@pytest.mark.parametrize("stopped", ["ArchiveFunctionMessageRows", "ArchiveFunctionRegistryRows"])
def test_an_idle_archive_is_calm_and_one_without_the_changes_of_messages_rings(stopped: str) -> None:
    timeline, alarm = Timeline(), ALARMS["ArchiveSilence"]
    deployment = Deployment(timeline, None, 1)
    invoked = deployment.functions.weather = Invoked()
    deployment.begin()

    def states(minutes: int) -> list[str]:
        found = []
        for _ in range(minutes // 5):
            timeline.play_until(timeline.now + 300_000)
            found.append(state(alarm, invoked.data, timeline.now / 1000))
        return found

    assert states(45)[-1] == "OK"
    assert set(states(180)) == {"OK"}
    [source] = [each for each in deployment.stream_sources if each.source_id == stopped]
    source.stream.told.remove(source.told)
    after = states(60)
    assert after[-1] == ("ALARM" if stopped == "ArchiveFunctionMessageRows" else "OK")
    assert after[0] == "OK"


def test_the_sweep_tells_how_late_a_lane_is_and_how_old_its_head(deployed: Deployed) -> None:
    blocked_for(deployed, 600)

    assert deployed.values("OldestBlockedHeadSeconds") == [600]
    [late_s] = deployed.values("OldestOverdueLaneSeconds")
    assert 580 <= late_s <= 590, "the first retry comes after 10 to 20 s"


def test_what_people_are_called_for_has_an_alarm() -> None:
    watched = {(alarm["Namespace"], alarm["MetricName"]) for alarm in ALARMS.values()}
    assert {
        ("tagcast", "OldestBlockedHeadSeconds"),
        ("tagcast", "ExpiringWithinHour"),
        ("tagcast", "FirstRoundMs"),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
    } <= watched
    assert {"RelayFailuresPresent", "ArchiveFailuresPresent", "RelayErrors", "ArchiveErrors"} <= ALARMS.keys()
