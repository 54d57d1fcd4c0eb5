"""Stores the states of the engine's services in one file.

It contains no rows of tables and no messages of queues, because these are in the journal.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.engine.checksums import CHANGED, DamageError, frame_line, replace_file, unframe_line
from local.engine.last_error import end_process, why_not_written
from local.functions.quick_json import decode, encode

States = Mapping[str, Callable[[], Any]]
"""Maps a service's name to a function that returns its state; None if there is nothing to store."""


@dataclass
class PersistentServices:
    """Stores the states of services in the file *path*. *written* converts a service's name and state to JSON."""

    states: Callable[[], States]
    path: Path
    written: Callable[[str, Any], str]
    _stored: dict[str, str] = field(default_factory=dict)

    def read(self) -> Mapping[str, str]:
        """Return the JSON of each stored service. Raises DamageError."""
        if not self.path.exists():
            raise DamageError(self.path, "it is missing")
        line = self.path.read_bytes()
        found = unframe_line(line)
        if found is None:
            raise DamageError(self.path, CHANGED.format(len(line)))
        self._stored = decode(found[0])
        return self._stored

    def keep(self, names: Collection[str] | None = None) -> None:
        """Write the file if a state has changed, of the services in *names*. None means all services."""
        states = {name: state_of for name, state_of in self.states().items() if names is None or name in names}
        changed = self._stored | {
            name: text for name, state_of in states.items() if (text := self._text(name, state_of))
        }
        if changed == self._stored and self.path.exists():
            return
        self._stored = changed
        try:
            replace_file(self.path, frame_line(encode(changed))[0])
        except OSError as fault:
            end_process(why_not_written(fault, self.path.parent) or f"{self.path} cannot be written: {fault}")

    def _text(self, name: str, state_of: Callable[[], Any]) -> str:
        try:
            state = state_of()
            return "" if state is None else self.written(name, state)
        except Exception as fault:  # noqa: BLE001  The other services' states are written anyway.
            print(f"cannot keep the state of {name}: {fault!r}", flush=True)
            return ""
