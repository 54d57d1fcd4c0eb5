"""The folder in which a stack keeps its state between runs. One stack at a time uses it."""

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tagcast_cli import OTHERS

from local.engine.checksums import replace_file
from local.engine.engine import free_port


class FolderInUseError(RuntimeError):
    """The folder is used by another stack, by other users, or by another program."""


@dataclass
class DataFolder:
    """The state folder of one stack.

    `engine/` has the engine's state, and `deployed` has the digest of the last deployment. `stack.json` has the stack's
    addresses, and `sam.json` has the functions' environment. These files contain access keys and messages, so the
    folder is private to the user.
    """

    path: Path
    _lock: TextIO | None = None

    def take(self, fresh: bool) -> None:
        """Lock the folder for this process. If *fresh* is True, delete the state and the reports of earlier runs.

        A folder without a lock file had no earlier run, so nothing is deleted in it. Raises FolderInUseError if another
        stack, other users or another program use the folder.
        """
        was_used = (self.path / "lock").exists()
        if self.engine.exists() and not was_used:
            raise FolderInUseError(f"{self.engine} is not the state of a local stack: choose another --data")
        if not was_used and self._is_shared():
            raise FolderInUseError(f"other users may read {self.path}, which has other files: choose another --data")
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        lock = (self.path / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            lock.close()
            raise FolderInUseError(f"another stack runs on {self.path}: stop it, or choose --data") from held
        self._lock = lock
        (self.path / "stack.json").unlink(missing_ok=True)
        if fresh and was_used:
            for kept in ("engine", "reports"):
                shutil.rmtree(self.path / kept, ignore_errors=True)
            for file in ("deployed", "minutes.sqlite"):
                (self.path / file).unlink(missing_ok=True)

    def _is_shared(self) -> bool:
        """Return whether the folder has files, and other users may use it. Making it private would lock them out."""
        return self.path.is_dir() and bool(self.path.stat().st_mode & OTHERS) and any(self.path.iterdir())

    def release(self) -> None:
        """Unlock the folder if this process has locked it, and delete `stack.json`."""
        if self._lock is not None:
            (self.path / "stack.json").unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    @property
    def engine(self) -> Path:
        """The folder of the engine's state."""
        return self.path / "engine"

    def engine_port(self) -> int:
        """Return a free port for the engine: if possible the port of the last run, because queue URLs contain it."""
        remembered = self.path / "engine" / "port"
        try:
            port = free_port(int(remembered.read_text()))
        except (OSError, ValueError):
            port = free_port()
        remembered.parent.mkdir(parents=True, exist_ok=True)
        remembered.write_text(str(port))
        return port

    def write_environment(self, variables: Mapping[str, str]) -> None:
        """Write *variables* to `sam.json`, with which `sam local invoke --env-vars` runs a function on this stack."""
        text = json.dumps({"Parameters": dict(variables)}, indent=2)
        replace_file(self.path / "sam.json", text.encode())

    def announce(self, **where: Any) -> None:
        """Write `stack.json` with the addresses *where*. Other programs wait for this file until the stack is ready."""
        replace_file(self.path / "stack.json", json.dumps({**where, "pid": os.getpid()}).encode())
