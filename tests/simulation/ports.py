"""The other ports of the core, as hostile as AWS may be."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from botocore.exceptions import ClientError
from tagcast.errors import ConditionLostError
from tagcast.model import Message, Outcome, Push, PushBatch, Subscription
from tagcast.ports import World
from tagcast_aws import wiring
from tagcast_aws.dispatch.queue import SqsQueue

from tests.fakes.world import FakeWorld, QuietTelemetry
from tests.simulation.batches import batch_reply, outcome_of
from tests.simulation.baton import Crashed, UnavailableError, Worker
from tests.simulation.fifo_queue import Record
from tests.simulation.rules import judged_yes
from tests.simulation.store import Gate, SimStore

if TYPE_CHECKING:
    from tests.simulation.history import History

SEND_BATCH_MAX = 10

P = ParamSpec("P")
T = TypeVar("T")


def world_of(history: History, store: SimStore) -> World:
    """Return the world in which the shipped code of a history lives."""
    return replace(
        FakeWorld().world,
        topic_known_s=history.plan.topic_known_s,
        store=store,
        queue=SqsQueue(cast("Any", SimSqs(history)), "queue", wiring.logger()),
        workflow=SimWorkflow(history),
        pusher=SimPusher(history),
        filter_functions=SimFilterFunctions(history),
        clock=SimClock(history),
        executor=SimExecutor(history),
        dice=SimDice(history),
        telemetry=SimTelemetry(history),
        section_max=history.plan.section_max,
        slice_max=history.plan.slice_max,
    )


class SimSqs:
    """The producer's side of the FIFO queue behind the shipped adapter: each entry of a request is taken or not."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._gate = Gate(history)

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, str]]) -> dict[str, Any]:  # noqa: N803
        history = self._history
        worker = history.baton.current
        assert 0 < len(Entries) <= SEND_BATCH_MAX
        groups = [entry["MessageGroupId"] for entry in Entries]
        history.checks.producers.sending(worker, groups)

        def effect() -> dict[str, Any]:
            failed = []
            for entry in Entries:
                if history.queue.is_away or history.draws("send_loss", 0.25):
                    failed.append({"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"})
                    if history.queue.is_away or history.chance.random() < 0.7:
                        continue
                record = Record(entry["MessageDeduplicationId"], entry["MessageGroupId"], entry["MessageBody"])
                history.queue.take(record)
            return {"Failed": failed} if failed else {}

        try:
            answer = self._asked(f"send {' '.join(entry['MessageBody'] for entry in Entries)}", effect)
        except ClientError:
            history.checks.producers.not_taken(worker, groups)
            raise
        refused = {failed["Id"] for failed in answer.get("Failed", [])}
        history.checks.producers.not_taken(
            worker, [entry["MessageGroupId"] for entry in Entries if entry["Id"] in refused]
        )
        return answer

    def delete_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803
        def effect() -> dict[str, Any]:
            self._history.queue.delete([entry["ReceiptHandle"] for entry in Entries])
            return {}

        return self._asked(f"delete {len(Entries)}", effect)

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803
        def effect() -> dict[str, Any]:
            for entry in Entries:
                if entry["VisibilityTimeout"] == 0:  # Otherwise it comes with all that becomes visible later.
                    self._history.queue.give_back(entry["ReceiptHandle"])
            return {}

        return self._asked(f"give back {len(Entries)}", effect)

    def _asked(self, label: str, effect: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return cast("dict[str, Any]", self._gate.call(label, effect))
        except UnavailableError as error:
            raise ClientError({"Error": {"Code": "InternalError"}}, label) from error


class SimWorkflow:
    """Executions by name: the same generation starts once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._gate = Gate(history)

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        def effect() -> bool:
            lost = self._history.draws("workflow_loss", 0.4)
            if not lost or self._history.chance.random() < 0.3:
                self._history.executions.start(topic, subscription_id, generation)
            return not lost

        try:
            return cast("bool", self._gate.call(f"start {subscription_id} {generation}", effect))
        except UnavailableError:
            return False


class SimPusher:
    """The way to the receivers: it takes time, and the process may die meanwhile."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def push(self, push: Push) -> Outcome:
        history = self._history
        worker = cast("Worker", history.baton.current)
        if worker.doomed:
            raise Crashed
        history.perhaps_crash(worker)
        history.note(
            "{} PUSH {} to {}, attempt {}", worker.name, push.message.message_id, push.subscription.name, push.attempt
        )
        history.calls.called(f"push {push.message.message_id} {push.subscription.name}")
        attempt = history.checks.attempts.begins(worker, push)
        reply = history.endpoints.reply(push)
        await _later(history, worker, reply.took_ms)
        history.note("{} ANSWER {}: {}", worker.name, attempt.told(), reply.detail)
        history.checks.attempts.ended(worker, attempt, reply)
        history.perhaps_crash(worker)
        return history.endpoints.outcome(reply, history.now + worker.skew_ms)

    async def push_batch(self, batch: PushBatch) -> Outcome:
        history = self._history
        worker = cast("Worker", history.baton.current)
        if worker.doomed:
            raise Crashed
        history.perhaps_crash(worker)
        ids = " ".join(f"{push.message.message_id} (attempt {push.attempt})" for push in batch.pushes)
        history.note("{} PUSH {} to {} together", worker.name, ids, batch.subscription.name)
        history.calls.called(f"push {ids} {batch.subscription.name}")
        attempts = history.checks.attempts.batch_begins(worker, batch)
        reply = batch_reply(history, batch)
        await _later(history, worker, reply.reply.took_ms)
        history.note("{} ANSWER {}: {} {}", worker.name, batch.subscription.name, reply.reply.detail, reply.answer)
        for attempt in attempts:
            attempt.counts = attempt.message_id not in reply.uncounted
            history.checks.attempts.ended(worker, attempt, reply.of[attempt.message_id])
        history.perhaps_crash(worker)
        return outcome_of(history, batch, reply, history.now + worker.skew_ms)


class SimFilterFunctions:
    """Filter functions that answer, or fail in one of the ways a stranger's code fails."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...] | None:
        history = self._history
        worker = cast("Worker", history.baton.current)
        history.calls.called(f"ask {len(messages)} {subscription.name}")
        answer: tuple[bool, ...] | None = tuple(judged_yes(message.draft) for message in messages)
        took_ms = history.chance.randrange(200)
        if history.draws("judge", 0.4):
            answer, took_ms = None, 3_000
        await _later(history, worker, took_ms)
        history.note("{} VERDICTS of {}: {}", worker.name, subscription.name, answer)
        history.checks.judged(subscription, messages, answer)
        history.perhaps_crash(worker)
        return answer


async def _later(history: History, worker: Worker, took_ms: int) -> None:
    """Wait inside a worker's loop."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    heapq.heappush(worker.awaited, (history.now + took_ms, history.serial(), future))
    await future


class SimClock:
    """The clock of one process: skewed, and it may jump; monotonic time is true."""

    def __init__(self, history: History) -> None:
        self._history = history

    def now(self) -> int:
        history = self._history
        worker = history.baton.current
        if worker is None:
            return history.now
        seen = history.clock_of(worker)
        history.checks.clock_read(worker, seen)
        return seen

    def monotonic(self) -> float:
        return self._history.now / 1000

    def sleep(self, seconds: float) -> None:
        history = self._history
        worker = cast("Worker", history.baton.current)
        history.note("{} sleeps {:.3f} s", worker.name, seconds)
        history.baton.park(worker, history.now + max(0, round(seconds * 1000)))

    async def pause(self, seconds: float) -> None:
        worker = cast("Worker", self._history.baton.current)
        await _later(self._history, worker, max(0, round(seconds * 1000)))


class SimTelemetry(QuietTelemetry):
    """Hears of pieces of work that failed: only AWS may have been the reason."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def record_failure(self, what: str, error: Exception) -> None:
        if not isinstance(error, UnavailableError | ConditionLostError):
            self._history.checks.ledger.fail("no surprise", f"{what} failed: {error!r}")


class SimExecutor:
    """Calls beside the loop begin in any order; each is a point where others move, and where an accident may happen."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        history = self._history
        worker = cast("Worker", history.baton.current)
        await _later(history, worker, history.turns.choice((0, 0, 0, 2, 20)))
        if worker.doomed:
            raise Crashed
        return call(*args, **kwargs)


class SimDice:
    """Chance from the seed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._last = 0

    def uniform(self, low: float, high: float) -> float:
        return self._history.chance.uniform(low, high)

    def unique_id(self, now: int) -> str:
        self._last += 1
        return f"{(now << 22) + self._last:020d}"

    def secret(self) -> str:
        return f"{self._history.chance.getrandbits(128):032x}"
