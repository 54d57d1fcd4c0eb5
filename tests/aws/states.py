"""Step Functions: standard executions of the shipped definition, by name, with their limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from tagcast import instant

from local.template.intrinsics import Resolver
from tests.aws import limits
from tests.aws.box import Box, Service
from tests.aws.calls import Call
from tests.aws.faults import ApiError
from tests.aws.lambdas import Ended, Functions
from tests.aws.timeline import Timeline

EVENTS = {"Task": 5, "Wait": 2, "Choice": 2, "Succeed": 2}
"""Entries of the history that one visit of a state leaves (step-functions/latest/dg/concepts-states.html)."""
DAY_MS = 86_400_000
THROTTLED_MS = 1_000
"""A transition beyond the account's rate waits; AWS does not say how long (service-quotas.html)."""
LAMBDA_ERRORS = {
    "TooManyRequestsException": "Lambda.TooManyRequestsException",
    "Sandbox.Timedout": "Sandbox.Timedout",
    "Runtime.ExitError": "Runtime.ExitError",
}


@dataclass(eq=False)
class Execution:
    """One execution: where it stands and what it carries."""

    name: str
    input: str
    began_at: int
    memory: Any
    state: str
    events: int = 1
    attempts: int = 0
    """How often the present state was tried again by its own rules."""
    status: str = "RUNNING"
    ended_at: int | None = None


