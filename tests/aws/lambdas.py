"""Lambda: functions of the template, their environments, and what ends an invocation."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, ClassVar

from tagcast_aws import wiring

from local.template.intrinsics import Resolver
from tests.aws import limits
from tests.aws.box import Box, Service
from tests.aws.calls import Call, Caller
from tests.aws.environments import Context, Environment, Invocation, environ_of
from tests.aws.faults import ApiError, UnplayedError
from tests.aws.network import Network
from tests.aws.strands import Killed
from tests.aws.timeline import Timeline

WARM_MS = (1.0, 5.0)


@dataclass(frozen=True)
class Ended:
    """What became of an invocation: its answer, or what ended it."""

    invocation: Invocation | None
    answer: Any = None
    error: str | None = None
    """The word of Lambda: Unhandled, Sandbox.Timedout, Runtime.ExitError or TooManyRequestsException."""
    fault: Exception | None = None


class Weather:
    """What may befall environments; this one leaves them alone."""

    def begins(self, invocation: Invocation) -> None:
        """Be told of an invocation before its first step; its deadline and its clock may be moved."""

    def ended(self, ended: Ended) -> None:
        """Be told how it ended."""

    def reclaims(self, environment: Environment) -> bool:
        """Say whether an idle environment is gone when it would be used again."""
        return False

    def throttles(self, function: Function) -> bool:
        """Say whether an invocation is refused for want of capacity."""
        return False


class Crowded(Weather):
    """There is no capacity for functions of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def throttles(self, function: Function) -> bool:
        return function.kind == self._kind


class Function:
    """One function of the template."""

    def __init__(self, functions: Functions, logical_id: str, properties: Mapping[str, Any], folder: str) -> None:
        self.logical_id = logical_id
        self.name: str = properties["FunctionName"]
        self.kind = folder
        self.arn = f"arn:aws:lambda:us-east-1:123456789012:function:{self.name}"
        self.timeout_s = int(properties["Timeout"])
        self.memory_mb = int(properties["MemorySize"])
        self.is_traced = properties["TracingConfig"]["Mode"] == "Active"
        self.logs_failures_only = properties["LoggingConfig"].get("SystemLogLevel") == "WARN"
        """Whether Lambda's own lines in the log are about invocations that failed alone."""
        self.environ = environ_of(properties)
        module, _, name = str(properties["Handler"]).rpartition(".")
        self.handler = getattr(importlib.import_module(f"functions.{folder}.{module}"), name)
        self.idle: list[Environment] = []
        self._functions = functions

    def client(self, service: str, environment: Environment, config: Any) -> Any:
        """Return a client that calls with the function's role."""
        return self._functions.box.client(service, Caller(self.logical_id, environment.name), config)


