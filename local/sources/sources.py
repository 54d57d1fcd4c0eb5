"""Invokes the functions in threads, as AWS's event source mappings and its scheduler do."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.rows import lane_transitions
from tagcast.rows.lane import LANES, Lane
from tagcast.tables import Update
from tagcast_aws.runtime.system import SystemDice
from tagcast_aws.store.attributes import to_row
from tagcast_aws.store.dynamodb import write_request

from local.engine.callers import Callers, InvocationRights
from local.engine.deployment import Deployment
from local.engine.engine import REGION, Engine
from local.engine.last_error import why_not_written
from local.functions.lambda_host import LambdaHost
from local.functions.worker import Invocation
from local.sources.queue_source import QueueSource
from local.sources.stream_source import StreamRules, StreamSource
from local.template.translated import SourceSpec, Template

WAITING_MAX = 32
"""The number of events that may wait for one function. With more, the log warns and the sweep is delayed."""
PUT_OFF_S = 300.0
"""The maximum delay of the sweep under load in seconds, because the sweep also expires messages."""
REPORTED_EVERY_S = 60.0


@dataclass
class Overload:
    """Delays the sweep while too many events wait for a worker. *waiting* returns their number.

    The sweep starts a new execution for each overdue lane, as if the old execution had died. Without free workers,
    these executions would only wait, too.
    """

    waiting: Callable[[], int]
    say: Callable[[str], None]
    _since: float | None = None
    _reported_at: float | None = None

    def puts_off(self, now_s: float) -> bool:
        """Return whether to omit the sweep that is due now. Sweeps are omitted for at most :data:`PUT_OFF_S` seconds.

        >>> waiting = [100]
        >>> overload = Overload(lambda: waiting[0], print)
        >>> overload.puts_off(0.0), overload.puts_off(10.0), overload.puts_off(301.0), overload.puts_off(302.0)
        overloaded: 100 events wait for a worker; the sweep is delayed
        overloaded: 100 events wait for a worker; the sweep is delayed
        (True, True, False, True)
        >>> waiting[0] = 0
        >>> overload.puts_off(303.0)
        no longer overloaded
        False
        """
        waiting = self.waiting()
        if waiting <= WAITING_MAX:
            if self._since is not None:
                self.say("no longer overloaded")
            self._since = self._reported_at = None
            return False
        if self._reported_at is None or now_s - self._reported_at >= REPORTED_EVERY_S:
            self.say(f"overloaded: {waiting} events wait for a worker; the sweep is delayed")
            self._reported_at = now_s
        if self._since is None or now_s - self._since > PUT_OFF_S:
            put_off = self._since is None
            self._since = now_s
            return put_off
        return True


BATCHES_AT_ONCE = 32
"""The maximum number of concurrent batches. Each has a thread that waits for its function, or for its turn."""
SWEEP_S = 30.0
EXPIRY_S = 60.0
STREAM_IDLE_S = 0.25
"""The pause between reads of an idle shard, as in Lambda. A batching window would only save money on AWS."""
FAULT_S = 1.0
GRACE_S = 3.0
STARTER = "RelayFunction"
"""The function that starts workflows."""


@dataclass
class Sources:
    """The event sources of a running stack. *host* is the Lambda host, and *loop* its event loop.

    Schedules run *time_scale* times as often as on AWS. *folder* has the engine's state. *callers* has the functions'
    credentials. *rights* decides which services may invoke them.
    """

    host: LambdaHost
    loop: asyncio.AbstractEventLoop
    time_scale: float
    folder: Path
    callers: Callers
    rights: InvocationRights
    is_engine_alive: Callable[[], bool] = lambda: True
    broken: str = ""
    """The reason why the sources cannot continue, or an empty text."""
    _overload: Overload = field(init=False)
    _ending: threading.Event = field(default_factory=threading.Event)
    _draining: threading.Event = field(default_factory=threading.Event)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _feeds: list[threading.Thread] = field(default_factory=list)
    _streams: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._overload = Overload(lambda: self.host.waiting, warn)

    def start(self, template: Template, deployment: Deployment, engine: Engine) -> None:
        """Start the threads of the template's event source mappings, schedules, and tables with a time to live."""
        for source in template.sources():
            if source.of_stream:
                stream = self._stream_source(source, deployment, engine)
                self._repeat(STREAM_IDLE_S, stream.step, "the stream", self._draining, self._streams)
            else:
                queue = self._queue_source(source, deployment, engine)
                engine.show(queue.queue_arn)  # On AWS this takes a visibility timeout of minutes.
                for _ in range(BATCHES_AT_ONCE):
                    self._repeat(0.0, queue.step, "the queue", self._ending, self._feeds)
        for rule, logical_id in template.schedules():
            name = deployment.functions[logical_id].name
            if not self.rights.allow_rule(rule, logical_id):
                warn(f"the rule {rule} may not invoke {name}: it will not run")
                continue
            pause_s = max(1.0, SWEEP_S / self.time_scale)
            self._repeat(pause_s, partial(self._tick, name), name, self._ending, self._feeds)
        for logical_id, attribute in template.expiring_tables():
            expire = partial(engine.expire, deployment.physical(logical_id), attribute)
            self._repeat(EXPIRY_S, expire, "expiry", self._ending, self._feeds)

    def stop(self) -> None:
        """Stop the queues and schedules. Then let the streams pass on the last changes, and stop them."""
        self._ending.set()
        _join(self._feeds, GRACE_S)
        self._draining.set()
        _join(self._streams, GRACE_S)
        self._stopped.set()

    def abandon(self) -> None:
        """Stop all sources at once. Call this if the engine has ended."""
        for each in (self._ending, self._draining, self._stopped):
            each.set()

    def join(self) -> None:
        """Wait until the threads of all sources have ended, at most :data:`GRACE_S` seconds."""
        _join([*self._feeds, *self._streams], GRACE_S)

    def _queue_source(self, source: SourceSpec, deployment: Deployment, engine: Engine) -> QueueSource:
        calls = engine.calls(self.callers.functions[source.function])
        arn = deployment.outputs[f"Arn{source.logical_id}"]
        url = queue_url(engine, arn)
        request = {"QueueUrl": url, "AttributeNames": ["VisibilityTimeout"]}
        calls.call("sqs", "GetQueueAttributes", request)  # AWS does this check, too.
        return QueueSource(
            calls=calls,
            owner=engine.calls(engine.owner),
            queue_url=url,
            queue_arn=arn,
            function=deployment.functions[source.function].name,
            invoke=self._invoke,
            batch_size=int(source.properties.get("BatchSize", 10)),
            warn=warn,
        )

    def _stream_source(self, source: SourceSpec, deployment: Deployment, engine: Engine) -> StreamSource:
        calls = engine.calls(self.callers.functions[source.function])
        failures, arn = deployment.outputs.get(f"OnFailure{source.logical_id}"), f"Arn{source.logical_id}"

        def give_up(obituary: dict[str, Any]) -> None:
            note = {name: value for name, value in obituary.items() if name != "payload"}
            warn(f"gave up on records of the stream: {json.dumps(note)}")
            if failures and failures.startswith("arn:aws:s3:"):
                key = f"aws/lambda/{source.logical_id}/{note['DDBStreamBatchInfo']['startSequenceNumber']}"
                bucket, body = failures.rpartition(":")[2], json.dumps(obituary).encode()
                engine.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
            elif failures:
                request = {"QueueUrl": queue_url(engine, failures), "MessageBody": json.dumps(note)}
                calls.call("sqs", "SendMessage", request)

        return StreamSource(
            call=partial(calls.call, "dynamodbstreams"),
            stream_arn=deployment.outputs[arn],
            function=deployment.functions[source.function].name,
            invoke=self._invoke,
            rules=StreamRules.of(source.properties, source.filters),
            on_failure=give_up,
            first=partial(_lanes, engine, deployment.outputs[arn]) if source.function == STARTER else None,
            position=engine.positions / f"{source.function}.{deployment.outputs[arn].split('/')[1]}",
            sleep=self._stopped.wait,
            stopped=self._stopped.is_set,
            urgent=self._draining.is_set,
        )

    def _invoke(self, function: str, payload: bytes) -> Invocation:
        return asyncio.run_coroutine_threadsafe(self.host.invoke(function, payload), self.loop).result()

    def _goes_on(self, fault: Exception) -> bool:
        """Return whether the sources go on after *fault*: only if the engine is alive and positions can be stored."""
        if isinstance(fault, OSError):
            self.broken = self.broken or why_not_written(fault, self.folder) or ""
        return not self.broken and self.is_engine_alive()

    def _tick(self, function: str) -> None:
        """Invoke a function as EventBridge does on schedule, unless the stack is overloaded."""
        if self._overload.puts_off(time.monotonic()):
            return
        event = {
            "version": "0",
            "source": "aws.events",
            "detail-type": "Scheduled Event",
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "resources": [],
            "detail": {},
        }
        self._invoke(function, json.dumps(event).encode())

    def _repeat(
        self,
        pause_s: float,
        step: Callable[[], object],
        what: str,
        ending: threading.Event,
        threads: list[threading.Thread],
    ) -> None:
        """Repeat *step* in a thread of its own, with a pause after each step without work.

        When *ending* is set, the thread ends after its next step without work.
        """

        def loop() -> None:
            while True:
                is_last = ending.is_set()
                try:
                    done = step()
                except (BotoCoreError, ClientError, OSError, CancelledError) as fault:
                    if is_last or self._stopped.wait(FAULT_S) or not self._goes_on(fault):
                        return
                    warn(f"{what}: {fault}")
                else:
                    if not done or self._stopped.is_set():
                        if is_last:
                            return
                        ending.wait(pause_s)

        thread = threading.Thread(target=loop, name=what, daemon=True)
        thread.start()
        threads.append(thread)


