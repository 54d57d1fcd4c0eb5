"""The five scenarios of CMQ topic mode on the running stack, with HTTP receivers on loopback.

Part 1c is the core's alone. Only BACKOFF_RETRY promises order: under EXPONENTIAL_DECAY_RETRY several are in flight.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from tagcast.delivery.lease import LEASE_GRACE_S
from tagcast_cli.api_client import pages
from tagcast_cli.receiver import Push, Receiver, Reply
from tagcast_client import Client
from tagcast_client.operation import path_of

from local.demo.stage import wait_for
from tests.running_stack import RunningStack

pytestmark = pytest.mark.e2e

DECAY = {"strategy": "EXPONENTIAL_DECAY_RETRY"}
BACKOFF = {"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 10}
PATIENCE_S = 90.0


class Stage:
    """One topic of the service, and the receivers that listen for its pushes."""

    def __init__(self, api: Client, topic: str, listening: ExitStack) -> None:
        self.api = api
        self.topic = topic
        self._listening = listening
        self.path = path_of("topics", topic)
        api.request("PUT", self.path, {})

    def subscribe(
        self,
        name: str,
        *tags: str,
        reply_to: Callable[[Push], Reply] = lambda push: Reply(),
        retry: dict[str, Any] = DECAY,
        timeout_s: int = 15,
    ) -> Receiver:
        receiver = Receiver(reply_to).start()
        self._listening.callback(receiver.stop)
        body: dict[str, Any] = {
            "endpoint": {"protocol": "http", "url": receiver.url},
            "retry": retry,
            "timeout_seconds": timeout_s,
        }
        if tags:
            body["filter"] = {"kind": "tags", "tags": list(tags)}
        self.api.request("PUT", f"{self.path}/subscriptions/{name}", body)
        return receiver

    def publish(self, count: int, tags: Sequence[str] = ()) -> list[str]:
        ids: list[str] = []
        for start in range(0, count, 100):
            messages = [{"body": str(n), "tags": list(tags)} for n in range(start, min(start + 100, count))]
            answer = self.api.request("POST", f"{self.path}/messages/batch", {"messages": messages})
            ids += [str(result["message_id"]) for result in answer.json["results"]]
        return ids

    def message(self, message_id: str) -> dict[str, Any]:
        return self.api.request("GET", f"{self.path}/messages/{message_id}").json

    def states(self, ids: Sequence[str]) -> set[str]:
        with ThreadPoolExecutor(4) as threads:
            return {str(message["state"]) for message in threads.map(self.message, ids)}

    def state(self, message_id: str, name: str) -> str:
        return str(self.message(message_id)["subscribers"][name]["state"])

    def retained(self) -> int:
        return int(self.api.request("GET", self.path).json["retained_messages"])

    def lane(self, name: str) -> dict[str, Any]:
        lane: dict[str, Any] = self.api.request("GET", f"{self.path}/subscriptions/{name}").json["lane"]
        return lane

    def attempts(self, name: str) -> list[int]:
        """Attempts of every pending delivery of *name*, in order."""
        found = pages(self.api, f"{self.path}/subscriptions/{name}/backlog", 100)
        return [delivery["attempts"] for page in found for delivery in page.json["deliveries"]]


def _accepted(receiver: Receiver) -> int:
    return len(receiver.accepted_ids())


def _standing(on: Stage, name: str) -> tuple[str, int]:
    lane = on.lane(name)
    return lane["state"], lane["backlog"]


def eventually(found: Callable[[], object], expected: object, timeout_s: float = PATIENCE_S) -> None:
    wait_for(lambda: found() == expected, timeout_s, 0.1)
    assert found() == expected


@pytest.fixture
def stage(stack: RunningStack) -> Iterator[Callable[[str], Stage]]:
    with ExitStack() as listening:
        yield lambda topic: Stage(Client(stack.url), topic, listening)


def test_scenario_1a_one_fails_and_blocks_the_99_behind_it_until_it_recovers(stage: Callable[[str], Stage]) -> None:
    on = stage("test1")
    recovered = threading.Event()
    a = on.subscribe(
        "A",
        retry=BACKOFF | {"interval_seconds": 30},
        reply_to=lambda push: Reply(500 if push.message_number > 100 and not recovered.is_set() else 200),
    )
    b, c = on.subscribe("B"), on.subscribe("C")

    ids = on.publish(200)

    eventually(lambda: on.lane("A")["backlog"], 100)
    assert a.accepted_ids() == ids[:100]
    assert on.attempts("A")[1:] == [0] * 99
    assert on.lane("A")["head"]["message_id"] == ids[100]
    assert on.lane("A")["state"] == "blocked"
    eventually(lambda: len(c.accepted_ids()), 200)
    eventually(lambda: len(b.accepted_ids()), 200)

    eventually(lambda: on.state(ids[100], "A"), "discarded")
    assert [push.message_id for push in a.refused][:5] == [ids[100]] * 4 + [ids[101]]
    recovered.set()

    eventually(lambda: len(a.accepted_ids()), 199)
    assert a.accepted_ids() == ids[:100] + ids[101:]
    eventually(lambda: on.lane("A")["state"], "active")
    eventually(on.retained, 0)


def test_scenario_1b_lost_contact_retains_old_and_new_and_a_re_push_does_not_touch_it(
    stage: Callable[[str], Stage],
) -> None:
    on = stage("test1b")
    lost = {name: on.subscribe(name, reply_to=lambda push: Reply(500)) for name in "AB"}
    on.publish(110)
    eventually(on.retained, 110)
    c = on.subscribe("C")

    new = on.publish(100)

    eventually(on.retained, 210)
    eventually(lambda: len(c.accepted_ids()), 100)
    assert sorted(c.accepted_ids()) == new
    for name in lost:
        eventually(partial(_standing, on, name), ("lost_contact", 210))
    # Retries go on by their schedule: between two of them, only the push could disturb. During one the lane is claimed.
    assert wait_for(lambda: all(1.0 < until_attempt_s(on.lane(name)) < LEASE_GRACE_S for name in lost), PATIENCE_S)
    before = {name: (on.lane(name)["head"], receiver.totals()) for name, receiver in lost.items()}

    touched = on.api.request("POST", f"{on.path}/retry").json["lanes"]

    assert touched == []
    time.sleep(0.5)
    assert {name: (on.lane(name)["head"], receiver.totals()) for name, receiver in lost.items()} == before
    assert on.retained() == 210


def until_attempt_s(lane: dict[str, Any]) -> float:
    next_attempt_at = lane["head"]["next_attempt_at"]
    if next_attempt_at is None:
        return 0.0
    return (datetime.fromisoformat(next_attempt_at) - datetime.now(UTC)).total_seconds()


@pytest.mark.nightly
def test_a_thousand_messages_reach_three_receivers_without_a_loss_and_one_in_order(
    stage: Callable[[str], Stage],
) -> None:
    on = stage("thousand")
    receivers = [on.subscribe("A", retry=BACKOFF), on.subscribe("B"), on.subscribe("C")]

    ids = on.publish(1000)

    assert len(set(ids)) == 1000
    for receiver in receivers:
        eventually(partial(_accepted, receiver), 1000, 60.0)
        assert sorted(receiver.accepted_ids()) == ids
    assert receivers[0].accepted_ids() == ids
    eventually(on.retained, 0)


def test_an_endpoint_that_hangs_keeps_nothing_from_those_beside_it(stage: Callable[[str], Stage]) -> None:
    on = stage("hanging")
    released = threading.Event()
    fast = [on.subscribe(name) for name in "AB"]
    hanging = on.subscribe("hangs", timeout_s=1, reply_to=lambda push: Reply(200 if released.wait(PATIENCE_S) else 500))

    ids = on.publish(100)

    for receiver in fast:
        eventually(partial(_accepted, receiver), 100)
    assert hanging.accepted == []
    eventually(lambda: on.lane("hangs")["backlog"], 100)
    released.set()

    eventually(lambda: on.lane("hangs")["state"], "active")
    assert on.states(ids) == {"deleted"}
    assert sorted(hanging.accepted_ids()) == ids
