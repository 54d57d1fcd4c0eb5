"""What the stack says of a disk that is full or read-only, and of an engine that is dead: one sentence, and it ends."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.running_stack import ROOT, RunningStack, start_stack, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
ENDS_S = 5.0
BODY = os.urandom(30_000).hex()
"""Of 60 kB, and of no fewer when the archive has deflated it to half."""
MIB = 1024 * 1024


def publish(stack: RunningStack, topic: str, most: int = 500) -> int:
    """How many messages were acknowledged before one was not."""
    with httpx.Client(base_url=stack.url, timeout=20) as api:
        api.put(f"/topics/{topic}", json={}).raise_for_status()
        api.put(f"/topics/{topic}/subscriptions/group", json={"endpoint": {"protocol": "pull"}}).raise_for_status()
        for number in range(most):
            try:
                if api.post(f"/topics/{topic}/messages", json={"body": BODY}).status_code != httpx.codes.CREATED:
                    return number
            except httpx.TransportError:
                return number
    raise AssertionError("the disk did not become full")


def ended(stack: RunningStack) -> list[str]:
    """What a stack said that ends by itself within its time."""
    began = time.monotonic()
    assert stack.process.wait(60) == 1
    assert time.monotonic() - began < ENDS_S
    return said(stack.output)


def said(output: str) -> list[str]:
    """The lines of a stack after its greeting."""
    return output.rpartition("Ctrl-C\n")[2].strip().splitlines()


def started(folder: Path, *flags: str) -> tuple[int, str]:
    """The exit code of a stack that does not start, and all that it said."""
    command = [sys.executable, "-m", "local", "--port", "0", "--data", str(folder), *flags]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return found.returncode, found.stdout + found.stderr


def test_a_record_that_cannot_be_written_a_dead_engine_and_a_damaged_file_are_a_sentence_each(tmp_path: Path) -> None:
    """Three stacks on one folder: each ends as it should, and loses nothing of the one before it."""
    data = tmp_path / "data"
    with start_stack(data) as stack:
        journal = max((data / "engine" / "journal").glob("*.log"))
        services = data / "engine" / "state" / "services.json"
        most = max(journal.stat().st_size, services.stat().st_size) + 10 * len(BODY)
        resource.prlimit(stack.where["engine_pid"], resource.RLIMIT_FSIZE, (most, most))
        acknowledged = publish(stack, "full")
        [sentence] = ended(stack)
    assert acknowledged
    assert sentence.startswith("tagcast: a file in ")
    assert str(data) in sentence

    with start_stack(data) as stack:
        assert wait_until(lambda: len(stack.archived("messages", "full")) >= acknowledged)
        os.kill(stack.where["engine_pid"], signal.SIGKILL)
        [sentence] = ended(stack)
    assert sentence.startswith("tagcast: the engine has ended by itself; its log says why: ")

    path = data / "engine" / "state" / "services.json"
    path.write_bytes(path.read_bytes()[:1_000])
    code, output = started(data)
    assert (code, output.count("\n")) == (1, 1)
    assert output.startswith(f"tagcast: {path} is damaged: its 1000 bytes do not match")


def test_a_folder_that_cannot_be_made_or_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output = started(tmp_path / "file" / "data")
    assert (code, output.count("\n")) == (1, 1)
    assert output.startswith("tagcast: ")
    assert "is not a folder" in output
    code, output = started(tmp_path / ("a" * 300))
    assert (code, output.count("\n")) == (1, 1)
    assert "is too long: choose a shorter one with --data" in output


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts disks; the tests above need nobody")
Remount = Callable[[str], object]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Remount]]:
    """A disk of 6 MiB of its own, and what remounts it otherwise."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], check=True)
    yield folder, lambda how: subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)
    subprocess.run(["umount", "--lazy", folder], check=True)


@needs_root
@pytest.mark.nightly
def test_a_full_disk_loses_no_archived_record_and_is_named(disk: tuple[Path, Remount]) -> None:
    folder, remount = disk
    with start_stack(folder) as stack:
        acknowledged = publish(stack, "full")
        assert acknowledged
        [sentence] = ended(stack)
        assert f"the disk at {folder} is full (0 MiB free)" in sentence
    (folder / "filling").write_bytes(b"")
    with pytest.raises(OSError, match="No space left"):
        (folder / "filling").write_bytes(bytes(8 * MIB))
    code, output = started(folder)
    assert (code, output.count("\n")) == (1, 1)
    assert f"the disk at {folder} is full (0 MiB free)" in output
    (folder / "filling").unlink()
    remount("size=64m")
    with start_stack(folder) as stack:
        assert wait_until(lambda: len(stack.archived("messages", "full")) >= acknowledged)


@needs_root
def test_a_disk_that_is_read_only_is_named_at_the_start_and_later(disk: tuple[Path, Remount]) -> None:
    folder, remount = disk
    remount("ro")
    code, output = started(folder / "data")
    assert (code, output.count("\n")) == (1, 1)
    assert f"the disk at {folder} is read-only" in output