class Functions(Service):
    """The service ``lambda``: `invoke` for a client of its API, `start` for everything inside AWS."""

    name: ClassVar[str] = "lambda"
    throttled: ClassVar[tuple[str, int]] = ("TooManyRequestsException", 429)
    failed: ClassVar[tuple[str, int]] = ("ServiceException", 500)

    def __init__(self, box: Box, timeline: Timeline, stack: Resolver, network: Network, seed: int | str = 0) -> None:
        super().__init__(box)
        self.timeline, self.network = timeline, network
        self.weather = Weather()
        self.running = 0
        self.strangers: dict[str, Callable[[Any], Any]] = {}
        """Functions of subscribers by name: from the event to the answer, or to what is raised."""
        self.sizes: Mapping[str, int] = {}
        """What the worlds of all processes have otherwise: `section_max`, `slice_max`."""
        self._chance = Random(f"lambda {seed}")
        self._seed = seed
        self._serial = 0
        self._environments: list[Environment] = []
        folders = stack.template.folders
        self.by_id = {
            logical_id: Function(self, logical_id, properties, folders[logical_id].name)
            for logical_id, properties in stack.of_type("AWS::Lambda::Function")
        }
        self.by_name = {function.name: function for function in self.by_id.values()}

    def configure(self, **environ: str) -> None:
        """Deploy all functions with other settings: idle environments are gone, working ones go on as they are."""
        for function in self.by_id.values():
            function.environ.update(environ)
            while function.idle:
                function.idle.pop().end()

    @property
    def alive(self) -> list[Environment]:
        """All environments that were not ended."""
        self._environments = [environment for environment in self._environments if environment.alive]
        return list(self._environments)

    def end(self) -> None:
        """End all environments."""
        for environment in self.alive:
            environment.end()

    # Inside AWS.

    def start(
        self, function: Function, event: Any, then: Callable[[Ended], None], *, label: str = "", action: Any = None
    ) -> None:
        """Start an invocation; *then* is told how it ended, by the timeline."""
        text = json.dumps(event)
        if len(text) > limits.LAMBDA_PAYLOAD_BYTES_MAX:
            then(Ended(None, error="RequestTooLargeException"))
            return
        quotas = self.box.quotas
        is_full = self.running >= quotas.place.executions or not quotas.take(("lambda: invocations", "", 1))
        if is_full or self.weather.throttles(function):
            then(Ended(None, error="TooManyRequestsException"))
            return
        self.running += 1
        environment = self._warm(function)
        ms = self._chance.uniform(*(WARM_MS if environment else limits.LAMBDA_COLD_MS))
        environment = environment or self._cold(function)
        now = self.timeline.now
        self._serial += 1
        request_id = f"{self._serial:032x}"
        invocation = Invocation(function, environment, json.loads(text), then, request_id, now, 0, label, action)
        self.timeline.after(ms, lambda: self._begin(invocation))

    def _warm(self, function: Function) -> Environment | None:
        while function.idle:
            environment = function.idle.pop(0 if self._chance.random() < 0.3 else -1)
            slept_s = (self.timeline.micros - environment.idle_since_us) / 1_000_000
            if slept_s <= self.box.unsaid.sleeps_s and not self.weather.reclaims(environment):
                return environment
            environment.end()
        return None

    def _cold(self, function: Function) -> Environment:
        self._serial += 1
        name = f"{function.kind}@{self._serial}"
        dice = Random(f"dice {self._seed} {self._serial}")
        environment = Environment(function, name, self.timeline, self.network, dice, self.sizes)
        self._environments.append(environment)
        return environment

    def _begin(self, invocation: Invocation) -> None:
        timeline, environment, function = self.timeline, invocation.environment, invocation.function
        invocation.began_at = timeline.now
        invocation.deadline = timeline.now + function.timeout_s * 1000
        environment.invocation = invocation
        self.weather.begins(invocation)
        if environment.frozen and self.box.unsaid.clock_stands:
            environment.stood_us += timeline.micros - environment.idle_since_us
        timeline.thaw(environment)
        timeline.start("handler", environment, lambda: self._handle(invocation))
        timeline.at(invocation.deadline, lambda: self.cut(invocation, "Sandbox.Timedout"))

    def _handle(self, invocation: Invocation) -> None:
        """Run the handler; on the strand of its environment."""
        function = invocation.function
        context = Context(
            function.name,
            function.arn,
            function.memory_mb,
            invocation.request_id,
            lambda: max(0, invocation.began_at + function.timeout_s * 1000 - self.timeline.now),
        )
        try:
            answer = function.handler(invocation.event, context)
            text = json.dumps(answer)
        except UnplayedError:
            raise
        except Exception as fault:  # noqa: BLE001  as the runtime of Lambda does
            ended = Ended(invocation, error="Unhandled", fault=fault)
        else:
            too_large = len(text) > limits.LAMBDA_PAYLOAD_BYTES_MAX
            ended = Ended(invocation, error="Function.ResponseSizeTooLarge") if too_large else Ended(invocation, answer)
        wiring.metrics().clear_metrics()  # One set for all processes; none of them lives long enough to fill it.
        self.timeline.after(0, partial(self._end, invocation, ended))

    def crash(self, environment: Environment) -> None:
        """Let the process die where it stands; called by one of its strands."""
        strand, invocation = self.timeline.current, environment.invocation
        assert strand is not None
        strand.doomed = True
        if invocation is not None:
            self.timeline.after(0, lambda: self.cut(invocation, "Runtime.ExitError"))
        raise Killed

    def cut(self, invocation: Invocation, error: str) -> None:
        """End an invocation with its environment, unless it is over; called by the timeline."""
        if not invocation.over:
            invocation.environment.end()
            self._end(invocation, Ended(invocation, error=error))

    def _end(self, invocation: Invocation, ended: Ended) -> None:
        if invocation.over:
            return
        invocation.over = True
        self.running -= 1
        environment = invocation.environment
        if environment.alive:
            environment.invocation = None
            environment.frozen = True
            environment.idle_since_us = self.timeline.micros
            invocation.function.idle.append(environment)
        self.weather.ended(ended)
        invocation.then(ended)

    # The API, for functions of subscribers.

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        name = str(call["FunctionName"])
        arn = name if name.startswith("arn:") else f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
        return [("lambda:InvokeFunction", arn)]

    def invoke(self, call: Call) -> dict[str, Any]:
        """Ask a function of a subscriber; what it raises is a function error."""
        name = str(call["FunctionName"]).rpartition(":")[2]
        if name not in self.strangers:
            raise ApiError("ResourceNotFoundException", f"Function not found: {name}", status=404)
        try:
            answer = self.strangers[name](json.loads(call["Payload"]))
        except ArithmeticError as fault:
            error = {"errorType": type(fault).__name__, "errorMessage": str(fault)}
            payload = io.BytesIO(json.dumps(error).encode())
            return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": payload}
        return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())}
