"""The console blocks of the README, its next pages and the how-to run as they stand, and show what is written there."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from local.engine.engine import free_port
from tests.running_stack import PAUSE_S, ROOT, RunningStack, start_stack, wait_until
from tests.tenth import of_this_commit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = (
    (re.compile(r"\d{20}"), "ID"),
    (re.compile(r"\S+@\d+#[0-9a-f]+"), "CLIENT"),
    (re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(\.\d+)?( UTC)?( \((in )?[^)]*\))?"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DAY"),
    (re.compile(r"#\d+"), "#N"),
    (re.compile(r"[│├└─]"), " "),
)
PUBLISHED = re.compile(r"\btagcast .*\bpublish ([\w-]+)(?:.*--count (\d+))?")
COMMAND_S = 300.0
PAGES = ("README.md", "docs/consumers.md", "docs/filters.md")
"""In the order in which a person tries them, on one stack."""
ARCHIVE = "docs/archive.md"
"""The next page: each of its commands starts Spark."""
HOW_TO = "docs/how-to.md"
JOB = re.compile(r"^\$ tagcast (audit|erase)\b", re.MULTILINE)
"""What starts Spark on that page."""
SECTION_LINES_MAX = 40
PORTS = ("9000", "9001", "9002", "9003", "9004", "9005", "9006")
"""Of the receivers on all pages."""


def stable(line: str) -> str:
    """The line without what differs from run to run: ids, times, clients, counts of pushes, frames."""
    for pattern, word in CHANGING:
        line = pattern.sub(word, line)
    return " ".join(line.split())


@dataclass
class Step:
    """One command of a page, and what it is said to show."""

    command: str
    shown: list[str] = field(default_factory=list)


def steps(pages: Sequence[str], ports: dict[str, str]) -> list[Step]:
    """The commands of these pages, on other ports than a person has."""
    return steps_in("\n".join((ROOT / page).read_text() for page in pages), ports)


def steps_in(page: str, ports: dict[str, str]) -> list[Step]:
    text = "\n".join(BLOCK.findall(page))
    found: list[Step] = []
    for line in re.sub(rf"\b({'|'.join(ports)})\b", lambda port: ports[port[0]], text).splitlines():
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ ")))
        elif line:
            found[-1].shown.append(line)
    return found


class Shell:
    """A person's bash, to which one command is given after the other; it ends at the first that fails."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._printed = folder / "printed.txt"
        self._ended = folder / "ended.txt"
        with self._printed.open("wb") as output:
            self._bash = subprocess.Popen(
                ["bash", "-eo", "pipefail"], cwd=ROOT, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._tell("trap 'kill $(jobs -p)' EXIT")

    def run(self, number: int, command: str) -> None:
        """Run a command to its end; behind one that goes on in the background the next may follow at once."""
        self._tell(f"{command}\necho {number} > {self._ended}")
        deadline = time.monotonic() + COMMAND_S
        while not (self._ended.exists() and self._ended.read_text().strip() == str(number)):
            if self._bash.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"`{command}` failed, or did not end:\n{self.printed}")
            time.sleep(PAUSE_S)

    def shows(self, lines: list[str]) -> bool:
        """Whether all these lines have been printed by now, by whatever command."""
        printed = {stable(line) for line in self.printed.splitlines()}
        return all(stable(line) in printed for line in lines)

    def close(self) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait(COMMAND_S)

    @property
    def printed(self) -> str:
        return self._printed.read_text()

    def _tell(self, words: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{words}\n")
        self._bash.stdin.flush()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack as fast as life: on a faster one a push on a busy machine is late, and its outcome has other words."""
    with start_stack(tmp_path_factory.mktemp("stack") / "data") as running:
        yield running


@pytest.fixture
def shell(stack: RunningStack, tmp_path: Path) -> Iterator[Shell]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {"TAGCAST_URL": stack.url, "TAGCAST_DATA": str(stack.folder), "PATH": path, "COLUMNS": "160"}
    opened = Shell(tmp_path, os.environ | settings)
    yield opened
    opened.close()


def play(played: Sequence[Step], stack: RunningStack, shell: Shell) -> None:
    """Run commands one after the other; a person waits for a second or two where this waits for what is to come."""
    topic, published = "", Counter[str]()
    for number, step in enumerate(played):
        if step.command.startswith("sleep "):
            assert step.shown or wait_until(lambda: stack.has_archived(topic, published[topic]))  # noqa: B023
        else:
            shell.run(number, step.command)
        assert wait_until(lambda: shell.shows(step.shown)), f"{step.shown} not in:\n{shell.printed}"  # noqa: B023
        if found := PUBLISHED.search(step.command):
            topic = found[1]
            published[topic] += int(found[2] or 1)


def ports_of(stack: RunningStack) -> dict[str, str]:
    """What stands for the ports of the pages."""
    return {"8080": stack.url.rsplit(":", 1)[1], **{port: str(free_port()) for port in PORTS}}


@pytest.mark.parametrize("pages", [PAGES, pytest.param((*PAGES, ARCHIVE), marks=pytest.mark.nightly)])
def test_the_commands_succeed_and_print_what_is_shown(pages: Sequence[str], stack: RunningStack, shell: Shell) -> None:
    play(steps(pages, ports_of(stack)), stack, shell)
    assert {path.name for path in stack.folder.rglob("*") if path.stat().st_mode & 0o077} == set()


TASKS = (ROOT / HOW_TO).read_text().split("\n## ")[1:]
BY_HAND = tuple(task for task in TASKS if BLOCK.search(task) and not JOB.search(task))
"""The tasks that need no Spark. Each has its own topics. A commit plays one of them, `make nightly` the whole page."""


def test_a_task_succeeds_and_prints_what_is_shown(stack: RunningStack, shell: Shell) -> None:
    assert len(BY_HAND) == 4
    play(steps_in(BY_HAND[of_this_commit() % 4], ports_of(stack)), stack, shell)


@pytest.mark.nightly
def test_what_is_done_by_task_succeeds_and_prints_what_is_shown(stack: RunningStack, shell: Shell) -> None:
    play(steps((HOW_TO,), ports_of(stack)), stack, shell)


def test_no_two_receivers_of_the_pages_listen_on_one_port() -> None:
    text = "\n".join((ROOT / page).read_text() for page in (*PAGES, ARCHIVE, HOW_TO))
    assert sorted(re.findall(r"^\$ tagcast listen --port (\d+)", text, re.MULTILINE)) == list(PORTS)


def test_each_task_takes_forty_lines_at_most() -> None:
    assert len(TASKS) == 6
    assert [task for task in TASKS if task.rstrip().count("\n") + 1 > SECTION_LINES_MAX] == []
