"""Scenes of many hanging hosts and of a long outage, with the shipped template, handlers and adapters on the box."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from tagcast.model import Ordering
from tagcast.registry import subscriptions

from tests.aws.environments import Invocation
from tests.aws.faults import Outages
from tests.aws.network import Connection, Request
from tests.aws.scenes import BACKOFF, OneTopic, Receiver, Scene, TwoTopics, Watch

COLD_S = 1.5
"""While others hang, a process more has to start."""
SECOND_S = 1.0
"""What is not answered within the patience of a batch is left: then what stands behind it in an order goes on."""

JOINS_A_SECOND = 400
"""Of blocked lanes; the partition of a topic's lanes takes 500 (docs/limits.md, Hot keys)."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "fate", ["hang", *(pytest.param(fate, marks=pytest.mark.nightly) for fate in ("are removed", "come back"))]
)
def test_a_topic_is_served_as_if_it_were_alone_while_the_receivers_of_another(fate: str) -> None:
    alone = TwoTopics.begun(0).latencies_s(80)
    both = TwoTopics.begun(60)
    if fate != "hang":
        both.latencies_s(20)
        both.remove() if fate == "are removed" else both.heal()

    beside = both.latencies_s(80)

    assert beside[len(beside) // 2] <= 1.3 * alone[len(alone) // 2]
    assert beside[-1] <= alone[-1] + COLD_S, "one message waited for the receivers of another topic"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.TOPIC])
@pytest.mark.parametrize("hanging", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_healthy_receivers_wait_a_second_at_most_beside_others_of_their_topic_that_hang(
    ordering: Ordering, hanging: int
) -> None:
    every_s = max(0.25, hanging / JOINS_A_SECOND)
    topic = OneTopic.begun(ordering, 0)
    alone = topic.latencies_s(24, every_s)
    topic.join("hanging", hanging)

    beside = topic.latencies_s(24, every_s)
    topic.join("later", 5)
    later = topic.latencies_s(24, every_s)

    for latencies in (beside, later):
        assert latencies[len(latencies) // 2] <= 1.3 * alone[len(alone) // 2]
        assert latencies[-1] <= alone[-1] + SECOND_S + COLD_S
    tried = [receiver for receiver in topic.scene.receivers.values() if receiver.hangs and receiver.asked_for]
    assert len(tried) == hanging + 5, "somebody who hangs was not even tried"
    assert not topic.scene.watch.errors()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.TOPIC])
def test_who_answers_late_holds_up_nobody_and_gets_each_message_once_in_its_order(ordering: Ordering) -> None:
    topic = OneTopic.begun(ordering, 0)
    alone = topic.latencies_s(12)
    topic.join("late", 4, answer_ms=5_000)

    beside = topic.latencies_s(12, every_s=2.0)

    assert beside[len(beside) // 2] <= 1.3 * alone[len(alone) // 2]
    assert beside[-1] <= alone[-1] + SECOND_S + COLD_S
    topic.scene.play(120)
    asked_for = {name: topic.scene.receivers[f"t/{name}"].asked_for for name in ("late0", "late1", "late2", "late3")}
    for name, ids in asked_for.items():
        assert len(ids) == len(set(ids)) == 12, name
    if ordering is Ordering.TOPIC:
        assert asked_for["late1"] == sorted(asked_for["late1"])
    assert not topic.scene.left_over()


class Failing(Receiver):
    """A listener that answers so many pushes with 500, and all later ones well."""

    def __init__(self, scene: Scene, times: float = inf) -> None:
        super().__init__(scene.timeline, hangs=False)
        self._times = times

    def asked(self, request: Request, connection: Connection) -> None:
        if len(self.asked_for) >= self._times:
            super().asked(request, connection)
            return
        self.asked_for.append(request.headers["webhook-id"])
        connection.send(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")


def test_an_outage_of_the_workflow_delays_no_dead_letter() -> None:
    outages = Outages()
    scene = Scene(1, outages)
    for topic in ("letters", "t"):
        scene.topic(topic)
    scene.subscribe("letters", "A")
    scene.subscribe("t", "blocked", hangs=True, timeout_s=1, filter={"kind": "tags", "tags": ["b"]})
    scene.subscribe("t", "dead", filter={"kind": "tags", "tags": ["d"]})
    scene.deployment.network.listen("t-dead.example", Failing(scene))
    known = subscriptions.get_subscription(scene.world, "t", "dead").settings
    once = replace(known, retry=replace(BACKOFF, max_retries=0), dead_letter_topic="letters")
    subscriptions.put_subscription(scene.world, "t", "dead", once)
    outages.add("stepfunctions", scene.timeline.now, scene.timeline.now + 3_600_000)
    scene.publish("t", "a lane without a worker", tags=["b"])
    for _ in range(6):
        scene.publish("t", "a dead letter", tags=["d"])
        scene.play(30)
    assert len(scene.receivers["letters/A"].answered_at) == 6


def test_a_fault_of_the_function_pauses_the_lane_for_half_a_minute_and_loses_nothing() -> None:
    scene = Scene(1)
    scene.topic("t")
    scene.subscribe("t", "A")
    receiver = Failing(scene, times=2)
    scene.deployment.network.listen("t-a.example", receiver)
    retry = scene.deployment.functions.by_id["RetryFunction"]
    shipped, asked = retry.handler, list[tuple[int, dict[str, Any]]]()

    def breaks_once(event: dict[str, Any], context: Any) -> Any:
        asked.append((scene.timeline.now, event))
        if len(asked) == 1:
            raise OSError("the table cannot be reached")
        return shipped(event, context)

    retry.handler = breaks_once
    scene.publish("t", "1")
    scene.play(300)

    (first_at, before), (second_at, after), _ = asked
    assert 30_000 < second_at - first_at < 31_500
    assert after == {**before, "fault": after["fault"]}
    assert (len(receiver.asked_for), len(receiver.answered_at)) == (3, 1)
    [execution] = scene.deployment.machine.executions.values()
    assert execution.status == "SUCCEEDED"
    assert (execution.memory["status"], execution.memory["rounds"]) == ("end", 1)
    assert scene.left_over() == []


class Crash(Watch):
    """The first process of `fan_out` dies at once."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.timeline)
        self._scene = scene

    def begins(self, invocation: Invocation) -> None:
        if invocation.function.kind == "fan_out" and not self.errors():
            cut = self._scene.deployment.functions.cut
            self._scene.timeline.after(0, lambda: cut(invocation, "Runtime.ExitError"))


def test_a_message_whose_fan_out_crashed_before_its_first_push_comes_after_six_minutes() -> None:
    scene = Scene(1)
    scene.topic("t")
    scene.subscribe("t", "A")
    crash = scene.deployment.functions.weather = Crash(scene)
    published_at = scene.timeline.now
    scene.publish("t", "m")
    scene.play(600)

    receiver = scene.receivers["t/A"]
    [answered_at] = receiver.answered_at.values()
    assert len(receiver.asked_for) == 1
    assert 360 <= (answered_at - published_at) / 1000 <= 365
    assert crash.errors() == {"fan_out: Runtime.ExitError": 1}
    assert scene.left_over() == []
