"""All that the core asks of the world: a clock, dice, a conditional table, a queue, a workflow, endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tagcast.membership import MembershipChange
from tagcast.memory import Memory
from tagcast.model import EntryState, Message, Outcome, Push, PushBatch, Subscription
from tagcast.queues import PACK_MAX, GroupQueue, GroupQueues, Queue, QueueCounts, QueueEntry, Received
from tagcast.tables import ABSENT, Delete, Found, Key, Put, Row, Store, Table, Update, Write
from tagcast.vault import Signer, Vault
from tagcast.verification import EndpointGuard, Verification

__all__ = [
    "ABSENT",
    "Clock",
    "Delete",
    "Dice",
    "EndpointGuard",
    "EventBus",
    "Executor",
    "FilterFunctions",
    "Found",
    "GroupQueue",
    "GroupQueues",
    "IndexArchive",
    "Key",
    "Pusher",
    "Put",
    "Queue",
    "QueueCounts",
    "QueueEntry",
    "Received",
    "Row",
    "Signer",
    "Store",
    "Table",
    "Telemetry",
    "Update",
    "Vault",
    "Verification",
    "Workflow",
    "World",
    "Write",
]

T = TypeVar("T")


class Workflow(Protocol):
    """The keeper of time for lanes that are not active."""

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        """Start redelivery of one lane and say whether that worked; the same generation starts only once."""


class Pusher(Protocol):
    """The way to the endpoints of subscribers."""

    async def push(self, push: Push) -> Outcome:
        """Make one attempt within the subscription's timeout; a failure is an outcome, never an exception."""

    async def push_batch(self, batch: PushBatch) -> Outcome:
        """Make several attempts in one request, likewise; the outcome names those that failed of what got through."""


class EventBus(Protocol):
    """Where changes and events are told to the listeners of the account."""

    def announce(self, change: MembershipChange) -> None:
        """Tell of one change; a failure is logged, never raised: who has to know for certain asks the API."""

    def tell(self, event: Mapping[str, object]) -> None:
        """Tell of one event of a topic, a CloudEvent; a failure is logged, never raised: its topic has it."""


class FilterFunctions(Protocol):
    """The way to the filter functions of subscribers."""

    async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...] | None:
        """Ask the subscription's function once about at most 100 messages, within the filter's ``timeout_seconds``.

        One verdict each, in their order; None, no exception, for any error (a fault, no time left, a malformed answer).
        """


class IndexArchive(Protocol):
    """Where compiled topic indexes are kept as data, so that a cold start need not compile thousands of filters.

    It only saves time: what cannot be loaded is built, and what cannot be saved is built again elsewhere.
    """

    def load(self, name: str) -> bytes | None:
        """Return what was saved under *name*, or None, also when the archive cannot be reached."""

    def save(self, name: str, content: bytes) -> None:
        """Keep *content*, or give up quietly."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of the archive, and when it came."""

    name: str
    arrived_at: int


class MessageArchive(Protocol):
    """The records of messages as they came into the archive. UnavailableError if that does not answer."""

    def files(self, day: int) -> Sequence[ArchivedFile]:
        """Return the files that came on the day (UTC) that begins at *day* (milliseconds), the last first."""

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the records of a file, each a line of JSON; of a file that is gone there are none."""


class Clock(Protocol):
    """Time, in milliseconds since 1970 UTC."""

    def now(self) -> int:
        """Return the instant."""

    def monotonic(self) -> float:
        """Return seconds that only grow, for measuring budgets."""

    def sleep(self, seconds: float) -> None:
        """Wait, and let everything in this process wait."""

    async def pause(self, seconds: float) -> None:
        """Wait while the other work of the running loop goes on."""


class Executor(Protocol):
    """Where blocking calls are carried out beside the event loop, so that none of them holds up a push."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what *call* returns or raise what it raises; at most a bounded number of calls is under way.

        Calls that run at the same time end in any order. Cancelling the wait does not stop a call that has begun:
        it is awaited first, so that nothing outlives the invocation that asked for it.
        """


class Dice(Protocol):
    """Chance."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high]."""

    def unique_id(self, now: int) -> str:
        """Return 20 decimal digits below 2^64, ordered by *now* and different every time."""

    def secret(self) -> str:
        """Return text that nobody can guess, at least 128 bits of it."""


class Telemetry(Protocol):
    """Where what happened is told to operators (log lines and metrics), never with bodies or secrets."""

    def attempted(self, push: Push, outcome: Outcome, state: EntryState, took_ms: int) -> None:
        """Tell of one push."""

    def settled(self, message: Message, subscription: Subscription, state: EntryState) -> None:
        """Tell of an entry that became terminal without a push (expired, cancelled)."""

    def filter_failed(self, topic: str, subscriptions: Iterable[str]) -> None:
        """Tell of filters that failed while a message was matched."""

    def failed(self, what: str, error: Exception) -> None:
        """Tell of one piece of work that failed; the pieces beside it went on."""

    def count(self, name: str, value: int = 1) -> None:
        """Add to a metric."""

    def waited(self, name: str, milliseconds: float) -> None:
        """Add one wait to a metric of which people want percentiles."""

    def watches(self, topic: str) -> bool:
        """Say whether metrics tell the subscriptions of *topic* apart."""

    def owes(self, topic: str, ordinal: int, subscription: str, values: Mapping[str, float]) -> None:
        """Tell what the lane of a subscription owes now, by the names of metrics, if its topic is watched."""


@dataclass(frozen=True, slots=True)
class World:
    """The ports together, as every use case takes them; *time_scale* divides delays and lives.

    Maps over *section_max* entries are kept in sections. A first round is worked off in parts of at most *slice_max*
    messages. *scope_prefix* stands before the scopes of tokens. *dead_letter_topics* are pairs of patterns: which
    topics' dead letters may be published where. As many pulls and questions for the tail as *waiting_max* may
    wait of one topic.
    """

    store: Store
    queue: Queue
    group_queues: GroupQueues
    workflow: Workflow
    pusher: Pusher
    filter_functions: FilterFunctions
    index_archive: IndexArchive
    message_archive: MessageArchive
    event_bus: EventBus
    guard: EndpointGuard
    verification: Verification
    vault: Vault
    signer: Signer
    clock: Clock
    executor: Executor
    dice: Dice
    telemetry: Telemetry
    time_scale: float = 1.0
    section_max: int = 1_000
    slice_max: int = PACK_MAX
    topic_known_s: float = 0.0
    """A process that publishes may use a topic's row for this time, and a change answers after it."""
    short_wait_s: float = 10.0
    """Shorter waits for a retry happen in the process that makes it; longer ones are the workflow's."""
    scope_prefix: str = ""
    dead_letter_topics: tuple[tuple[str, str], ...] = ()
    waiting_max: int = 100
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)
