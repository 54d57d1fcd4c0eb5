"""An engine that said its last words has ended, although its process is still about to."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from local.engine.engine import Engine
from tests.running_stack import ROOT, wait_until

HERE = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}


def engines_in(folder: Path) -> list[int]:
    """The processes whose environment names a folder as the engine's."""
    wanted, found = f"STATE_DIR={folder.resolve()}/state".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Engine, int]]:
    """An engine whose process lives, and the end of the pipe to which that says its last words."""
    made = Engine(tmp_path, "127.0.0.1:1")
    made._error_pipe, theirs = os.pipe()
    made._process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield made, theirs
    os.close(theirs)
    made.stop()


def test_the_last_error_is_told_as_often_as_they_are_asked_for(engine: tuple[Engine, int]) -> None:
    made, theirs = engine
    before = made.why_ended

    os.write(theirs, b"the disk is full\n")

    assert (before, made.why_ended, made.why_ended, made.alive) == ("", "the disk is full", "the disk is full", False)


def test_an_engine_whose_stack_is_killed_before_it_began_ends(tmp_path: Path) -> None:
    """Its parent is another process by then, which lives on."""
    (tmp_path / "data").mkdir()
    code = (
        "import os, signal; from pathlib import Path; from local.engine.engine import Engine;"
        "made = Engine(Path('data'), '127.0.0.1:1'); made._ready = lambda: os.kill(os.getpid(), signal.SIGKILL);"
        "made.start()"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=HERE, stdout=subprocess.PIPE, check=False)
    assert killed.returncode == -signal.SIGKILL

    assert wait_until(lambda: not engines_in(tmp_path / "data")), "the engine runs on"


def test_an_engine_waits_for_the_one_before_it(tmp_path: Path) -> None:
    """An engine that a kill of its stack left behind may still write."""
    before, after = Engine(tmp_path, "127.0.0.1:1"), Engine(tmp_path, "127.0.0.1:1")
    before.start()
    starting = threading.Thread(target=after.start)
    starting.start()
    try:
        assert wait_until(lambda: "has not ended yet" in (tmp_path / "engine.log").read_text())
        assert starting.is_alive()
    finally:
        before.stop()
        starting.join()
        after.stop()
