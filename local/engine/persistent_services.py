"""Stores the state of each of the engine's services in a file.

The files of tables and queues contain no rows and no messages, because these are in the journal.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from local.engine.checksums import CHANGED, DamageError, frame_line, replace_file, unframe_line
from local.engine.last_error import end_process, why_not_written
from local.functions.quick_json import decode, encode

INDEX = "services"
"""The file with the names of all stored services."""
PREFIX = '{"crc32": "%08x", '
"""The beginning of each file: the checksum of the rest of the file."""

States = Mapping[str, Callable[[], Any]]
"""Maps a service's name to a function that returns its state; None if there is nothing to store."""


@dataclass
class PersistentServices:
    """Stores the states of services as files in a folder. *written* converts a service's name and state to JSON."""

    states: Callable[[], States]
    folder: Path
    written: Callable[[str, Any], str]
    _known: dict[str, str] = field(default_factory=dict)
    _listed: list[str] = field(default_factory=list)

    def read(self) -> Iterator[tuple[str, Path, str]]:
        """Yield the name, the file and the JSON of each stored service. Raises DamageError."""
        index = self.folder / INDEX
        found = sorted(path.stem for path in self.folder.glob("*.json"))
        if index.exists():
            listed = unframe_line(index.read_bytes())
            if listed is None:
                raise DamageError(index, CHANGED.format(index.stat().st_size))
            self._listed = decode(listed[0])
        elif found:
            raise DamageError(index, "it is missing")
        for name in sorted({*found, *self._listed}):
            path = self.folder / f"{name}.json"
            if not path.exists():
                raise DamageError(path, "it is missing")
            text = path.read_bytes()
            if not is_whole(text):
                raise DamageError(path, CHANGED.format(len(text)))
            yield name, path, text.decode()

    def keep(self, names: Collection[str] | None = None) -> None:
        """Write the states that have changed, of the services in *names*. None means all services."""
        for name, state_of in self.states().items():
            if names is None or name in names:
                self._keep(name, state_of)

    def _keep(self, name: str, state_of: Callable[[], Any]) -> None:
        try:
            state = state_of()
            text = "" if state is None else self.written(name, state)
        except Exception as fault:  # noqa: BLE001  The other services' states are written anyway.
            print(f"cannot keep the state of {name}: {fault!r}", flush=True)
            return
        if not text or text == self._known.get(name):
            return
        try:
            replace_file(self.folder / f"{name}.json", text.encode())
            if name not in self._listed:
                self._listed.append(name)
                replace_file(self.folder / INDEX, frame_line(encode(self._listed))[0])
        except OSError as fault:
            end_process(why_not_written(fault, self.folder) or f"the state of {name} cannot be written: {fault}")
        self._known[name] = text


def as_persisted(version: int, state: Any, default: Callable[[Any], Any]) -> str:
    """Return a state as JSON in the engine's format. It begins with a checksum, which the engine ignores.

    >>> as_persisted(2, {"a": 1}, str)
    '{"crc32": "10cf5c67", "__ministack_format__": 2, "payload": {"a": 1}}'
    """
    text = json.dumps({"__ministack_format__": version, "payload": state}, default=default)[1:]
    return PREFIX % crc32(text.encode()) + text


def is_whole(text: bytes) -> bool:
    """Return whether the content of a service's file is undamaged.

    >>> text = as_persisted(2, {"a": 1}, str).encode()
    >>> is_whole(text), is_whole(text[:-1]), is_whole(text.replace(b"1}", b"2}")), is_whole(b"")
    (True, False, False, False)
    """
    length = len(PREFIX % 0)
    return text[:length] == (PREFIX % crc32(text[length:])).encode()
