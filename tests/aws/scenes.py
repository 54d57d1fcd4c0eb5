"""Fixed scenes on the box: the deployed template, receivers of a kind each, and what became of each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tagcast.model import (
    ContentFormat,
    Endpoint,
    Ordering,
    Protocol,
    RetryPolicy,
    Strategy,
    SubscriptionSettings,
)
from tagcast.registry import subscriptions, topics
from tagcast.topic_settings import TopicSettings

from tests.aws.administrator import administrator
from tests.aws.deployment import Deployment
from tests.aws.faults import Accidents
from tests.aws.http_api import Answer
from tests.aws.lambdas import Ended, Weather
from tests.aws.network import Connection, Request
from tests.aws.timeline import Timeline

BACKOFF = RetryPolicy(Strategy.BACKOFF_RETRY, 3, 30)
DECAY = RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 3)
HEALTHY_MS = 50
"""A healthy receiver takes this long for an answer."""


class Receiver:
    """A listener that answers every push well, sooner or later, or never; it remembers when, by message.

    One that hangs sends nothing, or a header a second, by turns.
    """

    def __init__(self, timeline: Timeline, hangs: bool, answer_ms: int = HEALTHY_MS) -> None:
        self.hangs = hangs
        self.answer_ms = answer_ms
        self.asked_for: list[str] = []
        self.answered_at: dict[str, int] = {}
        self._gone: set[Connection] = set()
        self._timeline = timeline

    def reached(self) -> str:
        return "open"

    def asked(self, request: Request, connection: Connection) -> None:
        self.asked_for.append(request.headers["webhook-id"])
        if not self.hangs:
            self._timeline.after(self.answer_ms, lambda: self._answer(request, connection))
        elif len(self.asked_for) % 2:
            connection.send(b"HTTP/1.1 200 OK\r\n")
            self._drip(connection)

    def _drip(self, connection: Connection) -> None:
        """Send a header a second, and never the last."""
        if connection not in self._gone:
            connection.send(b"drip: 1\r\n")
            self._timeline.after(1_000, lambda: self._drip(connection))

    def _answer(self, request: Request, connection: Connection) -> None:
        self.answered_at.setdefault(request.headers["webhook-id"], self._timeline.now)
        connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    def left(self, connection: Connection) -> None:
        self._gone.add(connection)


class Watch(Weather):
    """Remembers when and how invocations ended."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ends: list[tuple[int, str, str | None]] = []

    def ended(self, ended: Ended) -> None:
        assert ended.invocation is not None
        self._ends.append((self._timeline.now, ended.invocation.function.kind, ended.error))

    def of(self, kind: str) -> list[int]:
        """Return when the invocations of one function ended."""
        return [at for at, ended, _ in self._ends if ended == kind]

    def errors(self) -> Counter[str]:
        """Count how functions ended that did not end well."""
        return Counter(f"{kind}: {error}" for _, kind, error in self._ends if error is not None)


