"""Histories of one pull group: members that die, answer late or twice, a queue that loses answers, workers that crash.

The shipped use cases run on the memory world, one after the other; an accident ends one of them at a call of the store
or of the group's queue, before or after that took effect. What a member saw is kept in a ledger beside the tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tagcast.errors import ConflictError, NotFoundError, UnavailableError
from tagcast.model import Entry, EntryState, LaneState, Subscription
from tagcast.operating import lanes
from tagcast.ports import GroupQueue, QueueEntry, Row, Write
from tagcast.pulling.answering import Status, acknowledge, extend, give_back
from tagcast.pulling.pull import Handed, Wish, pull
from tagcast.registry import subscriptions
from tagcast.rows import stored
from tagcast.rows.keys import retained_key

from tests.fakes.group_queues import FakeGroupQueues
from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FakeWorld

STEPS, MAX_RETRIES, LIFE_S = 60, 2, 600
INVISIBLE_S = (10, 30, 120)


class CrashError(Exception):
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
    """A message in a member's hands: nobody else has it before *until*, and its handle is good before *good_until*."""

    handed: Handed
    handle: str
    until: int
    good_until: int

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
        self.ordered = self.dice.random() < 0.5
        self.group: Subscription = self.world.group("g", max_retries=MAX_RETRIES, ordered=self.ordered)
        self.beside = self.dice.random() < 0.5
        if self.beside:
            self.world.subscribe("pushed")
        self.published: list[str] = []
        self.held: list[Held] = []
        self.acked: set[str] = set()
        self.resent = False
        self.ends: dict[str, Entry] = {}
        self.removed = self.paused = False

    def moves(self) -> Sequence[Callable[[], None]]:
        return (
            self.publish, self.publish, self.first_round, self.first_round, self.pull, self.pull, self.pull, self.ack,
            self.ack, self.nack, self.extend, self.repeat_round, self.pass_time, self.pause_or_resume, self.work,
            self.queue_trouble, self.sweep,
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

    def pull(self) -> None:
        invisible_s = self.dice.choice(INVISIBLE_S)
        wish = Wish(self.dice.randint(1, 12), 0, invisible_s, lambda handed: 1, 10**6, 10**9, 1)
        handed = pull(self.world.world, "test1", "g", wish)
        now = self.world.clock.now()
        if handed and (self.paused or self.removed):
            raise BrokenPromiseError("a paused or removed group gave something")
        for each in handed:
            self._handed_out(each, now + invisible_s * 1000)

    def _handed_out(self, handed: Handed, until: int) -> None:
        message, now = handed.attempt.message, self.world.clock.now()
        if message.is_expired(now):
            raise BrokenPromiseError("handed out after its life")
        if handed.attempt.attempt > MAX_RETRIES + 1:
            raise BrokenPromiseError("handed out more often than its retries allow")
        if message.message_id in self.ends:
            raise BrokenPromiseError("handed out after its end")
        others = [held for held in self.held if held.message_id == message.message_id and held.until > now]
        if others and (self.ordered or not self.resent):
            raise BrokenPromiseError("two members have the same message")
        self.held.append(Held(handed, handed.receipt_handle, until, until))

    def ack(self) -> None:
        chosen = self._chosen()
        in_time = {held.message_id for held in chosen if held.good_until > self.world.clock.now()}
        self.acked |= in_time
        for held, answer in zip(chosen, acknowledge(self.world.world, "test1", "g", _handles(chosen)), strict=True):
            if answer.status is Status.ACKNOWLEDGED and held.message_id not in in_time:
                raise BrokenPromiseError("acknowledged although its time was over")
            if answer.status in (Status.ACKNOWLEDGED, Status.ALREADY_ACKNOWLEDGED):
                self._expect(held.message_id, EntryState.DELIVERED)

    def nack(self) -> None:
        chosen = self._chosen()
        for held in chosen:
            if held.until > self.world.clock.now():
                held.until = self.world.clock.now()
        give_back(self.world.world, "test1", "g", _handles(chosen), self.dice.choice((0, 0, 20)))

    def extend(self) -> None:
        for held in self._chosen():
            [answer] = extend(self.world.world, "test1", "g", [held.handle], 60)
            if answer.status is Status.EXTENDED:
                assert answer.new is not None
                held.handle = answer.new
                held.until = held.good_until = self.world.clock.now() + 60_000

    def _chosen(self) -> list[Held]:
        return self.dice.sample(self.held, min(len(self.held), self.dice.randint(1, 4)))

    def pass_time(self) -> None:
        self.world.clock.sleep(self.dice.choice((1, 5, 15, 40, 200)))

    def pause_or_resume(self) -> None:
        self.accidents.left = None
        if self.paused:
            lanes.resume(self.world.world, "test1", "g")
        else:
            lanes.pause(self.world.world, "test1", "g")
        self.paused = not self.paused

    def work(self) -> None:
        self.world.run_workflows(self.world.clock.instant + 1_000)

    def queue_trouble(self) -> None:
        self.world.group_queues.broken = not self.world.group_queues.broken

    def sweep(self) -> None:
        self.world.sweep()

    # What must hold.

    def check(self) -> None:
        for message_id in self.published:
            row = stored.message(self.world.store, "test1", message_id)
            if row is None:
                raise BrokenPromiseError("a message is gone")
            is_listed = retained_key("test1", message_id) in self.world.store.rows
            if is_listed != (not row.map.round_open and row.map.owed != row.map.handed):
                raise BrokenPromiseError("the list of what is retained is not what is owed")
            if row.has_body != (row.is_kept or bool(row.map.owed)):
                raise BrokenPromiseError("the body is not kept as long as it is owed")
            if not row.map.handed <= row.map.owed:
                raise BrokenPromiseError("what is handed over is not owed")
            if self.group.ordinal in row.map.owed:
                self._check_in_sight(message_id, row.map.handed, row.map.round_open)
            else:
                self._check_end(message_id, row.map.entry(self.group.ordinal))

    def _check_in_sight(self, message_id: str, handed: frozenset[int], is_open: bool) -> None:
        dues = {due.message_id for due in stored.dues(self.world.store, self.group.subscription_id)}
        queued = {held.entry.message_id for entries in self.world.group_queues.queues.values() for held in entries}
        if self.group.ordinal in handed and message_id not in queued and not self.removed:
            raise BrokenPromiseError("what was handed over does not lie in the queue")
        if not is_open and self.group.ordinal not in handed and message_id not in dues:
            raise BrokenPromiseError("after the first round something is owed that nobody works on")

    def _check_end(self, message_id: str, entry: Entry) -> None:
        if self.ends.setdefault(message_id, entry) != entry:
            raise BrokenPromiseError("an end changed")
        if entry.state is EntryState.DELIVERED and message_id not in self.acked:
            raise BrokenPromiseError("delivered although nobody acknowledged it")
        if entry.state is EntryState.DISCARDED and entry.attempts <= MAX_RETRIES:
            raise BrokenPromiseError("discarded before its retries were spent")
        if entry.state is EntryState.CANCELLED and not self.removed:
            raise BrokenPromiseError("cancelled although the group is there")

    def _expect(self, message_id: str, state: EntryState) -> None:
        row = stored.message(self.world.store, "test1", message_id)
        if row is None or row.map.entry(self.group.ordinal).state is not state:
            raise BrokenPromiseError("a member was told something else than the state map says")

    def come_to_rest(self) -> None:
        """Let all trouble end: then everything is pulled, or the group goes; and nothing is owed any more."""
        self.world.group_queues.broken = False
        while self.world.queue.entries:
            self.first_round()
        if self.dice.random() < 0.4:
            subscriptions.delete_subscription(self.world.world, "test1", "g")
            self.removed = True
        elif self.paused:
            self.pause_or_resume()
        for _ in range(12):
            self.world.clock.sleep(130)
            self.world.sweep()
            with suppress(NotFoundError):
                if not self.removed:
                    lanes.retry_now(self.world.world, "test1", "g")
            self.world.run_workflows(self.world.clock.instant + 60_000)
            if not self.removed:
                self.pull()
                self.ack()
        self.world.clock.sleep(LIFE_S + 3_700)
        for _ in range(3):
            self.world.clock.sleep(6 * 3_600)
            self.world.sweep()
            while self.world.queue.entries:  # What a search found that nobody had sent.
                self.first_round()
            self.world.run_workflows(self.world.clock.instant + 60_000)
        self.check()
        owed = [row for row in map(self._row, self.published) if row.get("pending")]
        if owed:
            raise BrokenPromiseError("something is owed for ever")
        if self.removed and GroupQueue.of(self.group) in self.world.group_queues.queues:
            raise BrokenPromiseError("the queue of a removed group stays")
        lane = stored.lane(self.world.store, "test1", self.group.subscription_id)
        if not self.removed and lane is not None and lane.state is not LaneState.REMOVED and lane.wake_at is None:
            raise BrokenPromiseError("a lane that nobody looks at")

    def _row(self, message_id: str) -> Row:
        return next(row for row in self.world.store.rows.values() if row.get("message_id") == message_id)


def _handles(held: Sequence[Held]) -> list[str]:
    return [each.handle for each in held]
