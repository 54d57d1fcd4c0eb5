"""A running stack for the tests: the same command as `make run`, on a free port and a folder of its own."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.permissions.uses import USES, recorded

ROOT = Path(__file__).resolve().parents[2]
READY_S = 90.0
STOP_S = 40.0
TIME_SCALE = 10.0


@dataclass
class RunningStack:
    """A stack as a child process; `url` is its HTTP API, `engine_url` its AWS APIs."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    where: dict[str, Any]

    @property
    def url(self) -> str:
        return str(self.where["url"])

    @property
    def engine_url(self) -> str:
        return str(self.where["engine_url"])

    @property
    def output(self) -> str:
        return (self.folder.parent / "output.txt").read_text()

    def denied(self) -> list[tuple[str, str, str]]:
        """What a role was refused on any stack of this session: role, action, resource."""
        return [(use.role, use.action, use.resource) for use in recorded(USES) if use.grant is None]

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(STOP_S)


def start_stack(folder: Path, *flags: str) -> RunningStack:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "local", "--port", "0", "--data", str(folder), "--uses", str(USES), *flags],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    announced = folder / "stack.json"
    deadline = time.monotonic() + READY_S
    while True:
        if announced.exists():
            where = json.loads(announced.read_text())
            if where["pid"] == process.pid:
                return RunningStack(folder, process, where)
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the stack did not start: {(folder.parent / 'output.txt').read_text()}")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """One stack for the whole session, ten times faster than life."""
    running = start_stack(tmp_path_factory.mktemp("stack") / "data", "--time-scale", f"{TIME_SCALE:g}")
    yield running
    assert running.denied() == []
    if running.process.poll() is None:
        running.stop()
