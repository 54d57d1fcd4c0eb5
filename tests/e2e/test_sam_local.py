"""The recipe of docs/local-stack.md for `sam local invoke`, command by command, on a fresh stack."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.running_stack import ROOT, RunningStack, start_stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
COMMAND = re.compile(r"^(\w+Function) (\w+)$", re.MULTILINE)
LAYER = ROOT / "layers" / "tag_matching" / "python"
EXPORT = re.compile(r"^export (.*)$", re.MULTILINE)
ORDER = (ROOT / "events" / "order.txt").read_text()
PAGE = (ROOT / "docs" / "local-stack.md").read_text()


def recipe() -> str:
    return PAGE.partition("## One function by itself")[2]


def environment(folder: Path) -> dict[str, str]:
    """What the page exports, which the recipe refers to, in the folder in which `.tagcast` is the stack's."""
    assert "export as above" in recipe()
    exported = EXPORT.search(PAGE)
    assert exported is not None
    told = subprocess.run(["sh", "-c", f"{exported[0]}; env"], cwd=folder, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in told.stdout.splitlines() if line.startswith("AWS_"))


def is_well(answer: Any) -> bool:
    """Whether a function did what it was asked: a success of the API, or a batch without a failure."""
    if isinstance(answer, dict) and "statusCode" in answer:
        return 200 <= int(answer["statusCode"]) < 300
    return not (isinstance(answer, dict) and answer.get("batchItemFailures"))


def test_every_event_is_part_of_the_recipe() -> None:
    assert "done < events/order.txt" in recipe()
    played = {event for _, event in COMMAND.findall(ORDER)}
    assert played == {path.stem for path in (ROOT / "events").glob("*.json")}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[RunningStack]:
    stack = start_stack(tmp_path / ".tagcast")
    yield stack
    assert stack.stop() == 0


def test_the_commands_work_one_after_the_other_on_a_fresh_stack(fresh: RunningStack, tmp_path: Path) -> None:
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, (ROOT, LAYER)))}
    answers: dict[str, Any] = {}
    for function, commands in groupby(COMMAND.findall(ORDER), itemgetter(0)):
        events = [f"events/{event}.json" for _, event in commands]
        ran = subprocess.run(
            [sys.executable, "-m", "tests.e2e.invoke_once", function, str(fresh.folder / "sam.json"), *events],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
            env={**own, **environment(tmp_path)},
        )  # fmt: skip
        assert ran.returncode == 0, f"{function} {events}: {ran.stderr}"
        answers |= json.loads(ran.stdout.splitlines()[-1])

    assert {event: answer for event, answer in answers.items() if not is_well(answer)} == {}
    assert json.loads(answers["events/publish.json"]["body"])["matched"] == 1
