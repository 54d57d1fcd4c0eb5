"""What the start of an execution asks for, and what its answers mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError
from tagcast_aws.dispatch.workflow import StepFunctionsWorkflow

from tests.fakes.log import Log
from tests.integration.scripted import ScriptedClient, refusal

LANE = ("t", "07457000000000000001.3", "07457000000000000002")


def workflow(log: Log, *answers: Any) -> tuple[StepFunctionsWorkflow, ScriptedClient]:
    client = ScriptedClient(list(answers))
    return StepFunctionsWorkflow(client, "arn:machine", log.logger), client  # type: ignore[arg-type]


def test_one_execution_is_started_for_each_lane_and_generation() -> None:
    starting, client = workflow(Log(), {})

    assert starting.start(*LANE) is True
    [(operation, request)] = client.asked
    assert operation == "start_execution"
    assert request.keys() == {"stateMachineArn", "name", "input"}
    assert (request["stateMachineArn"], request["name"]) == (
        "arn:machine",
        "07457000000000000001_3-07457000000000000002",
    )
    assert json.loads(request["input"]) == {
        "topic": "t",
        "subscription_id": "07457000000000000001.3",
        "generation": "07457000000000000002",
        "rounds": 0,
    }


def test_an_execution_that_is_there_already_is_a_success_that_nobody_is_told_of() -> None:
    log = Log()
    starting, _ = workflow(log, refusal("ExecutionAlreadyExists"))

    assert starting.start(*LANE) is True
    assert log.lines() == []


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (refusal("ExecutionLimitExceeded"), "ExecutionLimitExceeded"),
        (ConnectTimeoutError(endpoint_url="https://states.test/"), "ConnectTimeoutError"),
    ],
)
def test_a_start_that_failed_is_told_with_its_lane_and_left_to_others(fault: Exception, told: str) -> None:
    log = Log()
    starting, _ = workflow(log, fault)

    assert starting.start(*LANE) is False
    [line] = log.lines()
    assert line["level"] == "WARNING"
    assert line["message"] == "workflow start failed"
    assert line["error"] == told
    assert (line["topic"], line["subscription_id"], line["generation"]) == LANE
