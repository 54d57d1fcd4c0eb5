"""An engine that said its last words has ended, although its process is still about to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.engine.engine import Engine


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
