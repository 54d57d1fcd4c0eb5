"""The two commands of the README, in a fresh clone with an environment of its own."""

import os
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from local.engine.engine import free_port
from tests.running_stack import ROOT, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^(?:\*\*`)?(make (?:run|test))\b", README, re.MULTILINE)
INHERITED = ("HOME", "PATH", "LANG", "PIP_CERT", "PIP_INDEX_URL", "PIP_FIND_LINKS", "SSL_CERT_FILE", "PYENV_ROOT")
MINUTE_S = 60


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh") / "tagcast"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_the_readme_names_both_commands() -> None:
    assert COMMANDS == ["make run", "make test"]


@pytest.mark.timeout(10 * MINUTE_S)
def test_the_first_command_starts_the_service(clone: Path) -> None:
    port, console = free_port(), free_port()
    command = [*COMMANDS[0].split(), f"PORT={port}", f"CONSOLE_PORT={console}"]
    running = subprocess.Popen(command, cwd=clone, env=environment(), start_new_session=True)
    try:
        assert wait_until(lambda: is_healthy(port), patience_s=8 * MINUTE_S)
    finally:
        running.terminate()
        running.wait(MINUTE_S)


@pytest.mark.timeout(40 * MINUTE_S)
def test_the_second_command_passes(clone: Path) -> None:
    ran = subprocess.run(COMMANDS[1].split(), cwd=clone, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert re.search(r"\d+ passed", ran.stdout.rstrip().splitlines()[-1])
