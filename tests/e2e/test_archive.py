"""The archive of a running stack, replayed by the command line; the README's test proves and reports it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.killing import call
from tests.http_server import Handler, serving
from tests.running_stack import ROOT, RunningStack, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
TOPIC = "archived"


@pytest.fixture
def pushes() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    received: list[dict[str, Any]] = []

    class Serving(Handler):
        def serve(self) -> None:
            received.append(json.loads(self.body()) | {"replay_header": self.headers["x-tagcast-replay-of"]})
            self.answer(200)

    with serving(Serving) as url:
        yield f"{url}/", received


def tagcast(stack: RunningStack, folder: Path, command: str, *words: str) -> dict[str, Any]:
    called = [sys.executable, "-m", "tagcast_cli.app", "--url", stack.url, "--json", command, *words]
    ran = subprocess.run(
        [*called, "--data", str(stack.folder)], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return summary


@pytest.mark.nightly
def test_what_a_stack_archived_is_replayed(
    stack: RunningStack, tmp_path: Path, pushes: tuple[str, list[dict[str, Any]]]
) -> None:
    url, received = pushes
    call("PUT", f"{stack.url}/topics/{TOPIC}", {})
    apples = {"filter": {"kind": "tags", "tags": ["apple"]}, "endpoint": {"protocol": "http", "url": url}}
    call("PUT", f"{stack.url}/topics/{TOPIC}/subscriptions/shop", apples)
    sent = [
        call("POST", f"{stack.url}/topics/{TOPIC}/messages", {"body": tag, "tags": [tag]})["message_id"]
        for tag in ("apple", "pear", "apple")
    ]
    assert wait_until(lambda: len(received) == 2)
    assert wait_until(lambda: stack.has_archived(TOPIC, 3))

    again = tagcast(stack, tmp_path, "replay", TOPIC, "shop", "--send", "--rate", "50")

    assert (again["sent"], again["refused"]) == (2, 0)  # No delivery of the pear was pending: its body was never kept.
    assert wait_until(lambda: len(received) == 4)
    assert [push["body"] for push in received] == ["apple"] * 4
    # EXPONENTIAL_DECAY_RETRY keeps no order.
    assert {push["replay_header"] for push in received[2:]} == {sent[0], sent[2]}
