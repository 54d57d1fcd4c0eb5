"""A whole world in memory: a clock that is moved, endpoints that are told what to answer."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

from tagcast.archive.events import CONTENT_TYPE as EVENT_TYPE
from tagcast.delivery import publishing
from tagcast.delivery.dead_letter import DEAD_LETTER_OF
from tagcast.delivery.fan_out import fan_out
from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import NextStep, redeliver
from tagcast.errors import UnavailableError
from tagcast.membership import MembershipChange
from tagcast.model import (
    Draft,
    Endpoint,
    EntryState,
    Keep,
    Message,
    Ordering,
    Outcome,
    Protocol,
    Push,
    PushBatch,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
)
from tagcast.ports import ArchivedFile, QueueEntry, World
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry import subscriptions, topics
from tagcast.repairing.relay import EndedDelivery, relay
from tagcast.repairing.sweep import SweepResult, sweep
from tagcast.rows.message import MESSAGES
from tagcast.tables import Key
from tagcast.topic_settings import TopicSettings
from tagcast.verification import Verification, VerificationResult
from tagcast_aws.store.signing_key import SubscriptionKeys

from tests.fakes.group_queues import FakeGroupQueues
from tests.fakes.memory_store import MemoryStore
from tests.fakes.settings import settings_for

OK = Outcome(True, "http 200")
FAIL = Outcome(False, "http 500")
P = ParamSpec("P")
T = TypeVar("T")
Behaviour = Callable[[Push], Outcome]
BatchBehaviour = Callable[[PushBatch], Outcome]
Judgement = Callable[[Sequence[Message]], tuple[bool, ...] | None]


class FakeClock:
    """A clock that only tests and sleeps move."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.instant = now
        self._pauses: list[int] = []

    def now(self) -> int:
        return self.instant

    def monotonic(self) -> float:
        return self.instant / 1000

    def sleep(self, seconds: float) -> None:
        self.instant += round(seconds * 1000)

    async def pause(self, seconds: float) -> None:
        until = self.instant + round(seconds * 1000)
        self._pauses.append(until)
        try:
            while True:
                for _ in range(TURNS):
                    await asyncio.sleep(0)
                if self.instant >= until:
                    return
                if until == min(self._pauses):
                    self.instant = until
        finally:
            self._pauses.remove(until)


TURNS = 200
"""All else that a use case does side by side takes fewer turns of its loop: by then it is done, or it waits, too."""


class InlineExecutor:
    """Carries out each call at once, where it is asked for."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return call(*args, **kwargs)


class FakeDice:
    """Ids in sequence and always the same number."""

    def __init__(self) -> None:
        self.count = 0

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def unique_id(self, now: int) -> str:
        self.count += 1
        return f"{(now << 22) + self.count:020d}"

    def secret(self) -> str:
        self.count += 1
        return f"secret {self.count}"


class FakeQueue:
    """Keeps what was sent, deduplicated by message id among what waits; *broken* takes nothing."""

    def __init__(self) -> None:
        self.entries: list[QueueEntry] = []
        self.given_back: list[str] = []
        self.put_off: dict[str, int] = {}
        self.deleted: list[str] = []
        self.broken = False

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        if self.broken:
            return tuple(entries)
        self.entries += [entry for entry in entries if entry not in self.entries]
        return ()

    def give_back(self, receipts: Sequence[str], after_s: int = 0) -> None:
        self.given_back += receipts
        self.put_off |= dict.fromkeys(receipts, after_s)

    def delete(self, receipts: Sequence[str]) -> None:
        self.deleted += receipts


class FakeWorkflow:
    """Keeps the tasks of executions that were started, each generation once."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.broken = False

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        task = Task(topic, subscription_id, generation)
        if not self.broken and task not in self.tasks:
            self.tasks.append(task)
        return not self.broken


class FakePusher:
    """Endpoints by subscription name: a function from the push, or the batch, to its outcome."""

    def __init__(self) -> None:
        self.behaviours: dict[str, Behaviour] = {}
        self.batch_behaviours: dict[str, BatchBehaviour] = {}
        self.pushes: list[Push] = []
        self.batches: list[PushBatch] = []
        self.received: dict[str, list[str]] = defaultdict(list)
        self.before_push: Callable[[Push], object] = lambda push: None

    async def push(self, push: Push) -> Outcome:
        await asyncio.sleep(0)
        self.before_push(push)
        self.pushes.append(push)
        name = push.subscription.name
        outcome = self.behaviours[name](push) if name in self.behaviours else OK
        if outcome.delivered:
            self.received[name].append(push.message.draft.body.decode(errors="replace"))
        return outcome

    async def push_batch(self, batch: PushBatch) -> Outcome:
        await asyncio.sleep(0)
        self.batches.append(batch)
        name = batch.subscription.name
        outcome = self.batch_behaviours[name](batch) if name in self.batch_behaviours else OK
        for push in batch.pushes:
            self.before_push(push)
            self.pushes.append(push)
            if outcome.of(push.message.message_id).delivered:
                self.received[name].append(push.message.draft.body.decode(errors="replace"))
        return outcome