class Scene:
    """A deployment with topics that take messages in any order."""

    def __init__(self, seed: int, accidents: Accidents | None = None, **parameters: str) -> None:
        self.timeline = Timeline()
        self.deployment = Deployment(self.timeline, accidents, seed, parameters=parameters.items())
        self.watch = self.deployment.functions.weather = Watch(self.timeline)
        self.receivers: dict[str, Receiver] = {}
        self.world = administrator(self.deployment)
        self.deployment.begin()

    def topic(self, name: str, retention_s: int = 86_400, ordering: Ordering = Ordering.NONE) -> None:
        topics.put_topic(self.world, name, TopicSettings(retention_s, ordering=ordering))

    def subscribe(
        self,
        topic: str,
        name: str,
        *,
        hangs: bool = False,
        timeout_s: int = 15,
        retry: RetryPolicy = BACKOFF,
        filter: Mapping[str, object] | None = None,
        answer_ms: int = HEALTHY_MS,
    ) -> None:
        """Subscribe a receiver at a host of its own."""
        host = f"{topic}-{name}.example".lower()
        receiver = self.receivers[f"{topic}/{name}"] = Receiver(self.timeline, hangs, answer_ms)
        self.deployment.network.listen(host, receiver)
        settings = SubscriptionSettings(
            endpoint=Endpoint(Protocol.HTTP, f"http://{host}/"),
            filter=filter,
            retry=retry,
            timeout_s=timeout_s,
            content_format=ContentFormat.JSON,
            secret=None,
        )
        subscriptions.put_subscription(self.world, topic, name, settings)
        self.play(0.05)  # The topic's row counts them, and takes only so many writes a second.

    def publish(self, topic: str, *bodies: str, tags: Sequence[str] = ()) -> list[Answer]:
        """Send a batch of messages; the list gets the answer when it is there."""
        answers: list[Answer] = []
        drafts = [{"body": body, "tags": list(tags)} for body in bodies]
        path = ("topics", topic, "messages", "batch")
        self.deployment.api.ask("POST", path, answers.append, body={"messages": drafts})
        return answers

    def play(self, seconds: float) -> None:
        self.timeline.play_until(self.timeline.now + round(seconds * 1000))

    def latencies_s(
        self,
        topic: str,
        *names: str,
        messages: int,
        rest_s: float,
        every_s: float = 0.25,
        beside: Callable[[int], None] = lambda place: None,
    ) -> list[float]:
        """Publish one by one, and do *beside* after each; return how late receivers had each message, in order."""
        answers: list[tuple[int, list[Answer]]] = []
        for place in range(messages):
            answers.append((self.timeline.now, self.publish(topic, "1")))
            beside(place)
            self.play(every_s)
        self.play(rest_s)
        ids = [(at, answer.value["results"][0]["message_id"]) for at, [answer] in answers]
        receivers = [self.receivers[f"{topic}/{name}"] for name in names]
        return sorted((each.answered_at[message_id] - at) / 1000 for each in receivers for at, message_id in ids)

    def left_over(self) -> list[str]:
        """Return the partitions of what is still pending, listed or waited for."""
        partitions = map(str, self.deployment.tables["MessagesTable"].partitions)
        return [name for name in partitions if name.startswith(("DUE#", "LANES#", "RETAINED#", "UNSENT#"))]


@dataclass
class TwoTopics:
    """A topic in order with a healthy receiver, and beside it one in order whose *hanging* receivers never answer."""

    scene: Scene
    hanging: int

    @classmethod
    def begun(cls, hanging: int) -> TwoTopics:
        """Return the scene before anything was published; both topics were pushed to once."""
        scene = Scene(1)
        for topic in ("well", "ill"):
            scene.topic(topic, ordering=Ordering.TOPIC)
            scene.subscribe(topic, "A")
        for place in range(hanging):
            scene.subscribe("ill", f"H{place}", hangs=True, timeout_s=10, retry=BACKOFF if place % 2 else DECAY)
        scene.publish("well", "warm")
        scene.play(20)
        return cls(scene, hanging)

    def remove(self) -> None:
        """Remove all that hang."""
        for place in range(self.hanging):
            subscriptions.delete_subscription(self.scene.world, "ill", f"H{place}")
            self.scene.play(0.05)

    def heal(self) -> None:
        """Let all that hang answer from now on."""
        for receiver in self.scene.receivers.values():
            receiver.hangs = False

    def latencies_s(self, messages: int) -> list[float]:
        """Publish, four times a second; return how late the healthy receiver had each message of its topic."""

        def beside(place: int) -> None:
            if self.hanging and place % 4 == 0:
                self.scene.publish("ill", "1")

        return self.scene.latencies_s("well", "A", messages=messages, rest_s=30, beside=beside)


@dataclass
class OneTopic:
    """A topic with two healthy receivers, one of which keeps an order, and beside them some that *hang*."""

    scene: Scene

    @classmethod
    def begun(cls, ordering: Ordering, hanging: int) -> OneTopic:
        """Return the scene when the healthy receivers were pushed to once, and the others never."""
        scene = Scene(1)
        scene.topic("t", ordering=ordering)
        for name, retry in (("ordered", BACKOFF), ("free", DECAY)):
            scene.subscribe("t", name, retry=retry)
        scene.publish("t", "warm")
        scene.play(20)
        one = cls(scene)
        one.join("H", hanging)
        return one

    def join(self, name: str, count: int, answer_ms: int | None = None) -> None:
        """Subscribe more that hang, or answer late; every second keeps an order."""
        for place in range(count):
            self.scene.subscribe(
                "t",
                f"{name}{place}",
                hangs=answer_ms is None,
                retry=BACKOFF if place % 2 else DECAY,
                answer_ms=answer_ms or HEALTHY_MS,
            )

    def latencies_s(self, messages: int, every_s: float = 0.25) -> list[float]:
        """Publish one by one; return how late the healthy receivers had each message, in order of being late."""
        return self.scene.latencies_s("t", "ordered", "free", messages=messages, every_s=every_s, rest_s=60)
