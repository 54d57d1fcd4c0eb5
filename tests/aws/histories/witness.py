"""What a history sees of the box: commits, calls, pushes, invocations, each with the worker that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tagcast.ports import Key, Table
from tagcast_aws.store.attributes import to_row

from tests.aws.calls import Call
from tests.aws.environments import Environment, Invocation
from tests.aws.histories.accidents import HistoryWeather
from tests.aws.histories.receivers import is_question, listeners
from tests.aws.lambdas import Ended
from tests.aws.limits import EXPIRED_LATE_S
from tests.aws.network import Request
from tests.aws.strands import Host
from tests.simulation.baton import Worker
from tests.simulation.ledger import Attempt, Change, Reply

if TYPE_CHECKING:
    from tests.aws.histories.history import History

KINDS = {"manage": "operate"}


class Witness:
    """Hears of everything, tells the checks of it, and writes the story."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._workers: dict[str, Worker] = {}
        """The latest worker of each environment, by the environment's name."""
        self._serial = 0
        self._pending: list[tuple[Change, bool]] = []
        self._pushes: dict[int, tuple[Request, list[Attempt], Worker]] = {}
        self._pushers: dict[int, Worker] = {}

    def connect(self) -> None:
        history = self._history
        deployment = history.deployment
        deployment.functions.weather = HistoryWeather(history)
        history.timeline.between = self._flush
        for table, logical_id in ((Table.REGISTRY, "RegistryTable"), (Table.MESSAGES, "MessagesTable")):
            deployment.tables[logical_id].told = self._told_by(table)
        deployment.network.watch = self._sent
        for name, listener in listeners(history).items():
            deployment.network.listen(name, listener)
        deployment.functions.strangers["judge"] = history.outside.judge
        for source in deployment.stream_sources:
            source.rewinds = lambda: history.chance.randrange(1, 12) if history.draws("stream_rewind", 0.05) else 0
        for queue_source in deployment.queue_sources:
            queue_source.copies = lambda: history.draws("queue_copy", 0.1)
            queue_source.forgets = lambda place: history.draws("queue_ack_loss", 0.08)
            queue_source.queue.told.append(history.checks.queued)
        deployment.sqs.told.append(history.checks.groups.made)
        deployment.sqs.removed.append(history.checks.groups.removed)
        deployment.schedules.skips = lambda: history.draws("sweep_lost", 0.2)
        deployment.machine.repeats = lambda: history.draws("task_copy", 0.15)
        deployment.begin()

    def _told_by(self, table: Table) -> Callable[[Any, Any, bool], None]:
        def told(before: Any, after: Any, by_ttl: bool) -> None:
            old, new = (None if item is None else to_row(item) for item in (before, after))
            row: Any = old if new is None else new
            key = Key(table, row["pk"], row["sk"])
            self._pending.append(((key, old, new), by_ttl))  # type: ignore[arg-type]

        return told

    def _flush(self) -> None:
        history = self._history
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        changes = [change for change, by_ttl in pending if not by_ttl]
        for (key, old, _), by_ttl in pending:
            if by_ttl:
                assert old is not None
                history.checks.removed_by_ttl(key, old)
        if changes:
            worker = self.acting()
            history.note(
                "{} WRITES {}", worker and worker.name, " ".join(f"{key.pk}/{key.sk}" for key, _, _ in changes)
            )
            history.checks.committed(worker, changes)
            self._plan_garbage(changes)

    def _plan_garbage(self, changes: list[Change]) -> None:
        history = self._history
        for _, _, new in changes:
            if new is not None and "ttl" in new and history.draws("ttl", 0.3):
                late_ms = history.chance.choice((EXPIRED_LATE_S[0], history.chance.randrange(1000 * EXPIRED_LATE_S[1])))
                history.timeline.at(new["ttl"] * 1000 + late_ms, self._collect)

    def _collect(self) -> None:
        history = self._history
        history.deployment.tables["MessagesTable"].remove_expired(history.now)

    def invoked(self, invocation: Invocation) -> None:
        """Hear of an invocation before its first step."""
        history = self._history
        self._serial += 1
        environment, kind = invocation.environment, invocation.function.kind
        worker = Worker(f"{kind}#{self._serial}", KINDS.get(kind, kind), lambda worker: None, invocation.deadline)
        worker.skew_ms, worker.action = environment.skew_ms, invocation.action
        if kind == "retry":
            worker.lane = (invocation.event["subscription_id"], invocation.event["generation"])
        self._workers[environment.name] = worker
        environment.seen = lambda instant: self._seen(worker, environment, instant)
        history.note("{} begins in {}: {}", worker.name, environment.name, invocation.label)

    def _seen(self, worker: Worker, environment: Environment, instant: int) -> None:
        history = self._history
        if history.draws("jump", 0.01):
            environment.skew_ms += history.chance.choice((-300_000, -5_000, -1, 1, 5_000, 300_000))
            worker.skew_ms = environment.skew_ms
        history.checks.clock_read(worker, instant)

    def ended(self, ended: Ended) -> None:
        """Hear how an invocation ended."""
        history = self._history
        invocation = ended.invocation
        assert invocation is not None
        worker = self._workers[invocation.environment.name]
        history.note("{} ends: {}", worker.name, ended.error or "well")
        if ended.fault is not None:
            history.note("{} raised {!r}", worker.name, ended.fault)
        history.checks.invocation_ended(worker, ended)

    def calling(self, call: Call, environment: Environment | None) -> None:
        """Hear of a request before its effect."""
        history = self._history
        worker = None if environment is None else self._workers.get(environment.name)
        if environment is not None and worker is not None:
            history.note("{} CALLS {} {}", worker.name, call.service, call.operation)
            history.checks.calling(worker, environment, call)

    def acting(self) -> Worker | None:
        """Return whose request has its effect now."""
        caller = self._history.deployment.box.acting
        return None if caller is None else self._workers.get(caller.name)

    def stall(self, environment: Environment) -> None:
        """Let a process stand still in the middle of what it does."""
        history = self._history
        environment.frozen = True
        ms = history.chance.choice((50, 2_000, 20_000, 100_000))
        history.note("{} !! stands still for {} ms", environment.name, ms)
        history.checks.not_reached(None)
        history.timeline.after(ms, lambda: history.timeline.thaw(environment))

    def _sent(self, host: Host, request: Request) -> None:
        """Hear of a push when it leaves its process."""
        history = self._history
        assert isinstance(host, Environment)
        worker = self._workers[host.name]
        if is_question(request):
            history.note("{} ASKS {}", worker.name, request.headers["host"])
            return
        history.note("{} PUSHES {} {}", worker.name, request.headers.get("webhook-id"), request.headers)
        attempts = history.checks.push_sent(worker, host, request)
        self._pushes[id(request)] = (request, attempts, worker)

    def pushed(self, request: Request) -> list[Attempt]:
        """Return what is known of a push that has come to its receiver."""
        _, attempts, worker = self._pushes.pop(id(request))
        self._pushers.update((id(attempt), worker) for attempt in attempts)
        return attempts

    def answered(self, attempt: Attempt, reply: Reply) -> None:
        """Hear what a receiver did with a push."""
        history = self._history
        worker = self._pushers.pop(id(attempt))
        history.note("ANSWER {} attempt {}: {}", attempt.told(), attempt.number, reply.detail)
        history.checks.attempts.ended(worker, attempt, reply)
