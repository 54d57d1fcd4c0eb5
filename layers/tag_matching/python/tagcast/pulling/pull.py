"""A pull: gives messages of a group's queue to one of its members, with a visibility timeout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tagcast.model import BODY_BYTES_MAX, RETENTION_S_MAX, EntryState, LaneState, Push, Subscription, Topic
from tagcast.ports import GroupQueue, ReceivedEntry, World
from tagcast.pulling.group import end_after_pull, group_of, keep_failure, queue_s
from tagcast.pulling.handles import Handle
from tagcast.queues import RECEIVED_MAX
from tagcast.registry.members import check_filter
from tagcast.registry.waiting import waiting
from tagcast.rows import stored
from tagcast.rows.due import NOT_ACKNOWLEDGED
from tagcast.rows.message import MessageRow
from tagcast.rows.waiting import WaitingFor

ESCAPED_MAX = 7
DROPPING_S = 5.0
"""A pull that finds only ended messages continues for at most 5 s after its wait."""
LIFE_S = RETENTION_S_MAX + 60
"""A change of a topic's limits applies to all live messages after this time.

Messages from before the change live at most a day. A publish that read the topic before the change ends within 29 s.
"""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull by *member_id*, for at most *messages_max* messages. A consumer without heartbeats has no *member_id*.

    *wait_s* is the longest wait for a first message. *size_of* returns the size of a message in the response. The pull
    stops when the sum of the sizes reaches *size_enough* bytes, or when the next message could exceed *size_max*. The
    next message counts as *around_max* bytes, plus seven bytes for each byte of the largest allowed body. An escaped
    control character takes seven bytes.
    """

    messages_max: int
    wait_s: int
    visibility_timeout_s: int
    size_of: Callable[[PulledMessage], int]
    size_enough: int
    size_max: int
    around_max: int
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class PulledMessage:
    """A pulled message, with its receipt handle. *attempt* is a Push, because a pull counts as an attempt."""

    attempt: Push
    receipt_handle: str


def pull(world: World, topic: str, name: str, wish: PullRequest) -> tuple[PulledMessage, ...]:
    """Return messages of the group's queue for a member, and end deliveries that expired or have no retries left.

    A pull from a paused group waits, and then returns no messages. Raises NotFoundError, ConflictError if the
    subscription is not a group, DisagreementError if the member has another filter or order, UnavailableError, and
    ThrottledError if too many requests wait.
    """
    group = group_of(world, topic, name)
    if wish.member_id is not None:
        check_filter(world, group, wish.member_id)
    lane = stored.lane(world.store, topic, group.subscription_id)
    if lane is not None and lane.state in (LaneState.PAUSED, LaneState.REMOVED):
        if wish.wait_s:
            with waiting(world, topic, WaitingFor.MESSAGES, wish.wait_s):
                world.clock.sleep(wish.wait_s)
        return ()
    visit = _Visit(world, group, wish, world.clock.monotonic() + wish.wait_s)
    while (limit := visit.limit()) and visit.may_go_on():
        try:
            received = visit.receive_or_wait(limit)
            if not received:
                break
            visit.take(received)
        except Exception as fault:  # Messages that were handed out must reach their member.
            if not visit.handed:
                raise
            world.telemetry.record_failure("the rest of a pull", fault)
            break
    return tuple(visit.handed.values())


@dataclass(slots=True)
class _Visit:
    """The progress of one pull, which waits until *until* (monotonic). *entries* has each message's first entry."""

    world: World
    group: Subscription
    wish: PullRequest
    until: float
    handed: dict[str, PulledMessage] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)
    size: int = 0
    bound: int = 0

    @property
    def queue(self) -> GroupQueue:
        return GroupQueue.of(self.group)

    def limit(self) -> int:
        """Return how many messages to receive next. All must fit into the response, because a receive is an attempt."""
        if self.size >= self.wish.size_enough:
            return 0
        if not self.bound:
            topic = stored.topic(self.world.store, self.group.topic)
            self.bound = self.wish.around_max + ESCAPED_MAX * _body_bytes_max(topic, self.world.clock.now())
        room = (self.wish.size_max - self.size) // self.bound
        return min(RECEIVED_MAX, self.wish.messages_max - len(self.handed), room)

    def may_go_on(self) -> bool:
        return self.world.clock.monotonic() < self.until + DROPPING_S

    def wait_s(self) -> int:
        return 0 if self.handed else max(0, round(self.until - self.world.clock.monotonic()))

    def receive_or_wait(self, limit: int) -> Sequence[ReceivedEntry]:
        """Receive from the queue. If it is empty, take one of the topic's waiting places and wait for entries."""
        found = self.receive(limit, 0)
        wait_s = self.wait_s()
        if found or not wait_s:
            return found
        with waiting(self.world, self.group.topic, WaitingFor.MESSAGES, wait_s):
            return self.receive(limit, wait_s)

    def receive(self, limit: int, wait_s: int) -> Sequence[ReceivedEntry]:
        visibility_timeout_s = queue_s(self.world, self.wish.visibility_timeout_s)
        return self.world.group_queues.receive(
            self.queue, limit=limit, wait_s=wait_s, visibility_timeout_s=visibility_timeout_s
        )

    def take(self, received: Sequence[ReceivedEntry]) -> None:
        """Hand out pending messages; end the others, or delete them from the queue."""
        store, topic = self.world.store, self.group.topic
        rows = stored.messages_with(
            store, topic, list({each.message_id: None for each in received}), self.group.ordinal
        )
        gone = [each.receipt for each in received if not self.hand_out(each, rows.get(each.message_id))]
        if gone:
            self.world.group_queues.delete(self.queue, gone)

    def hand_out(self, received: ReceivedEntry, row: MessageRow | None) -> bool:
        """Hand out one message; return False if its queue entry must be deleted.

        One pull may receive a message twice. If the second entry is another copy, the copy is deleted. If it is the
        same entry, after its visibility timeout, only the later handle is returned.
        """
        if row is None or self.group.ordinal not in row.map.pending:
            return False
        if self.entries.setdefault(received.message_id, received.entry_id) != received.entry_id:
            return False
        self.handed.pop(received.message_id, None)
        message, failed, now = row.message, received.times - 1, self.world.clock.now()
        if message.is_expired(now):
            end_after_pull(self.world, self.group, row, EntryState.EXPIRED, failed)
            return False
        if failed > self.group.settings.retry.max_retries:
            end_after_pull(self.world, self.group, row, EntryState.DISCARDED, failed)
            return False
        if failed:
            keep_failure(self.world, self.group, message, failed, NOT_ACKNOWLEDGED)
        until = now + queue_s(self.world, self.wish.visibility_timeout_s) * 1000
        handle = Handle(message.message_id, received.times, now, until, received.receipt)
        handed = PulledMessage(Push(self.group, message, received.times), handle.text(self.group))
        self.handed[message.message_id] = handed
        self.size += self.wish.size_of(handed)
        return True


def _body_bytes_max(topic: Topic | None, now: int) -> int:
    """Return the maximum bytes of a live message's body: the limit of *topic*; after a recent change, of all topics."""
    if topic is None or topic.created_at < topic.updated_at > now - LIFE_S * 1000:
        return BODY_BYTES_MAX
    return topic.settings.body_bytes_max