class FakeFilterFunctions:
    """Filter functions by subscription name: from the messages to the verdicts; None is an error."""

    def __init__(self) -> None:
        self.behaviours: dict[str, Judgement] = {}
        self.asked: list[tuple[str, list[str]]] = []

    async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...] | None:
        await asyncio.sleep(0)
        self.asked.append((subscription.name, [message.draft.body.decode(errors="replace") for message in messages]))
        judge = self.behaviours.get(subscription.name)
        return (True,) * len(messages) if judge is None else judge(messages)


class OpenGuard:
    def refusal(self, endpoint: Endpoint) -> str | None:
        return None


class FakeVerifier:
    """Endpoints that agree, unless they are told what else to answer by their URL."""

    def __init__(self) -> None:
        self.consents: dict[str, VerificationResult] = {}
        self.asked: list[tuple[str, str]] = []
        self.settings: list[SubscriptionSettings] = []
        self.subscription_ids: list[str | None] = []

    def ask(self, settings: SubscriptionSettings, token: str, subscription_id: str | None) -> VerificationResult:
        self.asked.append((settings.endpoint.target, token))
        self.settings.append(settings)
        self.subscription_ids.append(subscription_id)
        return self.consents.get(settings.endpoint.target, VerificationResult())


class QuietTelemetry:
    """Counts and forgets."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = defaultdict(int)
        self.faults: list[tuple[str, Exception]] = []
        self.ends: list[tuple[str, str, EntryState]] = []
        """What ended without a push: the body, whose delivery it was, and how."""
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.watched: set[str] = set()
        self.backlogs: dict[tuple[str, str], dict[str, float]] = {}

    def record_attempt(self, push: Push, outcome: Outcome, state: EntryState, took_ms: int) -> None:
        self.counts[state] += 1

    def record_end(self, message: Message, subscription: Subscription, state: EntryState) -> None:
        self.counts[state] += 1
        self.ends.append((message.draft.body.decode(errors="replace"), subscription.name, state))

    def record_filter_failures(self, topic: str, subscriptions: Iterable[str], count: int = 1) -> None:
        self.counts["filter_failed"] += count

    def record_failure(self, what: str, error: Exception) -> None:
        self.counts["failed"] += 1
        self.faults.append((what, error))

    def count(self, name: str, value: int = 1) -> None:
        self.counts[name] += value

    def record_wait(self, name: str, milliseconds: float) -> None:
        self.waits[name].append(milliseconds)

    def watches(self, topic: str) -> bool:
        return topic in self.watched

    def record_subscription(self, topic: str, ordinal: int, subscription: str, values: Mapping[str, float]) -> None:
        self.backlogs[topic, subscription] = dict(values)


class MemoryIndexArchive:
    """Keeps indexes by name."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.loads: list[str] = []

    def load(self, name: str) -> bytes | None:
        self.loads.append(name)
        return self.contents.get(name)

    def save(self, name: str, content: bytes) -> None:
        self.contents[name] = content


