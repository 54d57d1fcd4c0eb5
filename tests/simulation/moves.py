"""The small world: its states as values, and every move that can come next."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from tagcast.delivery.publishing import publish
from tagcast.model import Draft, LaneState, Push, RetryPolicy, Strategy
from tagcast.operating import lanes
from tagcast.ports import Key, World
from tagcast.registry import subscriptions, topics
from tagcast.registry.directory import Directories, Directory
from tagcast.topic_settings import TopicSettings

from functions.fan_out import app as fan_out_app
from functions.retry import app as retry_app
from tests.fakes.memory_store import MemoryStore, PartitionedRows
from tests.fakes.queue_records import in_one_order
from tests.fakes.settings import settings_for
from tests.fakes.world import FakeWorld
from tests.simulation.replayed import FAILED, OK, Actor, Effects, Event, Standing, proceed
from tests.simulation.small_world import Rows, check_commit, check_push

TOPIC = "t"
BUDGET_S = 60.0
ROWS_TOLD_MAX = 100_000
CHANGES: dict[str, Callable[[World], Any]] = {
    "pause": lambda world: lanes.pause(world, TOPIC, "A"),
    "resume": lambda world: lanes.resume(world, TOPIC, "A"),
    "retry_now": lambda world: lanes.retry_now(world, TOPIC, "A"),
    "skip_head": lambda world: lanes.skip_head(world, TOPIC, "A", "by hand"),
    "unsubscribe": lambda world: subscriptions.delete_subscription(world, TOPIC, "A"),
}
SLEEPING = (LaneState.PAUSED.value, LaneState.SUSPENDED.value)


@dataclass(frozen=True)
class State:
    """The small world between two moves."""

    rows: Rows
    now: int
    directories: Mapping[str, Directory] = field(compare=False)
    standing: tuple[Standing, ...] = ()
    acknowledged: bool = False
    crashes: int = 0
    copies: int = 0
    failures: int = 0
    changes: tuple[str, ...] = ()
    late_answers: bool = True
    pushed: tuple[tuple[str, int, int, bool | None], ...] = ()
    """Message, ordinal, attempt and success (None while it is under way) of every push."""
    told: tuple[str, ...] = field(default=(), compare=False)

    def digest(self) -> bytes:
        rows = sorted(map(_told, self.rows.items()))
        actors = sorted((each.actor.name, each.actor.digest, each.pushes) for each in self.standing)
        rest = (self.now, self.acknowledged, self.crashes, self.copies, self.failures, self.changes)
        text = repr((rows, actors, rest, sorted(self.pushed, key=repr)))
        return hashlib.md5(text.encode(), usedforsecurity=False).digest()


_ROWS_TOLD: dict[int, tuple[Mapping[str, Any], str]] = {}


def _told(item: tuple[Key, Mapping[str, Any]]) -> str:
    """Return a row as text; rows are never changed in place, so each is told once."""
    key, row = item
    known = _ROWS_TOLD.get(id(row))
    if known is None or known[0] is not row:
        if len(_ROWS_TOLD) > ROWS_TOLD_MAX:
            _ROWS_TOLD.clear()
        known = _ROWS_TOLD[id(row)] = (row, f"{key.pk} {key.sk} {sorted(row.items())!r}")
    return known[1]


@dataclass(frozen=True)
class Bounds:
    """How often what may go wrong; *late_answers*: whether a batch may go on before a receiver answers."""

    crashes: int = 2
    copies: int = 1
    failures: int = 2
    changes: tuple[str, ...] = tuple(CHANGES)
    late_answers: bool = True


def beginning(bounds: Bounds) -> State:
    """Return the world with two subscribers and two accepted messages in the queue."""
    fake = FakeWorld()
    topics.put_topic(fake.world, TOPIC, TopicSettings())
    for name in ("A", "B"):
        settings = settings_for(f"http://{name}.test/", RetryPolicy(Strategy.BACKOFF_RETRY, 1), timeout_s=5)
        subscriptions.put_subscription(fake.world, TOPIC, name, settings)
    publish(fake.world, TOPIC, [Draft(b"1"), Draft(b"2")])
    return State(
        rows=dict(fake.store.rows),
        now=fake.clock.instant,
        directories=dict(fake.world.memory.of(Directories)),
        crashes=bounds.crashes,
        copies=bounds.copies,
        failures=bounds.failures,
        changes=bounds.changes,
        late_answers=bounds.late_answers,
    )


class Mover:
    """Carries out one move on a copy of a state."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.now = state.now
        self.store = MemoryStore()
        self.store.rows = PartitionedRows(cast("Mapping[Key, dict[str, Any]]", state.rows))
        self.pushed = list(state.pushed)

    def move(self, standing: Standing | None, actor: Actor, **how: Any) -> State:
        """Let *actor* proceed; *standing* is where it stood before, if it is not new."""
        state = self.state
        effects = Effects(self._call, lambda: self.now, self._begin, state.directories, state.late_answers)
        after = proceed(actor, effects, **how)
        others = tuple(other for other in self.state.standing if other is not standing)
        acknowledged = self.state.acknowledged
        if not after.ended:
            others = (*others, after)
        elif actor.kind == "fan_out" and after.fault is None and not after.answer["batchItemFailures"]:
            acknowledged = True
        return replace(
            self.state,
            rows=self.store.rows,
            now=self.now,
            standing=others,
            acknowledged=acknowledged,
            pushed=tuple(self.pushed),
        )

    def end_push(self, name: tuple[str, int], *, success: bool) -> None:
        """Note what the receiver did with the earliest push of that name that is under way."""
        place = next(i for i, push in enumerate(self.pushed) if push[:2] == name and push[3] is None)
        self.pushed[place] = (*self.pushed[place][:3], success)

    def _call(self, actor: Actor, name: str, arguments: tuple[Any, ...]) -> Any:
        match name:
            case "get":
                return self.store.get(*arguments)
            case "get_many":
                return self.store.get_many(*arguments)
            case "query":
                table, pk, low, high, limit = arguments
                return self.store.query(table, pk, sk_from=low, sk_to=high, limit=limit)
            case "sleep":
                self.now += round(arguments[0] * 1000)
                return None
        before = dict(self.store.rows)
        for write in arguments[0]:
            if write.key in before:
                self.store.rows[write.key] = dict(before[write.key])
        self.store.transact(arguments[0])
        check_commit(before, self.store.rows, [write.key for write in arguments[0]], actor.lane)
        return None

    def _begin(self, actor: Actor, push: Push) -> None:
        check_push(self.store.rows, tuple(self.pushed), push)
        self.pushed.append((push.message.message_id, push.subscription.ordinal, push.attempt, None))


