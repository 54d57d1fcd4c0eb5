"""A worker without a thread: the shipped code is run anew with what it was answered so far, and one step further.

The shipped code is a function of its input and of the answers of its ports, so a worker is its log of answers. That
makes every state of a small world a value, which an explorer can come back to.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from tagcast.errors import TagcastError
from tagcast.model import Outcome, Push
from tagcast.ports import Key, Memory, Row, Store, Table, Update, World, Write
from tagcast.registry.directory import Directories, Directory

from tests.fakes.memory_store import is_written
from tests.fakes.world import FakeWorld, OneByOne, QuietTelemetry

OK, FAILED = Outcome(True, "http 200"), Outcome(False, "http 500")
PushName = tuple[str, int]
"""A push by its message and its subscription's ordinal."""


_TEMPLATE = FakeWorld().world


class Paused(BaseException):
    """The log is at its end, and so is this run."""


class DivergedError(BaseException):
    """The shipped code did something else than before, with the same answers."""


class Event(NamedTuple):
    """One answer: of a call (*value*, raised if it is an exception), or of a receiver (*push* names the push)."""

    value: Any
    push: PushName | None = None


@dataclass(frozen=True)
class Actor:
    """One invocation: what it runs, and every answer that it got."""

    kind: str
    name: str
    body: Callable[[World], Any]
    lane: tuple[str, str] | None = None
    log: tuple[Event, ...] = ()
    digest: str = ""

    def then(self, event: Event) -> Actor:
        told = hashlib.md5(f"{self.digest}{event!r}".encode(), usedforsecurity=False).hexdigest()
        return replace(self, log=(*self.log, event), digest=told)


class Effects(NamedTuple):
    """What calls do to the small world, and what its clock says."""

    call: Callable[[Actor, str, tuple[Any, ...]], Any]
    now: Callable[[], int]
    begin_push: Callable[[Actor, Push], None]
    directories: Mapping[str, Directory]
    """What a process remembers of topics from earlier invocations."""
    late_answers: bool
    """Whether a pause may be over before a push that is under way."""


@dataclass(frozen=True)
class Standing:
    """Where an actor stands: at a call (no pushes), at pushes in flight, or at its end."""

    actor: Actor
    pushes: tuple[PushName, ...] = ()
    ended: bool = False
    answer: Any = None
    fault: BaseException | None = None


def proceed(actor: Actor, effects: Effects, *, step: bool, answer: Event | None = None) -> Standing:
    """Run *actor* to where it waits next; with *step* its next call is carried out, with *answer* a push ends."""
    if answer is not None:
        actor = actor.then(answer)
    return _Run(actor, effects, steps_left=int(step)).stand()


class _Run:
    """One run of the shipped code over a log, and the ports that it sees."""

    def __init__(self, actor: Actor, effects: Effects, steps_left: int) -> None:
        self.actor = actor
        self.effects = effects
        self.place = 0
        self.steps_left = steps_left
        self.paused = False
        self.waiting: dict[PushName, asyncio.Future[Outcome]] = {}
        self.pauses: list[asyncio.Future[None]] = []
        self.pushes: tuple[PushName, ...] = ()

    def stand(self) -> Standing:
        memory = Memory()
        memory.of(Directories).update(self.effects.directories)
        world = replace(
            _TEMPLATE,
            store=cast("Store", _Store(self)),
            workflow=_Workflow(),
            pusher=_Pusher(self),
            clock=_Clock(self),
            dice=_Dice(self),
            telemetry=QuietTelemetry(),
            memory=memory,
        )
        try:
            result = self.actor.body(world)
            if asyncio.iscoroutine(result):
                result = _Loop(self).run(result)
        except Paused:
            return Standing(self.actor, self.pushes)
        except TagcastError as fault:
            return Standing(self.actor, ended=True, fault=fault)
        return Standing(self.actor, ended=True, answer=result)

    def pause(self) -> None:
        self.paused = True
        raise Paused

    def call(self, name: str, *arguments: Any) -> Any:
        """Answer from the log; beyond it carry out one call if that is left to do, or stop."""
        if self.paused:
            raise Paused
        if self.place == len(self.actor.log):
            if not self.steps_left:
                self.pause()
            self.steps_left -= 1
            try:
                value = self.effects.call(self.actor, name, arguments)
            except TagcastError as fault:
                value = fault
            self.actor = self.actor.then(Event(value))
        event = self.actor.log[self.place]
        if event.push is not None:
            raise DivergedError(self.actor.name)
        self.place += 1
        if isinstance(event.value, BaseException):
            raise event.value
        return event.value

    def reading(self) -> int:
        """Answer a look at the clock, which is no point where others move."""
        if self.paused:
            raise Paused
        if self.place == len(self.actor.log):
            self.actor = self.actor.then(Event(self.effects.now()))
        event = self.actor.log[self.place]
        self.place += 1
        return int(event.value)

    def resolve(self) -> None:
        """Let the push end whose answer stands next in the log, or stop."""
        if self.place == len(self.actor.log):
            self.pushes = tuple(self.waiting)
            self.pause()
        event = self.actor.log[self.place]
        if event.push is None:
            raise DivergedError(self.actor.name)
        self.place += 1
        self.waiting.pop(event.push).set_result(event.value)
        if not self.waiting:
            for pause in self.pauses:
                pause.set_result(None)
            self.pauses.clear()


