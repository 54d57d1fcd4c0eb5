"""`tagcast console` serves pages of the API that the other commands talk to."""

import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.running_stack import wait_until
from tests.unit.cli.conftest import FakeApi

COMMAND = [sys.executable, "-m", "tagcast_cli.app"]


@contextmanager
def console_of(*words: str) -> Iterator[str]:
    """What a console says when it begins; it ends well."""
    command = [*COMMAND, *words, "console", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said, _ = process.stdout.readline(), process.stdout.readline()
        try:
            yield said.strip()
        finally:
            process.terminate()
    assert process.returncode == 0


def test_the_console_is_served_for_the_api_that_the_command_names(api: FakeApi) -> None:
    api.teach("GET /lanes?limit=100", {"lanes": [], "next_cursor": None})
    api.teach("GET /topics?limit=100", {"topics": [], "next_cursor": None})

    with console_of("--url", api.url) as said:
        found = re.search(r"at (http://127\.0\.0\.1:[0-9]+/)$", said)
        assert found is not None
        assert wait_until(lambda: b"All lanes are active" in urllib.request.urlopen(found[1]).read())


def test_with_a_token_it_lets_in_only_who_has_its_key(api: FakeApi, capfd: pytest.CaptureFixture[str]) -> None:
    with console_of("--url", api.url, "--token", "t0ken") as said:
        pass
    warning = capfd.readouterr().err
    assert ("Set TAGCAST_TOKEN instead" in " ".join(warning.split()), "t0ken" in warning) == (True, False)
    assert re.search(r"/\?key=[\w-]{32}$", said)
    assert "t0ken" not in said


def refusal(*words: str) -> tuple[int, str]:
    """Return the exit code and the error output of a console that does not start."""
    ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)
    return ended.returncode, " ".join(ended.stderr.split())


def test_a_console_that_cannot_start_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refusal("console", "--port", port) == (
            1,
            f"tagcast: port {port} of 127.0.0.1 is in use: choose another with --port",
        )
    code, said = refusal("console", "--port", "99999")
    assert (code, "Invalid value for '--port'" in said) == (2, True)
    aws = "https://a1.execute-api.eu-west-1.amazonaws.com"
    assert refusal("--url", aws, "--profile", "absent", "console", "--port", "0") == (
        1,
        "tagcast: The config profile (absent) could not be found",
    )