def following(state: State) -> Iterator[tuple[str, Callable[[], State]]]:
    """Yield every move that can come next: what it is called, and how it is made."""
    for standing in state.standing:
        name = standing.actor.name
        if not standing.pushes:
            yield f"{name} goes on", partial(_gone_on, state, standing)
        for push in standing.pushes:
            yield f"{push} by {name} succeeds", partial(_answered, state, standing, push, True)
            if state.failures:
                yield f"{push} by {name} fails", partial(_answered, state, standing, push, False)
        if state.crashes:
            yield f"{name} crashes", partial(_crashed, state, standing)
    alive = [each.actor for each in state.standing]
    consumers = sum(actor.kind == "fan_out" for actor in alive)
    if not consumers and not state.acknowledged:
        yield "the batch is delivered", lambda: _delivered(state)
    elif state.copies and consumers < 2:
        yield "the batch is delivered once more", lambda: _delivered(replace(state, copies=state.copies - 1))
    for key, row in sorted(state.rows.items(), key=lambda item: item[0].sk):
        if not key.pk.startswith("LANES#") or row["state"] in SLEEPING or "wake_at" not in row:
            continue
        running = sum(actor.lane == (key.sk, row["generation"]) for actor in alive)
        if not running:
            yield f"lane {key.sk[-1]} is woken", partial(_woken, state, key)
        elif state.copies and running < 2:
            yield (
                f"lane {key.sk[-1]} is woken twice",
                partial(_woken, replace(state, copies=state.copies - 1), key),
            )
    for change in state.changes:
        yield f"somebody wants {change}", partial(_changed, state, change)


def _gone_on(state: State, standing: Standing) -> State:
    return Mover(state).move(standing, standing.actor, step=True)


def _answered(state: State, standing: Standing, push: tuple[str, int], success: bool) -> State:
    mover = Mover(state if success else replace(state, failures=state.failures - 1))
    mover.end_push(push, success=success)
    return mover.move(standing, standing.actor, step=False, answer=Event(OK if success else FAILED, push))


def _crashed(state: State, standing: Standing) -> State:
    pushed = [push for push in state.pushed if push[3] is not None or push[:2] not in standing.pushes]
    pushed += [(*push[:3], False) for push in state.pushed if push[3] is None and push[:2] in standing.pushes]
    others = tuple(other for other in state.standing if other is not standing)
    return replace(state, standing=others, crashes=state.crashes - 1, pushed=tuple(pushed))


def _free_name(state: State, kind: str) -> str:
    taken = {each.actor.name for each in state.standing}
    return next(name for name in (f"{kind} {number}" for number in range(9)) if name not in taken)


def _delivered(state: State) -> State:
    ids = sorted(key.pk.rpartition("#")[2] for key in state.rows if key.pk.startswith("MSG#"))
    batch = in_one_order(ids, TOPIC)
    actor = Actor("fan_out", _free_name(state, "fan_out"), lambda world: fan_out_app.handle(batch, world))
    return Mover(state).move(None, actor, step=False)


def _woken(state: State, key: Key) -> State:
    row = state.rows[key]
    task = {"topic": TOPIC, "subscription_id": key.sk, "generation": row["generation"], "rounds": 0}
    name = _free_name(state, f"retry {key.sk[-1]}")
    actor = Actor("retry", name, lambda world: retry_app.handle(task, world, BUDGET_S), (key.sk, row["generation"]))
    later = replace(state, now=max(state.now, row.get("next_attempt_at") or 0))
    return Mover(later).move(None, actor, step=False)


def _changed(state: State, change: str) -> State:
    actor = Actor("operate", change, CHANGES[change])
    return Mover(replace(state, changes=())).move(None, actor, step=False)
