"""Where contents of messages are besides the curated records: raw files, quarantine, reports."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from glue_jobs.erasing.contents import Part, forgotten, salt_of
from glue_jobs.io.objects import Objects

_RECORD_ID = re.compile(r'"record_id":\s*"([^"\\]*)"')
_MESSAGE_ID = re.compile(r"(?<!\d)\d{20}(?!\d)")
Matching = Mapping[str, list[str]]
"""By record id, the names of the filters that matched a message while it had its contents."""


@dataclass(frozen=True)
class Forgetting:
    """What is taken out: *parts* of the messages whose record ids *matching* has, under the name of an erasure."""

    key: str
    parts: tuple[Part, ...]
    matching: Matching
    erasure: str | None

    @cached_property
    def message_ids(self) -> frozenset[str]:
        """Return the ids of the messages, as damaged lines and reports name them."""
        return frozenset(record_id.rpartition(".")[2] for record_id in self.matching)

    def line(self, line: str) -> str:
        """Return a raw line without what is taken out. One that is damaged keeps a salted hash alone."""
        found = _RECORD_ID.search(line)
        record_id = found[1] if found else ""
        try:
            record = json.loads(line)
        except ValueError:
            return self.damaged(line)
        if isinstance(record, dict) and record.get("record_id") == record_id and record_id in self.matching:
            return self._of_record(record)
        return self.damaged(line) if record_id not in self.matching and self._is_stray(record) else line

    def _is_stray(self, record: object) -> bool:
        """Say whether a line that is JSON, but no record of ours, names one of the messages."""
        is_record = isinstance(record, dict) and isinstance(record.get("record_id"), str)
        return not is_record and names_one_of(self.message_ids, json.dumps(record))

    def _of_record(self, record: dict[str, object]) -> str:
        salted = {**record, "salt": None if record.get("hashes") else salt_of(self.key, str(record["record_id"]))}
        marks = {"matching": self.matching[str(record["record_id"])], "erasure": self.erasure}
        made = {**forgotten(salted, self.parts, **marks), "salt": None}
        present = {name: value for name, value in made.items() if value is not None}
        return json.dumps(present, separators=(",", ":"), ensure_ascii=False)

    def damaged(self, line: str) -> str:
        """Return the salted hash of a line that cannot be read, if it names one of the messages; it stays damaged."""
        if not names_one_of(self.message_ids, line):
            return line
        salt = salt_of(self.key, line)
        return json.dumps({"erased_line": sha256(f"{salt}{line}".encode()).hexdigest()})

    def lines(self, text: str) -> str:
        """Return the lines of a raw file; most have none of the messages, and are not parsed."""
        ids = self.message_ids
        return "\n".join(self.line(line) if names_one_of(ids, line) else line for line in text.split("\n"))

    def quarantined(self, text: str) -> str:
        """Return the lines of a file of the quarantine."""
        made = []
        for line in text.split("\n"):
            record = json.loads(line) if line else {}
            after = self.damaged(record.get("line", ""))
            made.append(line if not line or after == record["line"] else json.dumps({**record, "line": after}))
        return "\n".join(made)


def names_one_of(message_ids: frozenset[str], text: str) -> bool:
    """Say whether a text has one of the ids.

    >>> ids = frozenset({"07457000000000000001"})
    >>> names_one_of(ids, '"07457000000000000001"'), names_one_of(ids, "107457000000000000001")
    (True, False)
    """
    return not message_ids.isdisjoint(_MESSAGE_ID.findall(text))


def rewritten(objects: Objects, key: str, change: Callable[[str], str], *, zipped: bool) -> bool:
    """Rewrite one object, and remove its former versions; say whether it held anything. Raises RacedError.

    Former versions go even of an object that is clean: a run that was interrupted left them.
    """
    stored = objects.read(key)
    if stored is None:
        return False
    text = (gzip.decompress(stored.content) if zipped else stored.content).decode()
    # Lines end with \n alone: other separators are text.
    made = change(text)
    is_changed = made != text
    if is_changed:
        content = made.encode()
        objects.write(key, gzip.compress(content, mtime=0) if zipped else content, stored)
    objects.purge(key)
    return is_changed


def reports_naming(objects: Objects, message_ids: frozenset[str]) -> list[str]:
    """Return all objects of the backtests whose samples have one of the messages: they can be made again."""
    named = set()
    for key in objects.sizes("reports/backtest/"):
        if key.endswith((".json", ".html")):
            stored = objects.read(key)
            if stored is not None and names_one_of(message_ids, stored.content.decode()):
                named.add("/".join(key.split("/")[:3]) + "/")
    return [key for folder in sorted(named) for key in objects.sizes(folder)]
