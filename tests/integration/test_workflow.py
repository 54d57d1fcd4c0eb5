"""The state machine as it ships, executed by moto's Step Functions: the retry function behind it, rows in DynamoDB.

Waits of the workflow, pauses of its `Retry` and sleeps of the function all move one clock, so nothing here takes
its time and every instant is exact.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.exceptions import JsonRESTError
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.timestamp import Timestamp
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
from tagcast.instant import parse, rfc3339
from tagcast.model import Outcome, Push, Strategy
from tagcast.operating import lanes
from tagcast.ports import Table
from tagcast.registry.subscriptions import get_subscription
from tagcast_aws import wiring
from tagcast_aws.dispatch.workflow import StepFunctionsWorkflow
from tagcast_aws.store.dynamodb import DynamoStore

from functions.retry import app as retry
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.template import declared

DEFINITION = Path(__file__).parents[2] / "functions" / "redelivery.asl.json"
FUNCTION = "tagcast-retry"
CONFIG: Any = {"lambda": {"use_docker": False}, "stepfunctions": {"execute_state_machine": True}}
FINISHED_S = 30.0
KEPT = ("AttributeDefinitions", "KeySchema", "BillingMode", "GlobalSecondaryIndexes")


def make_tables(client: Any) -> dict[Table, str]:
    """Create both tables as the template declares them; return their names."""
    names = {Table.REGISTRY: "RegistryTable", Table.MESSAGES: "MessagesTable"}
    for name in names.values():
        properties = declared()[name]["Properties"]
        client.create_table(TableName=name, **{part: properties[part] for part in KEPT if part in properties})
    return names


def definition() -> str:
    """The definition as CloudFormation hands it over: its substitutions made."""
    return DEFINITION.read_text().replace("${RetryFunctionArn}", FUNCTION).replace("${Partition}", "aws")


@dataclass
class Machine:
    """The state machine, what it waited for, and faults to come before its function is reached."""

    fake: FakeWorld
    client: Any
    arn: str
    waits: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    faults: list[Callable[[], Exception]] = field(default_factory=list)
    wakes_early_ms: int = 0
    attempted_at: list[int] = field(default_factory=list)

    def invoke(self, body: str) -> str:
        if self.faults:
            raise self.faults.pop(0)()
        return json.dumps(asyncio.run(retry.handle(json.loads(body), self.fake.world, 60.0)))

    def wait_until(self, text: str) -> None:
        self.waits.append(text)
        self.fake.clock.instant = max(self.fake.clock.instant, parse(text) - self.wakes_early_ms)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.fake.clock.sleep(seconds)

    def executions(self) -> list[dict[str, Any]]:
        """All executions, after each has ended."""
        deadline = time.monotonic() + FINISHED_S
        while True:
            listed = self.client.list_executions(stateMachineArn=self.arn)["executions"]
            described = [self.client.describe_execution(executionArn=one["executionArn"]) for one in listed]
            if all(one["status"] != "RUNNING" for one in described):
                return described
            assert time.monotonic() < deadline, "an execution does not end"
            time.sleep(0.02)

    def output(self) -> dict[str, Any]:
        """What the only execution ended with."""
        [execution] = self.executions()
        assert execution["status"] == "SUCCEEDED", execution
        return dict(json.loads(execution["output"]))

    def answering(self, name: str, answer: Callable[[Push], Outcome]) -> None:
        def noting(push: Push) -> Outcome:
            self.attempted_at.append(self.fake.clock.instant)
            return answer(push)

        self.fake.pusher.behaviours[name] = noting

    def lane_state(self, name: str) -> str:
        world = self.fake.world
        return str(lanes.lane_view(world, get_subscription(world, "test1", name)).state)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with mock_aws(config=CONFIG):
        client = boto3.client("stepfunctions")
        dynamodb = boto3.client("dynamodb")
        arn = client.create_state_machine(
            name="redelivery", roleArn="arn:aws:iam::123456789012:role/redelivery", definition=definition()
        )["stateMachineArn"]
        fake = FakeWorld()
        fake.world = replace(
            fake.world,
            store=DynamoStore(dynamodb, make_tables(dynamodb)),
            workflow=StepFunctionsWorkflow(client, arn, wiring.logger()),
        )
        machine = Machine(fake, client, arn)

        def invoke(
            backend: object, function_name: str, qualifier: object, body: str, headers: object, answered: dict[str, str]
        ) -> bytes:
            assert function_name == FUNCTION
            try:
                return machine.invoke(body).encode()
            except JsonRESTError:
                raise
            except Exception as error:  # noqa: BLE001  as Lambda answers for its function
                answered["x-amz-function-error"] = "Unhandled"
                return json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)}).encode()

        def timestamp_s(wait: Timestamp, env: Any) -> int:
            wait.string.eval(env=env)
            machine.wait_until(env.stack.pop())
            return 0

        def interval(wait: object, env: object, wait_seconds: float) -> None:
            if wait_seconds:
                machine.pause(wait_seconds)

        monkeypatch.setattr(LambdaSimpleBackend, "invoke", invoke)
        monkeypatch.setattr(Timestamp, "_get_wait_seconds", timestamp_s)
        monkeypatch.setattr(WaitFunction, "_wait_interval", interval)
        monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=machine.pause))
        fake.topic()
        yield machine
        machine.executions()


def failing(times: int) -> Callable[[Push], Outcome]:
    """An endpoint that fails so often, then recovers."""
    outcomes = iter([FAIL] * times)
    return lambda push: next(outcomes, OK)


def too_many_requests() -> Exception:
    return JsonRESTError("TooManyRequestsException", "Rate Exceeded.")


def test_a_failing_subscriber_is_retried_at_the_instants_of_the_waits_and_then_delivered(machine: Machine) -> None:
    machine.fake.subscribe("A")
    machine.answering("A", failing(3))
    machine.fake.publish("1", "2")
    began = machine.fake.clock.instant

    machine.fake.deliver()

    output = machine.output()
    assert (output["status"], output["rounds"]) == ("end", 3)
    assert machine.waits == [rfc3339(began + seconds * 1000) for seconds in (15, 30, 45)]
    assert machine.attempted_at == [began, *(parse(instant) for instant in machine.waits), began + 45_000]
    assert machine.fake.pusher.received["A"] == ["1", "2"]
    assert machine.lane_state("A") == "active"


def test_short_waits_of_the_decay_schedule_happen_in_the_function(machine: Machine) -> None:
    machine.fake.subscribe("A", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    machine.answering("A", failing(6))
    machine.fake.publish("1")
    began = machine.fake.clock.instant

    machine.fake.deliver()

    assert machine.output()["status"] == "end"
    assert machine.attempted_at == [began + seconds * 1000 for seconds in (0, 1, 3, 7, 15, 31, 63)]
    assert machine.waits == [rfc3339(began + 31_000), rfc3339(began + 63_000)]


def test_a_workflow_that_wakes_early_attempts_nothing_before_the_instant(machine: Machine) -> None:
    machine.wakes_early_ms = 900
    machine.fake.subscribe("A")
    machine.answering("A", failing(1))
    machine.fake.publish("1")
    began = machine.fake.clock.instant

    machine.fake.deliver()

    assert machine.output()["status"] == "end"
    assert machine.attempted_at == [began, began + 15_000]


def test_a_fault_of_lambda_is_retried_by_the_workflow_itself(machine: Machine) -> None:
    machine.faults = [too_many_requests, too_many_requests]
    machine.fake.subscribe("A")
    machine.answering("A", failing(1))
    machine.fake.publish("1")

    machine.fake.deliver()

    output = machine.output()
    assert output["status"] == "end"
    assert "fault" not in output
    assert len(machine.pauses) == 2
    assert machine.pauses[0] <= 2
    assert machine.pauses[1] <= 4
    assert machine.fake.pusher.received["A"] == ["1"]


def test_a_fault_of_the_function_pauses_the_lane_for_half_a_minute_and_loses_nothing(machine: Machine) -> None:
    machine.faults = [lambda: OSError("the table cannot be reached")]
    machine.fake.subscribe("A")
    machine.answering("A", failing(2))
    machine.fake.publish("1")

    machine.fake.deliver()

    output = machine.output()
    assert (output["status"], output["rounds"]) == ("end", 1)
    assert machine.pauses == [30]
    assert machine.fake.pusher.received["A"] == ["1"]
