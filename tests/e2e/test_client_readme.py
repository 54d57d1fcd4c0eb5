"""The programs in the client's README do what it says, on the running stack."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tagcast_client import Client

from local.engine.engine import free_port
from tests.running_stack import ROOT, RunningStack, wait_until

pytestmark = pytest.mark.e2e
PATIENCE_S = 30.0
README = (ROOT / "clients/python/README.md").read_text()
LINES_MAX = 15


def programs() -> dict[str, str]:
    found = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", README, re.DOTALL)
    return dict(found)


def test_publishing_receiving_and_consuming_take_fifteen_lines_each() -> None:
    assert programs().keys() == {"receive.py", "consume.py", "publish.py", "test_shop.py"}
    for program in programs().values():
        assert sum(bool(line.strip()) for line in program.splitlines()) <= LINES_MAX


def test_what_publish_publishes_receive_receives(stack: RunningStack, tmp_path: Path) -> None:
    port = free_port()
    for name in ("receive.py", "publish.py"):
        program = programs()[name]
        here = program.replace("http://127.0.0.1:8080", stack.url).replace("9000", str(port))
        (tmp_path / name).write_text(here)
    heard = tmp_path / "heard.txt"
    with heard.open("w") as output:
        receiving = subprocess.Popen([sys.executable, tmp_path / "receive.py"], stdout=output)
    try:
        published = subprocess.run(
            [sys.executable, tmp_path / "publish.py"], capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        assert published.stdout == "matched 1\n"
        wait_until(heard.read_text)
        assert heard.read_text().splitlines()[0] == "received order 17 with ('paid',)"
    finally:
        receiving.kill()
        receiving.wait()


def test_what_is_published_is_consumed(stack: RunningStack, tmp_path: Path) -> None:
    program, heard = tmp_path / "consume.py", tmp_path / "heard.txt"
    program.write_text(programs()["consume.py"].replace("http://127.0.0.1:8080", stack.url))
    with heard.open("w") as output, Client(stack.url) as tagcast:
        consuming = subprocess.Popen([sys.executable, program], stdout=output)
        try:
            tagcast.ensure_topic("TopicTest")
            assert wait_until(lambda: [each.name for each in tagcast.list_subscriptions("TopicTest")] == ["workers"])
            tagcast.publish("TopicTest", "order 17", tags=["TagB"])
            assert wait_until(heard.read_text)
            assert heard.read_text() == "got order 17\n"
            assert [each.agrees for each in tagcast.list_members("TopicTest", "workers")] == [True]
        finally:
            consuming.kill()
            consuming.wait()


def test_the_tests_of_the_readme_pass(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(programs()["test_shop.py"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tagcast_client.pytest_plugin", "test_shop.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.stdout.rstrip().splitlines()[-1].startswith("2 passed"), ran.stdout
