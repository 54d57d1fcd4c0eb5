"""What a play asked of AWS, as AWS bills it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import TextIOBase
from typing import TYPE_CHECKING, Any, cast

from tagcast_aws import wiring

from tests.aws.environments import Environment, Invocation
from tests.aws.lambdas import Ended, Weather
from tests.aws.timeline import Timeline

if TYPE_CHECKING:
    from tests.aws.strands import Strand

FIREHOSE_STEP_BYTES = 5_000
"""Firehose bills each record in steps of 5 KB: https://aws.amazon.com/firehose/pricing/."""
PLATFORM_LINES_BYTES = 380
"""START, END and REPORT of a traced invocation: lambda/latest/dg/monitoring-cloudwatchlogs.html."""
ACCESS_LINE_BYTES = 230
"""A line of the API's own log, in the format of template.yaml."""


@dataclass
class Usage:
    """Counts of one play; durations in milliseconds, sizes in bytes."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind of function (`poll`: Lambda's own pollers) and operation."""
    invocations: Counter[str] = field(default_factory=Counter)
    billed_mb_ms: Counter[str] = field(default_factory=Counter)
    cpu_ms: Counter[str] = field(default_factory=Counter)
    """What they computed, on a whole processor."""
    log_bytes: Counter[str] = field(default_factory=Counter)
    platform_lines: int = 0
    """Invocations of which Lambda itself wrote to the log."""
    units: dict[str, float] = field(default_factory=lambda: {"read": 0.0, "write": 0.0})
    """Of the tables: `read` and `write`."""
    api_requests: int = 0
    traceable: int = 0
    """Invocations of which X-Ray takes its share."""
    firehose_bytes: int = 0

    def of(self, *operations: str) -> int:
        """Return how often any of *operations* was asked for."""
        return sum(count for (_, operation), count in self.calls.items() if operation in operations)


class Meter(Weather):
    """Sees every invocation end, every call and every line of the log; *usage* may be exchanged for a fresh one."""

    def __init__(self, timeline: Timeline) -> None:
        self.usage = Usage()
        self.most_running = 0
        self.running = 0
        self._timeline = timeline
        self._began: dict[str, int] = {}

    def begins(self, invocation: Invocation) -> None:
        self._began[invocation.request_id] = self._timeline.micros
        self.running += 1
        self.most_running = max(self.most_running, self.running)

    def ended(self, ended: Ended) -> None:
        assert ended.invocation is not None
        self.running -= 1
        function = ended.invocation.function
        ms = -((self._began.pop(ended.invocation.request_id) - self._timeline.micros) // 1000)
        self.usage.invocations[function.kind] += 1
        self.usage.billed_mb_ms[function.kind] += function.memory_mb * ms
        if not function.logs_failures_only or ended.error is not None:
            self.usage.log_bytes[function.kind] += PLATFORM_LINES_BYTES
            self.usage.platform_lines += 1
        self.usage.traceable += function.is_traced

    def called(self, kind: str, operation: str, parameters: Mapping[str, Any]) -> None:
        self.usage.calls[kind, operation] += 1
        if operation == "PutRecordBatch":
            for record in parameters["Records"]:
                self.usage.firehose_bytes += -(-len(record["Data"]) // FIREHOSE_STEP_BYTES) * FIREHOSE_STEP_BYTES

    @contextmanager
    def reading_logs(self) -> Iterator[None]:
        """Count the bytes that the log of each function gets, at the level of the template, metrics included."""
        log, handler = _Log(self, self._timeline), wiring.logger().registered_handler
        level, metrics = wiring.logger().log_level, wiring.metrics()
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(cast("Any", log)))
            before = cast("Any", handler).setStream(log)
            stack.callback(cast("Any", handler).setStream, before)
            stack.callback(setattr, metrics, "namespace", metrics.namespace)
            metrics.namespace = "tagcast"
            wiring.logger().setLevel("INFO")
            stack.callback(wiring.logger().setLevel, level)
            yield


class _Log(TextIOBase):
    """Standard output of every process of the play."""

    def __init__(self, meter: Meter, timeline: Timeline) -> None:
        self._meter, self._timeline = meter, timeline

    def write(self, text: str, /) -> int:
        strand: Strand | None = self._timeline.current
        if strand is not None and isinstance(strand.host, Environment):
            self._meter.usage.log_bytes[strand.host.function.kind] += len(text.encode())
        return len(text)


def own_metrics(host: Any) -> None:
    """Let what is counted from here on be in the process of *host*, which the interpreter shares with others."""
    provider = wiring.metrics().provider
    if not hasattr(host, "counted"):
        host.counted = ({}, {})
    provider.metric_set, provider.metadata_set = host.counted
