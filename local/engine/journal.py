"""Keeps what changes in the engine before it is answered for: it outlives a kill of every process, not a loss of power.

What changed is appended to a file, in the form of its effect, and handed to the system before the answer goes. When the
file has grown as long as the state is, the state is written whole, at one instant, and the file begins anew.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from local.functions.quick_json import decoded, encoded

GROWN_BYTES = 32 * 1024 * 1024
"""The journal is never written anew before it is that long: the engine reads it in less than a second."""
LOOK_S = 1.0
STATE = "state.json"

Change = list[Any]
"""What kind of change it is, and what is needed to make it again."""


class Journal:
    """The changes since the state of a folder was last written; `read` once, before the first is added."""

    def __init__(self, folder: Path, grown_bytes: int = GROWN_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._grown_bytes = grown_bytes
        self._unwritten: list[Change] = []
        self._number = 0
        self._bytes = 0
        self._state_bytes = 0
        self._file: FileIO | None = None

    def read(self) -> tuple[Any, Iterator[Change]]:
        """The state as it was last written, if ever, and the changes since, in their order.

        A line without an end was being written when the process was killed: nobody was answered for it.
        """
        state, first = None, 0
        if (self._folder / STATE).exists():
            text = (self._folder / STATE).read_bytes()
            found = decoded(text)
            state, first, self._state_bytes = found["state"], found["journal"], len(text)
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.log"))
        self._forget_before(first)
        self._begin(max((first, *numbers)) + 1)
        kept = [self._folder / _name(number) for number in numbers if number >= first]
        self._bytes = sum(path.stat().st_size for path in kept)
        return state, (change for path in kept for change in _changes(path))

    def add(self, *change: Any) -> None:
        """Remember a change until it is written."""
        self._unwritten.append(list(change))

    def write(self) -> None:
        """Hand what was added to the system. The request that caused it may be answered then.

        A process that cannot is of no use: it ends.
        """
        if not self._unwritten:
            return
        changes, self._unwritten = self._unwritten, []
        line = encoded(changes) + b"\n"
        self._bytes += len(line)
        try:
            left = memoryview(line)
            while left:
                assert self._file is not None
                left = left[self._file.write(left) :]
        except OSError as fault:
            print(f"the journal cannot be written: {fault}", flush=True)
            os._exit(1)

    async def renew(self, state: Callable[[], Any]) -> None:
        """Write the state whole, and begin a new journal; nothing may change between the two, so both are one step."""
        self.write()
        self._begin(self._number + 1)
        number, text, bytes_before = self._number, encoded({"journal": self._number, "state": state()}), self._bytes
        await asyncio.to_thread(self._replace_state, text)
        self._forget_before(number)
        self._bytes, self._state_bytes = self._bytes - bytes_before, len(text)

    async def renew_when_grown(self, state: Callable[[], Any]) -> None:
        """Renew it, for ever, whenever it has become longer than the state."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._bytes > max(self._grown_bytes, self._state_bytes):
                try:
                    await self.renew(state)
                except OSError as fault:
                    print(f"the state cannot be written, the journal grows: {fault}", flush=True)

    def _begin(self, number: int) -> None:
        if self._file is not None:
            self._file.close()
        self._number, self._file = number, (self._folder / _name(number)).open("ab", buffering=0)

    def _replace_state(self, text: bytes) -> None:
        draft = self._folder / f"{STATE}.draft"
        draft.write_bytes(text)
        draft.replace(self._folder / STATE)

    def _forget_before(self, number: int) -> None:
        for path in self._folder.glob("*.log"):
            if int(path.stem) < number:
                path.unlink()


def _name(number: int) -> str:
    return f"{number:08d}.log"


def _changes(path: Path) -> Iterator[Change]:
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield from decoded(line)
