import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tagcast.subscription_settings import TIMEOUT_S_MIN
from tagcast_aws.runtime.settings import Reach, Settings

from tests.template import template_source

ROOT = Path(__file__).resolve().parents[2]
SOURCE = template_source()
FUNCTIONS = {
    name: each["Properties"]
    for name, each in SOURCE["Resources"].items()
    if each["Type"] == "AWS::Serverless::Function"
}
OF_LIBRARIES = {
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_METRICS_NAMESPACE",
    "LOG_LEVEL",
    "RES_OPTIONS",
    "AWS_ENDPOINT_URL",
    "PYDANTIC_DISABLE_PLUGINS",
}


class Recorder(dict[str, str]):
    """An environment that remembers what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return Reach.PUBLIC if name == "ALLOW_PRIVATE_ENDPOINTS" else "1"


def statements(name: str) -> Iterator[dict[str, Any]]:
    """The statements of the policies of a function, or of its role, also those that a condition puts in force."""
    owner = SOURCE["Resources"].get(f"{name}Role", SOURCE["Resources"][name])
    for policy in owner["Properties"]["Policies"]:
        for statement in policy.get("PolicyDocument", policy)["Statement"]:
            yield statement["Fn::If"][1] if "Fn::If" in statement else statement


def test_the_template_sets_exactly_what_the_settings_read() -> None:
    environment = Recorder()
    Settings.from_environment(environment)
    set_by_the_template = set(SOURCE["Globals"]["Function"]["Environment"]["Variables"])
    assert set_by_the_template - OF_LIBRARIES == environment.asked


def test_a_name_server_that_does_not_answer_holds_a_thread_not_much_longer_than_the_shortest_push() -> None:
    options = SOURCE["Globals"]["Function"]["Environment"]["Variables"]["RES_OPTIONS"]
    timeout_s, attempts = (int(each.partition(":")[2]) for each in options.split())
    assert timeout_s * attempts <= 2 * TIMEOUT_S_MIN


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_settings_of_its_own(name: str) -> None:
    assert "Environment" not in FUNCTIONS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_its_handler(name: str) -> None:
    assert (ROOT / FUNCTIONS[name]["CodeUri"] / "app.py").is_file()
    assert (SOURCE["Globals"]["Function"] | FUNCTIONS[name])["Handler"] == "app.lambda_handler"


NAMES_NO_RESOURCE = ("sqs:ListQueues", "ec2:")
"""What IAM allows for all resources or for none, and what Lambda asks for before there is a resource."""


@pytest.mark.parametrize("name", [*FUNCTIONS, "Redelivery"])
def test_policies_name_their_actions_and_resources(name: str) -> None:
    for statement in statements(name):
        assert all("*" not in action for action in statement["Action"])
        assert statement["Resource"] != "*" or all(each.startswith(NAMES_NO_RESOURCE) for each in statement["Action"])


def test_the_queue_has_no_queue_for_what_failed() -> None:
    """It would break the order and hide what is pending."""
    assert "RedrivePolicy" not in SOURCE["Resources"]["DeliveryQueue"]["Properties"]


def test_the_workflow_never_fails_a_lane() -> None:
    workflow = json.loads((ROOT / "functions" / "redelivery.asl.json").read_text())
    states = workflow["States"]
    assert workflow["StartAt"] == "Attempt"
    assert states["Attempt"]["Catch"][-1]["ErrorEquals"] == ["States.ALL"]
    assert all(state["Type"] != "Fail" for state in states.values())
    named = {state.get("Next") or state.get("Default") for state in states.values()} - {None}
    assert named <= set(states)
