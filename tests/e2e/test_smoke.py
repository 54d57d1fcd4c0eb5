"""`tagcast smoke` as a person runs it, on a stack that is three times faster: what it sees, and what it leaves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.killing import call
from tests.running_stack import ROOT, RunningStack, heed_interrupts, start_stack, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
PREFIX = "tagcast_smoke_tagcast_"
STEPS_AFTERWARDS = ("make queue", "make function", "make endpoint", "publish", "queue", "function", "endpoint", "retry")
STEPS_AT_LAST = ("order", "receipts", "expiry", "archive", "job", "clean-up")
WHOLE = ["leftovers", "topic", *STEPS_AFTERWARDS, *STEPS_AT_LAST]


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack of these tests' own: the retry of 20 s has to be later than everything that does not wait for it."""
    running = start_stack(tmp_path_factory.mktemp("smoke") / "data", "--time-scale", "3")
    yield running
    assert running.denied() == []
    running.stop()


def begin(stack: RunningStack, *options: str) -> subprocess.Popen[str]:
    called = [sys.executable, "-u", "-m", "tagcast_cli.app", "smoke", "--data", str(stack.folder), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        called, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=heed_interrupts
    )


def run(stack: RunningStack, *options: str) -> dict[str, Any]:
    process = begin(stack, "--json", *options)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, printed + errors
    told: dict[str, Any] = json.loads(printed)
    return told


def left(stack: RunningStack) -> list[str]:
    """Everything of any run that is there: its topic, queues, function and role."""
    queues = stack.owner("sqs").list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", [])
    functions = stack.owner("lambda").list_functions()["Functions"]
    roles = stack.owner("iam").list_roles(MaxItems=1000)["Roles"]
    topics = call("GET", f"{stack.url}/topics")["topics"]
    names = [url.rpartition("/")[2] for url in queues] + [each["FunctionName"] for each in functions]
    names += [each["RoleName"] for each in roles] + [each["name"] for each in topics]
    return sorted(name for name in names if name.startswith(PREFIX))


def interrupted_after(stack: RunningStack, step: str, how: signal.Signals) -> int:
    """Run the command until a step is told, then end it; return its exit code."""
    process = begin(stack)
    assert process.stdout is not None
    for line in process.stdout:
        if f"  {step} " in line:
            process.send_signal(how)
            break
    process.communicate(timeout=60)
    return process.returncode


def test_a_run_sees_every_promise_and_leaves_nothing(slower: RunningStack) -> None:
    told = run(slower)

    assert [step["name"] for step in told["steps"]] == WHOLE
    ended = {step["name"]: (step["state"], step["finding"]) for step in told["steps"]}
    assert {name: each for name, each in ended.items() if each[0] != "ok" and name != "job"} == {}
    assert ended["job"][0] == "not checked"
    assert (told["failed"], told["seen"]) == ([], [])
    assert left(slower) == []
    assert wait_until(lambda: slower.has_archived(told["run"], 4))


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_it_finds_nothing_left(slower: RunningStack, how: signal.Signals) -> None:
    assert interrupted_after(slower, "publish", how) != 0
    assert left(slower) == []


@pytest.mark.nightly
def test_what_a_killed_run_leaves_is_removed_by_the_next_one(slower: RunningStack) -> None:
    interrupted_after(slower, "make endpoint", signal.SIGKILL)
    assert len(left(slower)) == 5  # Topic, two queues, function, role.
    interrupted_after(slower, "topic", signal.SIGINT)
    assert left(slower) == []


@pytest.mark.nightly
def test_a_job_is_run_by_the_stack_if_somebody_asks_for_it(slower: RunningStack) -> None:
    told = run(slower, "--job")
    assert [step["finding"].split(" is ")[-1] for step in told["steps"] if step["name"] == "job"] == ["SUCCEEDED."]
