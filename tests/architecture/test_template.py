import json
from pathlib import Path

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


def test_the_template_sets_exactly_what_the_settings_read() -> None:
    environment = Recorder()
    Settings(environment)
    set_by_the_template = set(SOURCE["Globals"]["Function"]["Environment"]["Variables"])
    assert set_by_the_template - OF_LIBRARIES == environment.asked


def test_a_name_server_that_does_not_answer_holds_a_thread_not_much_longer_than_the_shortest_push() -> None:
    options = SOURCE["Globals"]["Function"]["Environment"]["Variables"]["RES_OPTIONS"]
    timeout_s, attempts = (int(each.partition(":")[2]) for each in options.split())
    assert timeout_s * attempts <= 2 * TIMEOUT_S_MIN


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_settings_of_its_own(name: str) -> None:
    assert "Environment" not in FUNCTIONS[name]


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