class StateMachine(Service):
    """The service ``stepfunctions`` with the one state machine of the template."""

    name: ClassVar[str] = "stepfunctions"

    def __init__(
        self, box: Box, timeline: Timeline, stack: Resolver, functions: Functions, seed: int | str = 0
    ) -> None:
        super().__init__(box)
        ((self.logical_id, properties),) = stack.of_type("AWS::StepFunctions::StateMachine")
        self.arn = stack.arn(self.logical_id)
        path = stack.template.folders[self.logical_id]
        substitutions = properties.get("DefinitionSubstitutions", {})
        text = path.read_text()
        for key, value in substitutions.items():
            text = text.replace(f"${{{key}}}", str(value))
        self._states: dict[str, dict[str, Any]] = json.loads(text)["States"]
        self._first: str = json.loads(text)["StartAt"]
        self._by_arn = {function.arn: function for function in functions.by_id.values()}
        self._timeline, self._functions = timeline, functions
        self._chance = Random(f"states {seed}")
        self.executions: dict[str, Execution] = {}
        self.repeats: Callable[[], bool] = lambda: False
        """Says whether a task is carried out once more, by nobody's wish."""

    @property
    def running(self) -> int:
        """How many executions have not ended."""
        return sum(execution.status == "RUNNING" for execution in self.executions.values())

    # The API.

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        return [(f"states:{call.operation}", str(call["stateMachineArn"]))]

    def start_execution(self, call: Call) -> dict[str, Any]:
        """Start an execution, or answer as one of this name asks for."""
        name, text = str(call["name"]), str(call["input"])
        if call["stateMachineArn"] != self.arn:
            raise ApiError("StateMachineDoesNotExist")
        if len(text.encode()) > limits.EXECUTION_INPUT_BYTES_MAX or len(name) > 80:
            raise ApiError("InvalidExecutionInput")
        arn = f"{self.arn.replace(':stateMachine:', ':execution:')}:{name}"
        earlier = self.executions.get(name)
        if earlier is not None and not self._is_forgotten(earlier):
            if earlier.status != "RUNNING" or earlier.input != text:
                raise ApiError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
            return {"executionArn": arn, "startDate": earlier.began_at / 1000}
        self.begin(name, json.loads(text))
        return {"executionArn": arn, "startDate": self._timeline.now / 1000}

    def _is_forgotten(self, execution: Execution) -> bool:
        ended_at = execution.ended_at
        return ended_at is not None and ended_at + limits.EXECUTION_NAME_DAYS * DAY_MS <= self._timeline.now

    def begin(self, name: str, memory: Any) -> None:
        """Let an execution begin."""
        execution = Execution(name, json.dumps(memory), self._timeline.now, memory, self._first)
        self.executions[name] = execution
        self._enter(execution, self._first)

    # Playing.

    def _enter(self, execution: Execution, name: str) -> None:
        execution.state, execution.attempts = name, 0
        execution.events += EVENTS[self._states[name]["Type"]]
        if execution.events > limits.EXECUTION_EVENTS_MAX:
            self._end(execution, "FAILED")
            return
        self._timeline.after(self._chance.uniform(*limits.TRANSITION_MS), lambda: self._visit(execution))

    def _visit(self, execution: Execution) -> None:
        if not self.box.quotas.take(("stepfunctions: transitions", "", 1)):
            self._timeline.after(THROTTLED_MS, lambda: self._visit(execution))
            return
        state = self._states[execution.state]
        match state["Type"]:
            case "Task":
                self._ask(execution, state)
            case "Wait":
                self._timeline.at(self._waits_until(execution, state), lambda: self._enter(execution, state["Next"]))
            case "Choice":
                self._enter(execution, self._chosen(execution, state))
            case "Succeed":
                self._end(execution, "SUCCEEDED")
            case other:
                raise NotImplementedError(other)

    def _ask(self, execution: Execution, state: Mapping[str, Any]) -> None:
        function = self._by_arn[state["Parameters"]["FunctionName"]]
        if not self.box.allows(self.logical_id, "lambda:InvokeFunction", function.arn):
            raise ApiError("AccessDeniedException", "lambda:InvokeFunction")
        assert state["Parameters"]["Payload.$"] == "$"
        label = execution.name
        memory = execution.memory
        if self.repeats():
            wait_ms = self._chance.choice((0, 0, 1_000, 40_000))
            self._timeline.after(wait_ms, lambda: self._functions.start(function, memory, _forget, label=label))
        self._functions.start(function, memory, lambda ended: self._told(execution, ended), label=label)

    def _told(self, execution: Execution, ended: Ended) -> None:
        state = self._states[execution.state]
        if ended.error is None:
            assert state["OutputPath"] == "$.Payload"
            execution.memory = ended.answer
            self._enter(execution, state["Next"])
            return
        name = LAMBDA_ERRORS.get(ended.error) or (type(ended.fault).__name__ if ended.fault else "States.TaskFailed")
        for rule in state.get("Retry", ()):
            if name in rule["ErrorEquals"] and execution.attempts < rule["MaxAttempts"]:
                self._retry(execution, rule)
                return
        for catch in state.get("Catch", ()):
            if name in catch["ErrorEquals"] or "States.ALL" in catch["ErrorEquals"]:
                place = catch["ResultPath"].removeprefix("$.")
                execution.memory = {**execution.memory, place: {"Error": name, "Cause": str(ended.fault or "")}}
                self._enter(execution, catch["Next"])
                return
        self._end(execution, "FAILED")

    def _retry(self, execution: Execution, rule: Mapping[str, Any]) -> None:
        most = min(rule["IntervalSeconds"] * rule["BackoffRate"] ** execution.attempts, rule["MaxDelaySeconds"])
        wait_s = self._chance.uniform(0, most) if rule["JitterStrategy"] == "FULL" else most
        execution.attempts += 1
        execution.events += 3
        self._timeline.after(1000 * wait_s, lambda: self._visit(execution))

    def _waits_until(self, execution: Execution, state: Mapping[str, Any]) -> int:
        if "Seconds" in state:
            return self._timeline.now + int(state["Seconds"]) * 1000
        return instant.parse(execution.memory[state["TimestampPath"].removeprefix("$.")])

    def _chosen(self, execution: Execution, state: Mapping[str, Any]) -> str:
        for choice in state["Choices"]:
            if execution.memory.get(choice["Variable"].removeprefix("$.")) == choice["StringEquals"]:
                return str(choice["Next"])
        return str(state["Default"])

    def _end(self, execution: Execution, status: str) -> None:
        execution.status, execution.ended_at = status, self._timeline.now


def _forget(ended: Ended) -> None:
    """Take no notice of the answer of a repeated task."""
