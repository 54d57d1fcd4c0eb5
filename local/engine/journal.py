"""Stores the engine's changes before each response. They survive a kill of all processes, but not a power failure.

Each change is appended to a file and passed to the operating system before the response. When the file is longer than
both the state and 32 MiB, the engine writes its whole state and begins a new file. Each line has a checksum over itself
and all earlier lines, so changed or missing lines are detected.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any
from zlib import crc32

from local.engine.checksums import (
    CHANGED,
    REMEDY,
    DamageError,
    frame_line,
    frame_parts,
    is_torn,
    replace_file,
    unframe_line,
)
from local.engine.last_error import end_process, why_not_written
from local.functions.quick_json import decode, encode

GROWN_BYTES = 32 * 1024 * 1024
"""A shorter journal is not rewritten, because the engine reads it in less than a second."""
STATE = "state.json"

Change = list[Any]
"""A list: the kind of the change, then its fields."""


class Journal:
    """The changes since the state was written. Call `read` once and take all its changes; then call `add`."""

    def __init__(self, folder: Path, grown_bytes: int = GROWN_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._grown_bytes = grown_bytes
        self._unwritten: list[Change] = []
        self._number = 0
        self._checksum = 0
        self._bytes = 0
        self._state_bytes = 0
        self._file: FileIO | None = None

    @property
    def exists(self) -> bool:
        """Whether an earlier process has begun the journal."""
        return any(self._folder.glob("*.log"))

    def read(self) -> tuple[Any, Iterator[Change]]:
        """Return the last written state, and an iterator over all later changes in order.

        The state is None if none was written. The call and the iterator raise DamageError. An incomplete last line,
        which a kill left, is skipped, because its request got no response.
        """
        state, first = self._read_state()
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.log"))
        kept = [number for number in numbers if number >= first]
        return state, self._read_changes(first, kept, max((first, *numbers)) + 1)

    def add(self, *change: Any) -> None:
        """Add a change. The next `write` writes it."""
        self._unwritten.append(list(change))

    def write(self) -> None:
        """Write the added changes. Then the caller may send its response. If the write fails, the process ends."""
        if not self._unwritten:
            return
        changes, self._unwritten = self._unwritten, []
        line, self._checksum = frame_line(encode(changes), self._checksum)
        self._bytes += len(line)
        try:
            left = memoryview(line)
            while left:
                assert self._file is not None
                left = left[self._file.write(left) :]
        except OSError as fault:
            self._end(fault)

    async def renew(self, state: Callable[[], Any]) -> None:
        """Begin a new file for later changes, and write the whole state as *state* returns it now."""
        self.write()
        self._begin(self._number + 1)
        number, bytes_before = self._number, self._bytes
        text = encode({"journal": number, "after": self._checksum, "state": state()})
        await asyncio.to_thread(replace_file, self._folder / STATE, *frame_parts(text, crc32(text)))
        self._forget_before(number)
        self._bytes, self._state_bytes = self._bytes - bytes_before, len(text)

    async def renew_if_grown(self, state: Callable[[], Any]) -> None:
        """Call `renew` if the journal is longer than the state and than :data:`GROWN_BYTES`."""
        if self._bytes > max(self._grown_bytes, self._state_bytes):
            try:
                await self.renew(state)
            except OSError as fault:
                self._end(fault)

    def _read_state(self) -> tuple[Any, int]:
        """Return the state (None without one), and the number of the first file with later changes.

        The checksums in this file continue the checksum that the state has.
        """
        path = self._folder / STATE
        if not path.exists():
            return None, 0
        line = path.read_bytes()
        found = unframe_line(line)
        if found is None:
            raise DamageError(path, CHANGED.format(len(line)))
        state = decode(found[0])
        self._checksum, self._state_bytes = state["after"], len(found[0])
        return state["state"], state["journal"]

    def _read_changes(self, first: int, numbers: list[int], next_number: int) -> Iterator[Change]:
        for number in numbers:
            path = self._folder / _name(number)
            self._bytes += path.stat().st_size
            later = [self._folder / _name(each) for each in numbers if each > number]
            yield from self._changes(path, later)
        self._forget_before(first)
        self._begin(next_number)

    def _changes(self, path: Path, later: list[Path]) -> Iterator[Change]:
        at = 0
        with path.open("rb") as lines:
            for place, line in enumerate(lines, 1):
                found = unframe_line(line, self._checksum)
                if found is None and not line.endswith(b"\n") and is_torn(line):
                    return
                if found is None:
                    what = f"line {place} (from byte {at} on) does not match its checksum"
                    raise DamageError(path, what, _remedy(path, at, later))
                text, self._checksum = found
                yield from decode(text)
                at += len(line)

    def _begin(self, number: int) -> None:
        if self._file is not None:
            self._file.close()
        self._number, self._file = number, (self._folder / _name(number)).open("ab", buffering=0)

    def _forget_before(self, number: int) -> None:
        for path in self._folder.glob("*.log"):
            if int(path.stem) < number:
                path.unlink()

    def _end(self, fault: OSError) -> None:
        """End the process, after deleting the incomplete file to free its space."""
        with contextlib.suppress(OSError):
            (self._folder / f"{STATE}.draft").unlink(missing_ok=True)
        end_process(why_not_written(fault, self._folder) or f"the journal in {self._folder} cannot be written: {fault}")


def _name(number: int) -> str:
    return f"{number:08d}.log"


def _remedy(path: Path, at: int, later: list[Path]) -> str:
    removal = f" && rm {' '.join(map(str, later))}" if later else ""
    return f"{REMEDY}. Or keep the changes before that byte: truncate -s {at} {path}{removal}"
