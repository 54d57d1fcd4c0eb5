"""Histories of pull groups of a topic: members that die, answer late or twice, queues that lose answers, crashes.

The shipped use cases run on the memory world, one after the other; an accident ends one of them at a call of the store
or of the group's queue, before or after that took effect. What a member saw is kept in a ledger beside the tables.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tagcast.delivery.dead_letter import DEAD_LETTER_FROM, DEAD_LETTER_OF
from tagcast.errors import ConflictError, NotFoundError, UnavailableError
from tagcast.model import Entry, EntryState, LaneState, Subscription
from tagcast.operating import lanes
from tagcast.ports import GroupQueue, Key, QueueEntry, Row, Write
from tagcast.pulling.acknowledge import HandleResult, Status, acknowledge, extend, release
from tagcast.pulling.pull import PulledMessage, PullRequest, pull
from tagcast.registry import subscriptions
from tagcast.repairing.relay import EndedDelivery, relay
from tagcast.rows import stored
from tagcast.rows.keys import retained_key
from tagcast.rows.message import MESSAGES, MessageRow

from tests.fakes.group_queues import FakeGroupQueues
from tests.fakes.memory_store import MemoryStore
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FakeWorld

STEPS, LIFE_S = 60, 600
RETRIES = (0, 1, 2, 4)
VISIBILITY_TIMEOUT_S = (10, 30, 120, 120)
LETTERS = "letters"
"""The dead-letter topic."""


class CrashError(BaseException):
    """The process dies here."""


class BrokenPromiseError(AssertionError):
    """A history in which a promise did not hold."""


@dataclass
class Accidents:
    """When the running use case dies: at its *left*-th call, before or after its effect (None: not at all).

    A *rival* does something before the call that is its *rival_in*-th.
    """

    dice: random.Random
    left: int | None = None
    rival: Callable[[], object] | None = None
    rival_in: int = 1

    def around(self, effect: Callable[[], Any]) -> Any:
        if self.rival is not None:
            self._let_the_rival_move()
        if self.left is None:
            return effect()
        self.left -= 1
        if self.left > 0:
            return effect()
        self.left = None
        if self.dice.random() < 0.5:
            effect()
        raise CrashError

    def _let_the_rival_move(self) -> None:
        self.rival_in -= 1
        if self.rival is not None and self.rival_in <= 0:
            (rival, self.rival), (left, self.left) = (self.rival, None), (self.left, None)
            with suppress(UnavailableError, ConflictError, NotFoundError):
                rival()
            self.left = left


class CrashingStore(MemoryStore):
    """A store at whose writes a worker may die."""

    accidents: Accidents

    def transact(self, writes: Sequence[Write]) -> None:
        self.accidents.around(lambda: super(CrashingStore, self).transact(writes))


@dataclass
class CrashingQueues(FakeGroupQueues):
    """Queues of groups at whose calls a worker may die."""

    accidents: Accidents = field(default_factory=lambda: Accidents(random.Random()))

    def send(self, queue: Any, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        return self.accidents.around(lambda: FakeGroupQueues.send(self, queue, entries))  # type: ignore[no-any-return]

    def receive(self, queue: Any, **how: Any) -> Any:
        return self.accidents.around(lambda: FakeGroupQueues.receive(self, queue, **how))

    def delete(self, queue: Any, receipts: Sequence[str]) -> None:
        self.accidents.around(lambda: FakeGroupQueues.delete(self, queue, receipts))

    def hide(self, queue: Any, seconds: Any) -> Any:
        return self.accidents.around(lambda: FakeGroupQueues.hide(self, queue, seconds))


@dataclass
class Held:
    """A message in a member's hands: nobody else has it before *until*, and its handle is good before *good_until*.

    The queue keeps it to itself before *back_at*, if it was given back with a delay.
    """

    group: str
    handed: PulledMessage
    handle: str
    until: int
    good_until: int
    back_at: int = 0

    @property
    def message_id(self) -> str:
        return self.handed.attempt.message.message_id


class GroupHistory:
    """One history from its seed; `play` raises BrokenPromiseError where a promise does not hold."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        accidents = Accidents(self.dice)
        store = CrashingStore()
        store.accidents = accidents
        self.accidents = accidents
        self.world = FakeWorld(store=store)
        queues = CrashingQueues(self.world.clock.now, self.world.clock.sleep, accidents=accidents)
        self.world.group_queues = queues
        object.__setattr__(self.world.world, "group_queues", queues)
        self.world.topic(retention_s=LIFE_S)
        self.world.topic(LETTERS)
        self.has_letters = self.dice.random() < 0.7
        self.ordered = self.dice.random() < 0.5
        self.retries: dict[str, set[int]] = {}
        """Every number of retries that a group was made with."""
        self.groups = {
            name: self._made(name, self.dice.choice(RETRIES)) for name in ("g", "h")[: self.dice.choice((1, 2))]
        }
        self.beside = self.dice.random() < 0.5
        if self.beside:
            self.world.subscribe("pushed")
        self.published: list[str] = []
        self.held: list[Held] = []
        self.acked: set[tuple[str, str]] = set()
        self.resent = False
        self.streamed: dict[Key, dict[str, Any]] = {}
        """The rows of ends and rounds as the stream told the relay of them."""
        self.ends: dict[tuple[str, str], Entry] = {}
        self.removed: set[str] = set()
        self.paused: set[str] = set()

    def _made(self, name: str, max_retries: int) -> Subscription:
        """Make a group, or change how often it retries."""
        topic = LETTERS if self.has_letters else None
        made = self.world.group(name, max_retries=max_retries, ordered=self.ordered, dead_letter_topic=topic)
        self.retries.setdefault(name, set()).add(max_retries)
        return made

    def moves(self) -> Sequence[Callable[[], None]]:
        return (
            self.publish, self.publish, self.first_round, self.first_round, self.pull, self.pull, self.pull, self.ack,
            self.ack, self.nack, self.nack, self.extend, self.repeat_round, self.pass_time, self.pause_or_resume,
            self.work, self.queue_trouble, self.sweep, self.change_retries, self.return_late, self.die_discarding,
            self.stream,
        )  # fmt: skip

    def play(self) -> None:
        moves = self.moves()
        for _ in range(STEPS):
            self.accidents.left = self.dice.randint(1, 6) if self.dice.random() < 0.25 else None
            try:
                self.dice.choice(moves)()
            except CrashError:
                self.resent = True
            except (UnavailableError, ConflictError, NotFoundError):
                pass
            self.accidents.left = self.accidents.rival = None
            self.check()
        self.come_to_rest()

    # What happens.

    def publish(self) -> None:
        self.accidents.left = None
        self.published += self.world.publish(*(f"{self.dice.random()}" for _ in range(self.dice.randint(1, 3))))

    def first_round(self) -> None:
        entries, self.world.queue.entries = self.world.queue.entries[:10], self.world.queue.entries[10:]
        if entries:
            try:
                self.world.fan_out("test1", [entry.message_id for entry in entries])
            except BaseException:
                self.world.queue.entries = [*entries, *self.world.queue.entries]
                raise

    def repeat_round(self) -> None:
        if self.published:
            self.world.fan_out("test1", self.dice.sample(self.published, min(3, len(self.published))))

    def pull(self, group: str = "", visibility_timeout_s: int = 0) -> None:
        group = group or self.dice.choice(list(self.groups))
        visibility_timeout_s = visibility_timeout_s or self.dice.choice(VISIBILITY_TIMEOUT_S)
        wish = PullRequest(self.dice.randint(1, 12), 0, visibility_timeout_s, lambda handed: 1, 10**6, 10**9, 1)
        handed = pull(self.world.world, "test1", group, wish)
        now = self.world.clock.now()
        if handed and group in self.paused | self.removed:
            raise BrokenPromiseError("a paused or removed group gave something")
        for each in handed:
            self._handed_out(group, each, now + visibility_timeout_s * 1000)

    def _handed_out(self, group: str, handed: PulledMessage, until: int) -> None:
        message, now = handed.attempt.message, self.world.clock.now()
        if message.is_expired(now):
            raise BrokenPromiseError("handed out after its life")
        if handed.attempt.attempt > max(self.retries[group]) + 1:
            raise BrokenPromiseError("handed out more often than its retries allow")
        if (message.message_id, group) in self.ends:
            raise BrokenPromiseError("handed out after its end")
        same = [held for held in self.held if (held.message_id, held.group) == (message.message_id, group)]
        if any(held.until > now for held in same) and (self.ordered or not self.resent):
            raise BrokenPromiseError("two members have the same message")
        if any(held.back_at > now for held in same) and self._copies(group, message.message_id) == 1:
            raise BrokenPromiseError("handed out before the delay with which it was given back")
        self.held.append(Held(group, handed, handed.receipt_handle, until, until))

    def ack(self) -> None:
        chosen = self._chosen()
        in_time = {held.message_id for held in chosen if held.good_until > self.world.clock.now()}
        self.acked |= {(held.message_id, held.group) for held in chosen if held.message_id in in_time}
        for held, answer in self._said(acknowledge, chosen):
            if answer.status is Status.ACKNOWLEDGED and held.message_id not in in_time:
                raise BrokenPromiseError("acknowledged although its time was over")
            if answer.status in (Status.ACKNOWLEDGED, Status.ALREADY_ACKNOWLEDGED):
                self._expect(held, EntryState.DELIVERED)

    def nack(self) -> None:
        self._give_back(self._chosen(), self.dice.choice((0, 0, 20, 90)))

    def return_late(self) -> None:
        """Give back what was pulled a while ago, and pull again before it may come."""
        group, began_at = self.dice.choice(list(self.groups)), self.world.clock.now()
        self.pull(group, 120)
        self.world.clock.sleep(45)
        self._give_back([held for held in self.held if held.group == group and held.until == began_at + 120_000], 90)
        self.world.clock.sleep(5)
        self.pull(group)

    def die_discarding(self) -> None:
        """Die in a pull, perhaps between a letter and its discard, and let another member pull the same."""
        group = self.dice.choice(list(self.groups))
        self.accidents.left = self.dice.randint(2, 4)
        with suppress(CrashError):
            self.pull(group)
        self.accidents.left = None
        self.world.clock.sleep(max(VISIBILITY_TIMEOUT_S))
        self.pull(group)

    def _give_back(self, chosen: Sequence[Held], delay_s: int) -> None:
        kept = [held for held in chosen if held.until > self.world.clock.now()]
        for held in kept:
            held.until = self.world.clock.now()
        for held, answer in self._said(release, chosen, delay_s):
            if answer.status is Status.RETURNED:  # What was given back before may come as it is asked for now.
                is_sure = held in kept and self._copies(held.group, held.message_id) == 1
                held.back_at = self.world.clock.now() + delay_s * 1000 if is_sure else 0

    def extend(self) -> None:
        for held in self._chosen():
            [(_, answer)] = self._said(extend, [held], 60)
            if answer.status is Status.EXTENDED:
                assert answer.new is not None
                held.handle = answer.new
                held.until = held.good_until = self.world.clock.now() + 60_000
                held.back_at = 0

    def change_retries(self) -> None:
        self.accidents.left = None
        self._made(self.dice.choice(list(self.groups)), self.dice.choice(RETRIES))

    def _said(self, verb: Callable[..., Any], held: Sequence[Held], *more: int) -> list[tuple[Held, HandleResult]]:
        """Let a member say something of what it has, of one group; return what became of each."""
        if not held:
            return []
        handles = [each.handle for each in held]
        return list(zip(held, verb(self.world.world, "test1", held[0].group, handles, *more), strict=True))

    def _copies(self, group: str, message_id: str) -> int:
        """Return how often a message lies in the queue of a group: more than once after an accident."""
        queued = self.world.group_queues.queues.get(GroupQueue.of(self.groups[group]), ())
        return sum(held.entry.message_id == message_id for held in queued)

    def _chosen(self) -> list[Held]:
        group = self.dice.choice([name for name in self.groups if name not in self.removed])
        since = self.world.clock.now() if self.dice.random() < 0.6 else 0
        held = [each for each in self.held if each.group == group and each.good_until > since]
        return self.dice.sample(held, min(len(held), self.dice.randint(1, 4)))

    def pass_time(self) -> None:
        self.world.clock.sleep(self.dice.choice((1, 5, 15, 45, 200)))

    def pause_or_resume(self) -> None:
        self.accidents.left = None
        group = self.dice.choice(list(self.groups))
        (lanes.resume if group in self.paused else lanes.pause)(self.world.world, "test1", group)
        self.paused ^= {group}

    def work(self) -> None:
        self.world.run_workflows(self.world.clock.instant + 1_000)

    def queue_trouble(self) -> None:
        self.world.group_queues.broken = not self.world.group_queues.broken

    def sweep(self) -> None:
        self.world.sweep()

    def stream(self) -> None:
        """Let the stream tell the relay of the ends and rounds since the last time; a batch that fails comes again.

        Messages without pending deliveries are released, unless a worker died before: then the search finds them.
        """
        rows = {key: dict(row) for key, row in self.world.store.rows.items() if key.sk.startswith(("END#", "ROUND#"))}
        news = [row for key, row in rows.items() if self.streamed.get(key) != row]
        relay(self.world.world, [EndedDelivery(row["topic"], row["message_id"]) for row in news])
        self.streamed = rows
        if not self.resent:
            self._check_let_go()

    # What must hold.

    def _check_let_go(self) -> None:
        for message_id in self.published:
            row = whole_message(self.world.store, "test1", message_id)
            assert row is not None
            is_listed = retained_key("test1", message_id) in self.world.store.rows
            if not row.map.pending and (row.is_pending or is_listed or (row.has_body and not row.is_kept)):
                raise BrokenPromiseError("a message without pending deliveries was not released")

    def check(self) -> None:
        for message_id in self.published:
            row = whole_message(self.world.store, "test1", message_id)
            if row is None:
                raise BrokenPromiseError("a message is gone")
            is_listed = retained_key("test1", message_id) in self.world.store.rows
            if row.map.pending - row.map.waiting - row.map.enqueued and not is_listed:
                raise BrokenPromiseError("the list of what is retained is not what is pending")
            if is_listed and not row.is_pending:
                raise BrokenPromiseError("what was let go is listed as retained")
            if (row.is_kept and not row.has_body) or (row.map.pending and not (row.has_body and row.is_pending)):
                raise BrokenPromiseError("the body is not kept as long as it is pending")
            if not row.map.enqueued <= row.map.pending:
                raise BrokenPromiseError("what is handed over is not pending")
            for name, group in self.groups.items():
                if group.ordinal in row.map.pending:
                    self._check_in_sight(row, name)
                else:
                    self._check_end(message_id, name, row.map.entry(group.ordinal))
        self._check_letters()

    def _check_in_sight(self, row: MessageRow, name: str) -> None:
        group, message_id = self.groups[name], row.message.message_id
        dues = {due.message_id for due in stored.dues(self.world.store, group.subscription_id)}
        queued = {held.entry.message_id for held in self.world.group_queues.queues.get(GroupQueue.of(group), ())}
        if group.ordinal in row.map.enqueued and message_id not in queued and name not in self.removed:
            raise BrokenPromiseError("what was handed over does not lie in the queue")
        is_in_round = group.ordinal in row.map.waiting
        if not is_in_round and group.ordinal not in row.map.enqueued and message_id not in dues:
            raise BrokenPromiseError("after the first round something is pending that nobody works on")

    def _check_end(self, message_id: str, name: str, entry: Entry) -> None:
        if self.ends.setdefault((message_id, name), entry) != entry:
            raise BrokenPromiseError("an end changed")
        if entry.state is EntryState.DELIVERED and (message_id, name) not in self.acked:
            raise BrokenPromiseError("delivered although nobody acknowledged it")
        if entry.state is EntryState.DISCARDED and entry.attempts <= min(self.retries[name]):
            raise BrokenPromiseError("discarded before its retries were spent")
        if entry.state is EntryState.CANCELLED and name not in self.removed:
            raise BrokenPromiseError("cancelled although the group is there")

    def _check_letters(self) -> None:
        """Check that each discard made a letter, and one only within its life."""
        letters = sorted(self._letters())
        for earlier, later in pairwise(letters):
            if earlier[:2] == later[:2] and later[2] < earlier[3]:
                raise BrokenPromiseError("a discard made two letters within the life of the first")
        made = {each[:2] for each in letters}
        discarded = {key for key, end in self.ends.items() if end.state is EntryState.DISCARDED}
        if self.has_letters and not discarded <= made:
            raise BrokenPromiseError("a discard made no letter")
        for key in made:
            end = self.ends.get(key)  # A process that died after the letter left the end to others.
            if end is not None and end.state is not EntryState.DISCARDED and end.attempts <= min(self.retries[key[1]]):
                raise BrokenPromiseError("a letter of what was not discarded")

    def _letters(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield of which message each letter is, of which group, when it was accepted and until when it lives."""
        for key, row in self.world.store.rows.items():
            if key.sk == "MSG" and row["topic"] == LETTERS:
                letter = MESSAGES.value_of(row).message
                topic, _, group = letter.properties[DEAD_LETTER_FROM].partition("/")
                assert topic == "test1"
                yield letter.properties[DEAD_LETTER_OF], group, letter.accepted_at, letter.expires_at

    def _expect(self, held: Held, state: EntryState) -> None:
        row = whole_message(self.world.store, "test1", held.message_id)
        if row is None or row.map.entry(self.groups[held.group].ordinal).state is not state:
            raise BrokenPromiseError("a member was told something else than the state map says")

    def come_to_rest(self) -> None:
        """Let all trouble end: then everything is pulled, or a group goes; and nothing is pending any more."""
        self.world.group_queues.broken = False
        while self.world.queue.entries:
            self.first_round()
        if self.dice.random() < 0.4:
            subscriptions.delete_subscription(self.world.world, "test1", "g")
            self.removed.add("g")
        for name in self.paused - self.removed:
            lanes.resume(self.world.world, "test1", name)
        self.paused.clear()
        left = [name for name in self.groups if name not in self.removed]
        for _ in range(12):
            self.world.clock.sleep(130)
            self.world.sweep()
            for name in left:
                with suppress(NotFoundError):
                    lanes.retry_now(self.world.world, "test1", name)
            self.world.run_workflows(self.world.clock.instant + 60_000)
            for name in left:
                self.pull(name)
            if left:
                self.ack()
        if self.dice.random() < 0.7:  # Otherwise the search has to find it all.
            self.stream()
        self.world.clock.sleep(LIFE_S + 3_700)
        for _ in range(3):
            self.world.clock.sleep(6 * 3_600)
            self.world.sweep()
            while self.world.queue.entries:  # What a search found that nobody had sent.
                self.first_round()
            self.world.run_workflows(self.world.clock.instant + 60_000)
        self.check()
        self._check_rest()

    def _check_rest(self) -> None:
        if any(self._row(message_id).get("pending") for message_id in self.published):
            raise BrokenPromiseError("something is pending for ever")
        for name, group in self.groups.items():
            if name in self.removed and GroupQueue.of(group) in self.world.group_queues.queues:
                raise BrokenPromiseError("the queue of a removed group stays")
            lane = stored.lane(self.world.store, "test1", group.subscription_id)
            is_there = name not in self.removed and lane is not None and lane.state is not LaneState.REMOVED
            if is_there and lane is not None and lane.wake_at is None:
                raise BrokenPromiseError("a lane that nobody looks at")

    def _row(self, message_id: str) -> Row:
        return next(row for row in self.world.store.rows.values() if row.get("message_id") == message_id)
