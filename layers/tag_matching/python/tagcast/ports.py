"""The ports of the core: a clock, dice, a conditional table, a queue, a workflow, endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

from tagcast.membership import MembershipChange
from tagcast.model import EntryState, Message, Outcome, Push, PushBatch, Subscription
from tagcast.queues import PACK_MAX, Queue
from tagcast.queues import GroupQueue as GroupQueue
from tagcast.queues import GroupQueues as GroupQueues
from tagcast.queues import QueueCounts as QueueCounts
from tagcast.queues import QueueEntry as QueueEntry
from tagcast.queues import ReceivedEntry as ReceivedEntry
from tagcast.tables import ABSENT as ABSENT
from tagcast.tables import Delete as Delete
from tagcast.tables import Key as Key
from tagcast.tables import Page as Page
from tagcast.tables import Put as Put
from tagcast.tables import Row as Row
from tagcast.tables import Store as Store
from tagcast.tables import Table as Table
from tagcast.tables import Update as Update
from tagcast.tables import Write as Write
from tagcast.verification import EndpointGuard as EndpointGuard
from tagcast.verification import Verification as Verification

K = TypeVar("K")
P = ParamSpec("P")


class Memory:
    """The memory of a process: one value for each class, such as a cache.

    Only the package that defines a class uses its value. Losing this memory costs time, but never changes an answer.

    >>> class Seen(set[str]): "Words that were seen."
    >>> memory = Memory()
    >>> memory.of(Seen).add("a")
    >>> memory.of(Seen)
    Seen({'a'})
    """

    def __init__(self) -> None:
        self._kept: dict[type[Any], Any] = {}

    def of(self, kind: type[K]) -> K:
        """Return the value of a class, *kind*. The first call creates it with ``kind()``."""
        kept: K | None = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = kind()
        return kept


class Vault(Protocol):
    """Encrypts and decrypts secrets with a key that the service never sees.

    *context* identifies the subscription of the secrets. Decryption needs the context of the encryption.
    """

    def seal(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        """Return *plain* encrypted. Raises UnavailableError."""

    def open(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        """Return the plaintext of *sealed* in this context. Raises UnavailableError."""


class Signer(Protocol):
    """The service's keys (ed25519), for receivers without a shared secret; each subscription has its own key.

    While the seed is rotated, each subscription has two keys, and both sign.
    """

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`sign` may be called now, without a call of :meth:`prepare`."""

    def prepare(self) -> None:
        """Load the seeds, which may take a while. Raises UnavailableError."""

    def sign(self, subscription_id: str, content: bytes) -> tuple[bytes, ...]:
        """Return a signature of *content* by each key of a subscription. Call :meth:`prepare` first."""

    def public_keys(self, subscription_id: str) -> tuple[bytes, ...]:
        """Return the subscription's public keys, 32 bytes each. Raises UnavailableError."""


T = TypeVar("T")


class Workflow(Protocol):
    """Starts the workflow of each lane that is not active. The workflow waits until the lane's next attempt."""

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        """Start redelivery of one lane under *generation*. Return False if the start failed.

        Return True if redelivery under this generation was started before.
        """


class Pusher(Protocol):
    """The port to subscribers' endpoints."""

    async def push(self, push: Push) -> Outcome:
        """Make one attempt within the subscription's timeout. A failure is an outcome, never an exception."""

    async def push_batch(self, batch: PushBatch) -> Outcome:
        """Make several attempts in one request, like :meth:`push`. The outcome lists the messages that failed."""


class EventBus(Protocol):
    """Publishes changes of memberships, and events of topics, to listeners in the AWS account."""

    def announce(self, change: MembershipChange) -> None:
        """Publish one change. A failure is logged, never raised: the API lists the members anyway."""

    def publish(self, event: Mapping[str, object]) -> None:
        """Publish one topic event as a CloudEvent. A failure is only logged: the events topic has the event, too."""


class FilterFunctions(Protocol):
    """The port to subscribers' filter functions."""

    async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...] | None:
        """Call the subscription's function once for at most 100 messages, within the filter's ``timeout_seconds``.

        Returns one verdict for each message, in order; None after any error (a fault, a timeout, a malformed answer).
        """