def queue_url(engine: Engine, arn: str) -> str:
    """Return the URL at which the engine serves the queue with this ARN."""
    return f"{engine.url}/{arn.split(':')[4]}/{arn.split(':')[5]}"


def _lanes(engine: Engine, stream_arn: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of all lanes in the table's indexes. First release those whose attempts ended with the engine."""
    table, tables = stream_arn.split("/")[1], engine.client("dynamodb")
    dice = SystemDice()
    indexes = tables.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", ())
    for index in indexes:
        for page in tables.get_paginator("scan").paginate(TableName=table, IndexName=index["IndexName"]):
            for item in page["Items"]:
                now = round(time.time() * 1000)
                release = release_lane(LANES.value_of(to_row(item)), now, dice.unique_id(now))
                if release is not None:
                    with suppress(tables.exceptions.ConditionalCheckFailedException):  # Another worker has the lane.
                        tables.update_item(**write_request(release, {release.key.table: table})["Update"])
                yield item


def release_lane(lane: Lane, now: int, generation: str) -> Update | None:
    """Return the write that makes *lane* retry now under the new *generation*; None if the lane needs no write.

    A write is needed if the last stack's worker had claimed the lane, or if the lane waits for a time that no failed
    delivery has set. A lane that is asleep needs none.
    """
    is_waiting = lane.planned_for is None and now < (lane.next_attempt_at or 0)
    if lane.state.is_asleep or not (lane.is_claimed or is_waiting):
        return None
    return lane_transitions.retry_now(lane, generation, now)[1]


def _join(threads: list[threading.Thread], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def warn(text: str) -> None:
    """Print a warning at the terminal."""
    print(f"{datetime.now():%H:%M:%S}  WARNING  {text}", file=sys.stderr, flush=True)  # noqa: DTZ005