class _Loop(asyncio.BaseEventLoop):
    """An event loop that stops where only a receiver could make it go on."""

    def __init__(self, run: _Run) -> None:
        super().__init__()
        self._run = run
        self._selector = self
        self.set_exception_handler(lambda *_: None)

    def time(self) -> float:
        return 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout != 0:
            self._run.resolve()
        return []

    def _process_events(self, event_list: Any) -> None:
        pass

    def run(self, work: Any) -> Any:
        try:
            return self.run_until_complete(self.create_task(work))
        finally:
            asyncio.set_event_loop(None)
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task.get_coro().close()
            self.close()


class _Store:
    def __init__(self, run: _Run) -> None:
        self._run = run

    def get(self, key: Key) -> Row | None:
        return cast("Row | None", self._run.call("get", key))

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        return cast("dict[Key, Row]", self._run.call("get_many", tuple(keys)))

    def query(
        self,
        table: Table,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str = "\U0010ffff",
        limit: int | None = None,
    ) -> list[Row]:
        return cast("list[Row]", self._run.call("query", table, pk, sk_from, sk_to, limit))

    def write(self, write: Write) -> None:
        self._run.call("transact", (write,))

    def update_each(self, updates: Sequence[Update]) -> list[bool]:
        return [is_written(self.write, update) for update in updates]

    def transact(self, writes: Sequence[Write]) -> None:
        self._run.call("transact", tuple(writes))


class _Workflow:
    """Starts are left to the explorer: relay and sweep see to it that every generation gets its task."""

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        return True


class _Pusher(OneByOne):
    def __init__(self, run: _Run) -> None:
        self._run = run

    async def push(self, push: Push) -> Outcome:
        run = self._run
        if run.paused:
            raise Paused
        name = (push.message.message_id, push.subscription.ordinal)
        if run.place == len(run.actor.log):
            run.effects.begin_push(run.actor, push)
        run.waiting[name] = asyncio.get_running_loop().create_future()
        return await run.waiting[name]


class _Clock:
    def __init__(self, run: _Run) -> None:
        self._run = run

    def now(self) -> int:
        return self._run.reading()

    def monotonic(self) -> float:
        return self._run.reading() / 1000

    def sleep(self, seconds: float) -> None:
        self._run.call("sleep", seconds)

    async def pause(self, seconds: float) -> None:
        if not self._run.waiting or self._run.effects.late_answers:
            self._run.call("sleep", seconds)
            return
        over = asyncio.get_running_loop().create_future()
        self._run.pauses.append(over)
        await over


class _Dice:
    """Ids follow from what their maker has seen, so that the same worker makes the same id in every interleaving."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def unique_id(self, now: int) -> str:
        actor = self._run.actor
        told = hashlib.md5(f"{actor.name}{actor.digest}".encode(), usedforsecurity=False).hexdigest()
        return f"{int(told[:15], 16):020d}"

    def secret(self) -> str:
        return "secret"
