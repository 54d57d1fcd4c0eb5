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
    """Stores the states of services in the file *path*. *written* converts a service's name and state to JSON.

    *states* returns a function for each service, which returns the service's state. The first line of the file has the
    names of the services. Each further line has the state of one of them, in this order.
    """

    states: Callable[[], States]
    path: Path
    written: Callable[[str, Any], str]
    _lines: dict[str, bytes] = field(default_factory=dict)

    def read(self) -> Mapping[str, str]:
        """Return the JSON of each stored service. Raises DamageError."""
        if not self.path.exists():
            raise DamageError(self.path, "it is missing")
        lines = self.path.read_bytes().splitlines(keepends=True)
        texts = [found[0] for found in map(unframe_line, lines) if found is not None]
        names = decode(texts[0]) if texts and len(texts) == len(lines) else None
        if names is None or len(names) != len(texts) - 1:
            raise DamageError(self.path, CHANGED.format(sum(map(len, lines))))
        self._lines = dict(zip(names, lines[1:], strict=True))
        return {name: text.decode() for name, text in zip(names, texts[1:], strict=True)}

    def keep(self, names: Collection[str] | None = None) -> None:
        """Write the file if the state of a service in *names* has changed. None stands for all services."""
        states = {name: state_of for name, state_of in self.states().items() if names is None or name in names}
        texts = {name: self._text(name, state_of) for name, state_of in states.items()}
        changed = self._lines | {name: frame_line(text.encode())[0] for name, text in texts.items() if text}
        if changed == self._lines and self.path.exists():
            return
        self._lines = changed
        try:
            replace_file(self.path, frame_line(encode(list(changed)))[0], *changed.values())
        except OSError as fault:
            end_process(why_not_written(fault, self.path.parent) or f"{self.path} cannot be written: {fault}")

    def _text(self, name: str, state_of: Callable[[], Any]) -> str:
        try:
            state = state_of()
            return "" if state is None else self.written(name, state)
        except Exception as fault:  # noqa: BLE001  The other services' states are written anyway.
            print(f"cannot keep the state of {name}: {fault!r}", flush=True)
            return ""
