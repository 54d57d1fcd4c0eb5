"""Many members at one group with much to pull, on the simulated AWS: ``python -m tests.benchmarks.pull_crowd``.

So many messages lie in the group's queue when its members come; each pulls up to 32, works for a while, acknowledges
all of them and pulls again, until nothing is left. Told are the virtual time until the last acknowledgement, how even
the shares are, the longest wait of a member for anything, and what that cost in calls of the deployed function. Each
message has to be given once, and in its order. Numbers do not depend on the machine.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from tagcast.delivery.publishing import publish
from tagcast.model import Draft, Endpoint, Ordering, Protocol, TopicSettings
from tagcast.registry import subscriptions, topics

from tests.aws.administrator import administrator
from tests.aws.deployment import Deployment
from tests.aws.http_api import Answer
from tests.aws.quiet import quiet
from tests.aws.scenes import DECAY
from tests.aws.timeline import Timeline
from tests.benchmarks.harness import print_heading
from tests.fakes.settings import settings_for

TOPIC, GROUP = "t", "g"
AT_ONCE, WAIT_S, VISIBILITY_TIMEOUT_S = 32, 5, 60
WORK_MS = (50, 150)
FILLED_AT_ONCE = 100
CALLS = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "dynamodb:GetItem", "dynamodb:UpdateItem")


@dataclass
class Crowd:
    """The members of one group, and what they did."""

    deployment: Deployment
    dice: Random
    left: int
    got: Counter[int] = field(default_factory=Counter)
    """How many messages each member got."""
    given: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of the messages of each order, as they were given."""
    longest_ms: int = 0
    pulls: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    done_at: int = 0

    def pull(self, member: int) -> None:
        """Let a member pull, until nothing is left."""
        asked_at = self.deployment.timeline.now
        wish = {"max_messages": AT_ONCE, "wait_seconds": WAIT_S, "visibility_timeout_seconds": VISIBILITY_TIMEOUT_S}

        def then(answer: Answer) -> None:
            self.pulls += 1
            if answer.status != 200:
                self.refused[answer.status] += 1
            messages = answer.value["messages"] if answer.status == 200 else []
            if messages:
                self.longest_ms = max(self.longest_ms, self.deployment.timeline.now - asked_at)
                self._work(member, messages)
            elif self.left:
                self.pull(member)

        self._ask("pull", wish, then)

    def _work(self, member: int, messages: list[dict[str, Any]]) -> None:
        self.got[member] += len(messages)
        for each in messages:
            self.given[each["ordering_key"]].append(int(each["body"]))
        handles = [each["receipt_handle"] for each in messages]

        def then(answer: Answer) -> None:
            assert answer.status == 200, answer
            self.left -= sum(each["status"] == "acknowledged" for each in answer.value["results"])
            self.done_at = self.deployment.timeline.now
            self.pull(member)

        ack = {"receipt_handles": handles}
        self.deployment.timeline.after(self.dice.uniform(*WORK_MS), lambda: self._ask("ack", ack, then))

    def _ask(self, verb: str, body: dict[str, Any], then: Any) -> None:
        self.deployment.api.ask("POST", ("topics", TOPIC, "subscriptions", GROUP, verb), then, body=body)


def play(count: int, members: int, orders: int | None) -> Crowd:
    """Fill the queue of a group with *count* messages, of so many *orders* or of none, and let *members* pull all."""
    timeline = Timeline()
    deployment = Deployment(timeline, None, 1)
    world = administrator(deployment)
    deployment.begin()
    ordering = Ordering.NONE if orders is None else Ordering.KEY
    topics.put_topic(world, TOPIC, TopicSettings(ordering=ordering))
    settings = settings_for(Endpoint(Protocol.PULL, ""), DECAY, ordered=orders is not None)
    subscriptions.put_subscription(world, TOPIC, GROUP, settings)
    (queue,) = (queue for queue in deployment.sqs.queues.values() if "-group-" in queue.name)
    for first in range(0, count, FILLED_AT_ONCE):
        keys = [None if orders is None else f"k{each % orders}" for each in range(first, first + FILLED_AT_ONCE)]
        publish(world, TOPIC, [Draft(f"{first + n}".encode(), ordering_key=key) for n, key in enumerate(keys)])
        timeline.play_until(timeline.now + 1_000)
    while sum(len(line) for line in queue.lines.values()) < count:
        timeline.play_until(timeline.now + 1_000)
    deployment.box.calls.clear()
    crowd = Crowd(deployment, Random(1), count)
    began = timeline.now
    for member in range(members):
        crowd.pull(member)
    while crowd.left:
        timeline.play_until(timeline.now + 1_000)
    crowd.done_at -= began
    return crowd


def told(crowd: Crowd, count: int) -> list[str]:
    """Return what a play came to, as the cells of a row; every message was given once, in its order."""
    assert sorted(number for numbers in crowd.given.values() for number in numbers) == list(range(count))
    assert all(a < b for order, numbers in crowd.given.items() if order for a, b in pairwise(numbers))
    calls: Counter[str] = Counter()
    for (role, action, _), number in crowd.deployment.box.calls.items():
        calls[action] += number if role == "PullFunction" else 0
    least, most = min(crowd.got.values()), max(crowd.got.values())
    per_message = [f"{calls[name] / count:.2f}" for name in CALLS]
    refused = ", ".join(f"{number} × {status}" for status, number in crowd.refused.items()) or "none"
    shares = f"{len(crowd.got)}: {least}-{most}"
    return [f"{crowd.done_at / 1000:.1f} s", shares, f"{crowd.longest_ms} ms", f"{crowd.pulls}", refused, *per_message]


def main() -> None:
    """Print a row for a group without an order, and for ordered groups."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pull_crowd")
    parser.add_argument("--messages", type=int, default=10_000, help="in hundreds (default: %(default)s)")
    parser.add_argument("--members", type=int, default=50)
    options = parser.parse_args()
    print(f"{options.messages:,} messages wait, {options.members} members; calls per message\n")
    print_heading("orders", "all done after", "members and their shares", "longest wait", "pulls", "refused", *CALLS)
    for orders in (None, 1_000, 100, 10):
        with quiet():
            cells = told(play(options.messages, options.members, orders), options.messages)
        print(f"| {orders or 'none'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
