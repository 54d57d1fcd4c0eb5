"""The README's console blocks run as they stand, and show what the README says they show."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, RunningStack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(460)]

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = (
    (re.compile(r"\d{20}"), "ID"),
    (re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(\.\d+)?( UTC)?( \((in )?[^)]*\))?"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DAY"),
    (re.compile(r"#\d+"), "#N"),
    (re.compile(r"[│├└─]"), " "),
)


def stable(line: str) -> str:
    """The line without what differs from run to run: ids, times, counts of pushes, frames."""
    for pattern, word in CHANGING:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def lines() -> list[str]:
    return [line for block in BLOCK.findall((ROOT / "README.md").read_text()) for line in block.splitlines()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_commands_succeed_and_print_what_is_shown(stack: RunningStack, tmp_path: Path) -> None:
    ports = {"8080": stack.url.rsplit(":", 1)[1], "9000": str(free_port()), "9001": str(free_port())}

    def moved(text: str) -> str:
        return re.sub(r"\b(8080|9000|9001)\b", lambda port: ports[port[0]], text)

    commands = [moved(line.removeprefix("$ ")) for line in lines() if line.startswith("$ ")]
    # Other tests run beside this one: the service gets more time here than a person's machine needs.
    commands = ["sleep 2" if command == "sleep 1" else command for command in commands]
    shown = [moved(line) for line in lines() if line and not line.startswith("$ ")]
    script = "\n".join(("set -eo pipefail", "trap 'kill $(jobs -p)' EXIT", *commands, "exit 0"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
        env=os.environ | {"TAGCAST_URL": stack.url, "TAGCAST_DATA": str(stack.folder), "PATH": path, "COLUMNS": "160"},
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    printed = [stable(line) for line in ran.stdout.splitlines()]
    assert [line for line in shown if stable(line) not in printed] == [], ran.stdout
