"""Where contents of messages are besides the curated records: raw files, Firehose's errors, quarantine, reports."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

from glue_jobs.erasing.contents import Part, forgotten, salt_of
from glue_jobs.io.objects import Objects

RAW, FAILED, QUARANTINE = "raw/messages/", "failed/messages/", "quarantine/messages/"
"""Where lines of messages are. Firehose's own errors hold what it could not deliver in base64 (``rawData``)."""
GZIP = b"\x1f\x8b"
_DAY = re.compile(r"/dt=(\d{4}-\d{2}-\d{2})/")
_MESSAGE_ID = re.compile(r"(?<!\d)\d{20}(?!\d)")
Matching = Mapping[str, list[str]]
"""By record id, the names of the filters that matched a message while it had its contents."""


def arrived_on(key: str) -> str:
    """Return the day on which the lines of an object arrived.

    >>> arrived_on("raw/messages/dt=2026-11-20/hour=12/1.gz")
    '2026-11-20'
    """
    found = _DAY.search(key)
    return found[1] if found else ""


@dataclass(frozen=True)
class Taking(ABC):
    """What takes contents out of records, and of lines that hold them; *key* is the archive's."""

    key: str

    @abstractmethod
    def concerns(self, line: str) -> bool:
        """Say whether a line may have to change: most of a large file need not be parsed."""

    @abstractmethod
    def record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return a record without what is taken out of it, or None if that is nothing."""

    @abstractmethod
    def takes_damaged(self, line: str, arrived: str) -> bool:
        """Say whether a line that is no record goes; *arrived* is the day on which it did."""

    def line(self, line: str, arrived: str) -> str:
        """Return a raw line without what is taken out."""
        if not line or not self.concerns(line):
            return line
        record = _read(line)
        if record is None:
            return self.damaged(line, arrived)
        salted = {**record, "salt": None if record.get("hashes") else salt_of(self.key, record["record_id"])}
        made = self.record(salted)
        if made is None:
            return line
        present = {name: value for name, value in made.items() if value is not None and name != "salt"}
        return json.dumps(present, separators=(",", ":"), ensure_ascii=False)

    def damaged(self, line: str, arrived: str) -> str:
        """Return the salted hash of a line that is no record, if it goes; it stays damaged."""
        if line.startswith('{"erased_line":') or not self.takes_damaged(line, arrived):
            return line
        salt = salt_of(self.key, line)
        return json.dumps({"erased_line": sha256(f"{salt}{line}".encode()).hexdigest()})

    def changed(self, key: str, text: str) -> str:
        """Return the lines of an object, each as its place holds them. They end with \\n alone: the rest is text."""
        arrived = arrived_on(key)
        if key.startswith(RAW):
            change = partial(self.line, arrived=arrived)
        else:
            change = partial(self._failed if key.startswith(FAILED) else self._quarantined, arrived=arrived)
        return "\n".join(map(change, text.split("\n")))

    def _quarantined(self, line: str, arrived: str) -> str:
        record = json.loads(line) if line else {}
        after = self.damaged(record.get("line", ""), arrived)
        return line if not line or after == record["line"] else json.dumps({**record, "line": after})

    def _failed(self, line: str, arrived: str) -> str:
        told, text = failed_text(line)
        if text is None:
            return self.damaged(line, arrived) if line else line
        after = "\n".join(self.line(each, arrived) for each in text.split("\n"))
        return line if after == text else json.dumps({**told, "rawData": base64.b64encode(after.encode()).decode()})


def _read(line: str) -> dict[str, Any] | None:
    """Return the record of a line, or None of one that is damaged."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("record_id"), str)
    return record if is_record and isinstance(record.get("accepted_at"), int) else None


def failed_text(line: str) -> tuple[dict[str, Any], str | None]:
    """Return what Firehose says of a record that it could not deliver, and the record; None if it cannot be read.

    >>> failed_text('{"errorCode": "x", "rawData": "e30K"}')[1]
    '{}\\n'
    """
    try:
        told = json.loads(line)
        return told, base64.b64decode(told["rawData"], validate=True).decode()
    except (ValueError, KeyError, TypeError, binascii.Error):
        return {}, None


@dataclass(frozen=True)
class Forgetting(Taking):
    """An erasure: *parts* of the messages whose record ids *matching* has; *others* are ids that no record has."""

    parts: tuple[Part, ...]
    matching: Matching
    erasure: str | None
    others: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def message_ids(self) -> frozenset[str]:
        """Return the ids of the messages, as damaged lines and reports name them."""
        return self.others.union(record_id.rpartition(".")[2] for record_id in self.matching)

    def concerns(self, line: str) -> bool:
        """Say whether it names one of the messages."""
        return names_one_of(self.message_ids, line)

    def record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return one of the messages without its parts; another that names one of them is not touched."""
        matching = self.matching.get(str(record["record_id"]))
        return None if matching is None else forgotten(record, self.parts, matching=matching, erasure=self.erasure)

    def takes_damaged(self, line: str, arrived: str) -> bool:
        """Say whether it names one of the messages."""
        return self.concerns(line)


def names_one_of(message_ids: frozenset[str], text: str) -> bool:
    """Say whether a text has one of the ids.

    >>> ids = frozenset({"07457000000000000001"})
    >>> names_one_of(ids, '"07457000000000000001"'), names_one_of(ids, "107457000000000000001")
    (True, False)
    """
    return not message_ids.isdisjoint(_MESSAGE_ID.findall(text))


def text_of(content: bytes) -> str:
    """Return an object's text, which may be compressed."""
    return (gzip.decompress(content) if content.startswith(GZIP) else content).decode()


def rewritten(objects: Objects, key: str, change: Callable[[str, str], str]) -> bool:
    """Rewrite one object, and remove its former versions; say whether it held anything. Raises RacedError.

    Former versions go even of an object that is clean: a run that was interrupted left them.
    """
    stored = objects.read(key)
    if stored is None:
        return False
    text = text_of(stored.content)
    made = change(key, text)
    if made != text:
        content, is_zipped = made.encode(), stored.content.startswith(GZIP)
        objects.write(key, gzip.compress(content, mtime=0) if is_zipped else content, stored)
    objects.purge(key)
    return made != text


def reports_naming(objects: Objects, message_ids: frozenset[str]) -> list[str]:
    """Return all objects of the backtests whose samples have one of the messages: they can be made again."""
    named = set()
    for key in objects.sizes("reports/backtest/"):
        if key.endswith((".json", ".html")):
            stored = objects.read(key)
            if stored is not None and names_one_of(message_ids, stored.content.decode()):
                named.add("/".join(key.split("/")[:3]) + "/")
    return [key for folder in sorted(named) for key in objects.sizes(folder)]