class IndexArchive(Protocol):
    """Stores compiled topic indexes, to save time at a cold start. An index that cannot be loaded is built."""

    def load(self, name: str) -> bytes | None:
        """Return the content saved under *name*; None if nothing is saved, or if the archive is unavailable."""

    def save(self, name: str, content: bytes) -> None:
        """Save *content*; failures are ignored."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of the archive, and the time at which it arrived (milliseconds)."""

    name: str
    arrived_at: int


class MessageArchive(Protocol):
    """Reads the archived records of messages. Every call raises UnavailableError if the archive is unavailable."""

    def files(self, day: int) -> Sequence[ArchivedFile]:
        """Return the files that arrived on the UTC day beginning at *day* (milliseconds), newest first."""

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the records of a file, each a line of JSON; none if the file is gone."""


class Clock(Protocol):
    """Time, in milliseconds since 1970 UTC."""

    def now(self) -> int:
        """Return the current instant, in milliseconds since 1970 UTC."""

    def monotonic(self) -> float:
        """Return the seconds of a clock that is never set back, to measure durations."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for *seconds*."""

    async def pause(self, seconds: float) -> None:
        """Wait for *seconds* while other tasks of the running loop continue."""


class Executor(Protocol):
    """Runs blocking calls outside the event loop, so that no call delays a push."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of *call* with its arguments, or raise its error.

        The number of concurrent calls is bounded; they end in any order. Cancellation waits for a call that has begun,
        so that no call outlives its invocation.
        """


class Dice(Protocol):
    """The source of random numbers, ids and secrets."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high]."""

    def unique_id(self, now: int) -> str:
        """Return a unique id of 20 decimal digits, below 2^64. Ids of a later *now* (milliseconds) are higher."""

    def secret(self) -> str:
        """Return an unguessable text of at least 128 bits."""


class Telemetry(Protocol):
    """Log lines and metrics for operators, without bodies or secrets."""

    def record_attempt(self, push: Push, outcome: Outcome, state: EntryState, took_ms: int) -> None:
        """Record one attempt, its outcome, the *state* of the delivery after it, and its duration in milliseconds."""

    def record_end(self, message: Message, subscription: Subscription, state: EntryState) -> None:
        """Record a delivery that ended without a push, e.g. an expired or an acknowledged delivery."""

    def record_filter_failures(self, topic: str, subscriptions: Iterable[str], count: int = 1) -> None:
        """Record that *count* filters failed on a message of *topic*.

        *subscriptions* has the names of the subscriptions with these filters, or only of some of them.
        """

    def record_failure(self, what: str, error: Exception) -> None:
        """Record the failure of one piece of work, named *what*; other work continues."""

    def count(self, name: str, value: int = 1) -> None:
        """Add *value* to the metric *name*."""

    def record_wait(self, name: str, milliseconds: float) -> None:
        """Add the duration of one wait to the metric *name*, which has percentiles."""

    def watches(self, topic: str) -> bool:
        """Return whether *topic* has metrics for each of its subscriptions."""

    def record_subscription(self, topic: str, ordinal: int, subscription: str, values: Mapping[str, float]) -> None:
        """Record the backlog metrics *values* of a subscription, if :meth:`watches` is true for *topic*."""


@dataclass(frozen=True, slots=True)
class World:
    """All ports and limits of a process, as every use case takes them. *time_scale* divides all delays and lifetimes.

    - A state map of more than *section_max* entries is stored in sections. A first round is processed in slices of at
      most *slice_max* messages.
    - A publish may use a topic that was read at most *topic_known_s* ago. The function `retry` itself waits if the next
      attempt is due in less than *short_wait_s*.
    - The scopes of tokens begin with *scope_prefix*. *dead_letter_topics* are pairs of name patterns, for signed
      requests: dead letters and events of a topic that matches the first may go to a topic that matches the second.
    - At most *waiting_max* pulls, and as many tail requests, may wait per topic.
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
    """A publishing process may cache a topic's row for this time. A change is acknowledged only after this time."""
    short_wait_s: float = 10.0
    """A retry waits up to this time in its process; the workflow handles longer waits."""
    scope_prefix: str = ""
    dead_letter_topics: tuple[tuple[str, str], ...] = ()
    waiting_max: int = 100
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)