@dataclass
class MemoryMessageArchive:
    """The port ``MessageArchive`` in memory: files with the lines of records, by the instant at which they came.

    *folders* has the day of a file that came after its day.
    """

    came: dict[str, tuple[int, list[bytes]]] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    away: bool = False

    def put(self, name: str, arrived_at: int, lines: Sequence[str]) -> None:
        self.came[name] = arrived_at, [line.encode() + b"\n" for line in lines]

    def files(self, day: int) -> Sequence[ArchivedFile]:
        if self.away:
            raise UnavailableError("the archive does not answer")
        days = {name: self.folders.get(name, at // 86_400_000 * 86_400_000) for name, (at, _) in self.came.items()}
        last = day + 86_400_000 - 1
        found = [ArchivedFile(name, min(at, last)) for name, (at, _) in self.came.items() if days[name] == day]
        return sorted(found, key=lambda each: (each.arrived_at, each.name), reverse=True)

    def lines(self, name: str) -> Iterator[bytes]:
        return iter(self.came[name][1] if name in self.came else ())


class FakeEventBus:
    """Keeps what was told."""

    def __init__(self) -> None:
        self.changes: list[MembershipChange] = []
        self.events: list[Mapping[str, object]] = []

    def announce(self, change: MembershipChange) -> None:
        self.changes.append(change)

    def publish(self, event: Mapping[str, object]) -> None:
        self.events.append(event)


class FakeSigner:
    """Signs with keys of seeds that are always the same; while it is *broken* nobody can read them."""

    def __init__(self) -> None:
        self.keys = SubscriptionKeys(("seed",))
        self.is_ready = self.broken = False

    def prepare(self) -> None:
        if self.broken:
            raise UnavailableError("the key cannot be read")
        self.is_ready = True

    def sign(self, subscription_id: str, content: bytes) -> tuple[bytes, ...]:
        assert self.is_ready
        return tuple(key.sign(content).signature for key in self.keys.of(subscription_id))

    def public_keys(self, subscription_id: str) -> tuple[bytes, ...]:
        self.prepare()
        return tuple(bytes(key.verify_key) for key in self.keys.of(subscription_id))


class FakeVault:
    """Seals by reversing, under a context, and records the opened subscriptions. A *broken* vault refuses both."""

    def __init__(self) -> None:
        self.broken = False
        self.opened: list[str] = []

    def seal(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        if self.broken:
            raise UnavailableError("the vault is shut")
        return f"{dict(context)} ".encode() + plain[::-1]

    def open(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        told = f"{dict(context)} ".encode()
        if self.broken or not sealed.startswith(told):
            raise UnavailableError("the vault is shut")
        self.opened.append(context["subscription"])
        return sealed[len(told) :][::-1]


@dataclass
class FakeWorld:
    """The fakes by name, and the world that the core sees."""

    store: MemoryStore = field(default_factory=MemoryStore)
    queue: FakeQueue = field(default_factory=FakeQueue)
    workflow: FakeWorkflow = field(default_factory=FakeWorkflow)
    pusher: FakePusher = field(default_factory=FakePusher)
    filter_functions: FakeFilterFunctions = field(default_factory=FakeFilterFunctions)
    index_archive: MemoryIndexArchive = field(default_factory=MemoryIndexArchive)
    message_archive: MemoryMessageArchive = field(default_factory=MemoryMessageArchive)
    event_bus: FakeEventBus = field(default_factory=FakeEventBus)
    clock: FakeClock = field(default_factory=FakeClock)
    telemetry: QuietTelemetry = field(default_factory=QuietTelemetry)
    vault: FakeVault = field(default_factory=FakeVault)
    signer: FakeSigner = field(default_factory=FakeSigner)
    verifier: FakeVerifier = field(default_factory=FakeVerifier)
    relayed: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.group_queues = FakeGroupQueues(self.clock.now, self.clock.sleep)
        self.world = World(
            store=self.store,
            queue=self.queue,
            group_queues=self.group_queues,
            workflow=self.workflow,
            pusher=self.pusher,
            filter_functions=self.filter_functions,
            index_archive=self.index_archive,
            message_archive=self.message_archive,
            event_bus=self.event_bus,
            guard=OpenGuard(),
            verification=Verification(self.verifier, is_optional=True),
            vault=self.vault,
            signer=self.signer,
            clock=self.clock,
            executor=InlineExecutor(),
            dice=FakeDice(),
            telemetry=self.telemetry,
            dead_letter_topics=(("*", "*"),),
        )

    def topic(
        self,
        name: str = "test1",
        *,
        ordering: Ordering = Ordering.TOPIC,
        retention_s: int = 86_400,
        keep: Keep = Keep.PENDING,
        events_topic: str | None = None,
    ) -> None:
        settings = TopicSettings(retention_s, ordering=ordering, keep=keep, events_topic=events_topic)
        topics.put_topic(self.world, name, settings)

    def subscribe(
        self,
        name: str,
        *tags: str,
        strategy: Strategy = Strategy.BACKOFF_RETRY,
        max_retries: int | None = None,
        topic: str = "test1",
        filter: Mapping[str, object] | None = None,
        retry: RetryPolicy | None = None,
        answers: Outcome | Behaviour | None = None,
        **settings: Any,
    ) -> Subscription:
        """Make a subscription, with more *settings*; its receiver *answers* each push in this way."""
        if answers is not None:
            self.pusher.behaviours[name] = answers if callable(answers) else lambda push: answers
        retries = max_retries if max_retries is not None else (3 if strategy is Strategy.BACKOFF_RETRY else 176)
        wanted = {"kind": "tags", "tags": list(tags)} if tags else filter
        made = settings_for(f"http://{name}.test/", retry or RetryPolicy(strategy, retries), filter=wanted)
        return subscriptions.put_subscription(self.world, topic, name, replace(made, **settings))[0]

    def group(
        self,
        name: str,
        *,
        topic: str = "test1",
        max_retries: int = 3,
        ordered: bool = False,
        filter: Mapping[str, object] | None = None,
        start_from: int | None = None,
        dead_letter_topic: str | None = None,
    ) -> Subscription:
        settings = settings_for(
            Endpoint(Protocol.PULL, ""),
            RetryPolicy(Strategy.BACKOFF_RETRY, max_retries),
            filter=filter,
            ordered=ordered,
            start_from=start_from,
            dead_letter_topic=dead_letter_topic,
        )
        return subscriptions.put_subscription(self.world, topic, name, settings)[0]

    def publish(self, *bodies: str, tags: Sequence[str] = (), topic: str = "test1") -> list[str]:
        drafts = [Draft(body.encode(), tags=tuple(tags)) for body in bodies]
        return [accepted.message_id for accepted in publishing.publish(self.world, topic, drafts)]

    def first_round(self, *bodies: str, tags: Sequence[str] = (), topic: str = "test1") -> list[str]:
        """Publish, and let fan-out serve the queue."""
        ids = self.publish(*bodies, tags=tags, topic=topic)
        self.deliver()
        return ids

    def fail(self, *names: str) -> None:
        """Let every push to these subscriptions fail."""
        self.pusher.behaviours |= dict.fromkeys(names, lambda push: FAIL)

    def publish_unqueued(self, *bodies: str, topic: str = "test1") -> list[str]:
        """Publish in order while the queue is away: the producer is refused, and what was stored has these ids."""
        before = set(self.store.rows)
        self.queue.broken = True
        with suppress(UnavailableError):
            self.publish(*bodies, topic=topic)
        self.queue.broken = False
        return sorted(
            row["message_id"] for key, row in self.store.rows.items() if key.sk == "MSG" and key not in before
        )

    def relay_letters(self) -> None:
        """Let the relay hear of every dead letter and event stored since it last did, as the table's stream would."""
        letters = {
            key: row
            for key, row in self.store.rows.items()
            if DEAD_LETTER_OF in str(row.get("properties")) or row.get("content_type") == EVENT_TYPE
        }
        fresh = [MESSAGES.value_of(letters[key]) for key in letters.keys() - self.relayed]
        self.relayed |= letters.keys()
        if fresh:
            ordered = sorted(fresh, key=lambda row: row.message.message_id)
            relay(self.world, ordered)

    def deliver(self) -> None:
        """Let fan-out take everything in the queue, ten at a time, after the relay's dead letters and events."""
        self.relay_letters()
        while self.queue.entries:
            batch, self.queue.entries = self.queue.entries[:10], self.queue.entries[10:]
            apart = [entry for entry in batch if entry.group.partition("#")[0] == entry.message_id]
            for together in (apart, [entry for entry in batch if entry not in apart]):
                for topic in dict.fromkeys(entry.topic for entry in together):
                    asyncio.run(self._fan_out(topic, [entry for entry in together if entry.topic == topic]))

    def fan_out(self, topic: str, message_ids: Sequence[str]) -> None:
        asyncio.run(self._fan_out(topic, [QueueEntry(topic, each, "its order") for each in message_ids]))

    async def _fan_out(self, topic: str, entries: Sequence[QueueEntry]) -> None:
        async with PushSlots(self.clock) as slots:
            await fan_out(self.world, topic, entries, slots)

    def redeliver(self, task: Task) -> NextStep:
        return asyncio.run(self._redeliver(task))

    async def _redeliver(self, task: Task) -> NextStep:
        async with PushSlots(self.clock) as slots:
            return await redeliver(self.world, task, 60.0, slots)

    def relay_ends(self) -> None:
        """Let the relay hear of every message of which something is pending or ended, as the table's stream would."""
        pending = [row for key, row in self.store.rows.items() if key.sk == "MSG" and row["pending"]]
        relay(self.world, [EndedDelivery(str(row["topic"]), str(row["message_id"])) for row in pending])

    def sweep(self, budget_s: float = 200.0) -> SweepResult:
        return asyncio.run(sweep(self.world, budget_s))

    def run_for(self, seconds: float) -> None:
        """Run all executions for so long, or until all have ended."""
        self.run_workflows(self.clock.instant + round(seconds * 1000))

    def run_workflows(self, until: int) -> None:
        """Run all executions, in order of their waits, until the clock says *until* or all have ended."""
        waiting: list[tuple[int, Task]] = []
        while True:
            waiting += [(self.clock.instant, task) for task in self.workflow.tasks]
            self.workflow.tasks = []
            if not waiting:
                return
            waiting.sort(key=lambda pair: pair[0])
            due_at, task = waiting.pop(0)
            if due_at >= until:
                self.clock.instant = max(self.clock.instant, until)
                return
            self.clock.instant = max(self.clock.instant, due_at)
            answer = self.redeliver(task)
            if answer.wait_until is not None:
                waiting.append((answer.wait_until, answer.task))
