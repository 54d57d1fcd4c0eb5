"""Erases message contents outside the curated records: in raw files, Firehose's errors, quarantine and reports."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

from tagcast.archive.record import RecordKind

from glue_jobs.erasing.contents import Part, forget_parts, salt_of
from glue_jobs.io.objects import Objects, naming
from glue_jobs.io.raw import record_of

RAW, FAILED, QUARANTINE = "raw/messages/", "failed/messages/", "quarantine/messages/"
"""Prefixes of files with lines of messages. Firehose's own errors have undelivered records in base64 (``rawData``)."""
_ABOUT_ONE = re.compile(r"\.of_[0-9a-f]{12}/")
GZIP = b"\x1f\x8b"
BLOCK_BYTES = 1024 * 1024
"""The bytes of lines that are rewritten at once. The text of a file may be far larger than the compressed file."""
_DAY = re.compile(r"/dt=(\d{4}-\d{2}-\d{2})/")
_MESSAGE_ID = re.compile(r"(?<!\d)\d{20}(?!\d)")
Matching = Mapping[str, list[str]]
"""Maps record ids of messages to the names of the filter versions that matched before the erasure."""


def arrival_day(key: str) -> str:
    """Return the day on which the lines of an object arrived; an empty text if its *key* names no day.

    >>> arrival_day("raw/messages/dt=2026-11-20/hour=12/1.gz")
    '2026-11-20'
    """
    found = _DAY.search(key)
    return found[1] if found else ""


@dataclass(frozen=True)
class Eraser(ABC):
    """Erases contents of messages, in records and in lines with records. *key* is the archive's key, for salts."""

    key: str

    def can_change(self, line: str) -> bool:
        """Return whether *line* may have contents to erase. If False, the line stays as it is, without being parsed."""
        return True

    @abstractmethod
    def erase_record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return *record* with erased contents, or None if nothing must be erased."""

    @abstractmethod
    def must_erase_damaged(self, line: str, arrived: str) -> bool:
        """Return whether a line without a valid record must be erased. *arrived* is the line's day of arrival."""

    def erase_line(self, line: str, arrived: str) -> str:
        """Return a raw line with erased contents, or unchanged if nothing must be erased."""
        if not line or not self.can_change(line):
            return line
        record = record_of(line, RecordKind.MESSAGES)
        if record is None:
            return self.erase_damaged(line, arrived)
        salted = {**record, "salt": None if record.get("hashes") else salt_of(self.key, record["record_id"])}
        made = self.erase_record(salted)
        if made is None:
            return line
        present = {name: value for name, value in made.items() if value is not None and name != "salt"}
        return _line_of(present)

    def erase_damaged(self, line: str, arrived: str) -> str:
        """Return a line without a valid record unchanged, or its salted hash if it must be erased."""
        if line.startswith('{"erased_line":') or not self.must_erase_damaged(line, arrived):
            return line
        salt = salt_of(self.key, line)
        return json.dumps({"erased_line": sha256(f"{salt}{line}".encode()).hexdigest()})

    def erase_text(self, key: str, text: str) -> str:
        """Return *text*, the lines of the object *key*, after the erasure. Lines without content to erase stay.

        The prefix of *key* decides the format of the lines. Only a line feed ends a line.
        """
        arrived = arrival_day(key)
        if key.startswith(RAW):
            change = partial(self.erase_line, arrived=arrived)
        else:
            change = partial(self._erase_failed if key.startswith(FAILED) else self._erase_quarantined, arrived=arrived)
        return "\n".join(map(change, text.split("\n")))

    def _erase_quarantined(self, line: str, arrived: str) -> str:
        if not line:
            return line
        record = json.loads(line)
        after = self.erase_damaged(record["line"], arrived)
        return line if after == record["line"] else json.dumps({**record, "line": after})

    def _erase_failed(self, line: str, arrived: str) -> str:
        error, text = decode_failed(line)
        if text is None:
            return self.erase_damaged(line, arrived) if line else line
        after = "\n".join(self.erase_line(each, arrived) for each in text.split("\n"))
        if after == text:
            return line
        content = _pack([after], base64.b64decode(error["rawData"]))
        return json.dumps({**error, "rawData": base64.b64encode(content).decode()})


def _line_of(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # An unpaired surrogate, which JSON allows in an escape only.
        return json.dumps(record, separators=(",", ":"))
    return text


def decode_failed(line: str) -> tuple[dict[str, Any], str | None]:
    """Parse an error of Firehose, a *line* of JSON. Return the error, and the text of the undelivered record.

    The record is decoded from base64, and unpacked if it is compressed. If *line* is unreadable, return {} and None.

    >>> decode_failed('{"errorCode": "x", "rawData": "e30K"}')[1]
    '{}\\n'
    """
    try:
        error = json.loads(line)
        return error, text_of(base64.b64decode(error["rawData"], validate=True))
    except (ValueError, KeyError, TypeError, binascii.Error, OSError, EOFError, zlib.error):
        return {}, None


@dataclass(frozen=True)
class RequestedErasure(Eraser):
    """An erasure of some *parts* of messages.

    *matching* maps the record id of each message to the names of the filter versions that match the message. *others*
    are the requested message ids without a record in the archive. *erasure* is the name of the erasure.
    """

    parts: tuple[Part, ...]
    matching: Matching
    erasure: str | None
    others: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def message_ids(self) -> frozenset[str]:
        """The ids of the messages, for damaged lines and reports."""
        return self.others.union(record_id.rpartition(".")[2] for record_id in self.matching)

    def can_change(self, line: str) -> bool:
        """Return whether the line contains the id of one of the messages."""
        return names_one_of(self.message_ids, line)

    def erase_record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record of a requested message without the erased *parts*; None for any other record."""
        matching = self.matching.get(str(record["record_id"]))
        return None if matching is None else forget_parts(record, self.parts, matching=matching, erasure=self.erasure)

    def must_erase_damaged(self, line: str, arrived: str) -> bool:
        """Return whether the line contains the id of one of the messages."""
        return self.can_change(line)


def names_one_of(message_ids: frozenset[str], text: str) -> bool:
    """Return whether a text contains one of the ids.

    >>> ids = frozenset({"07457000000000000001"})
    >>> names_one_of(ids, '"07457000000000000001"'), names_one_of(ids, "107457000000000000001")
    (True, False)
    """
    return not message_ids.isdisjoint(_MESSAGE_ID.findall(text))


def text_of(content: bytes) -> str:
    """Return the text of an object, compressed or not. Invalid bytes are replaced, as in Spark."""
    return (gzip.decompress(content) if content.startswith(GZIP) else content).decode(errors="replace")


def _blocks(content: bytes) -> Iterator[str]:
    """Yield the text of an object, like :func:`text_of`, in blocks of whole lines."""
    source = io.BytesIO(content)
    lines = io.BufferedReader(gzip.GzipFile(fileobj=source)) if content.startswith(GZIP) else source
    while block := lines.readlines(BLOCK_BYTES):
        yield b"".join(block).decode(errors="replace")


def _pack(texts: Iterable[str], before: bytes) -> bytes:
    """Return *texts* as bytes, compressed if the content *before* was."""
    if not before.startswith(GZIP):
        return "".join(texts).encode()
    packer = zlib.compressobj(zlib.Z_BEST_COMPRESSION, wbits=zlib.MAX_WBITS + 16)
    return b"".join([*(packer.compress(text.encode()) for text in texts), packer.flush()])


def rewrite_object(objects: Objects, key: str, change: Callable[[str, str], str]) -> bool:
    """Rewrite the object *key* by *change*. Return whether the object changed; False if it does not exist.

    *change* gets the object's key and a block of its lines, and returns the new lines. The object's former versions are
    deleted in any case, because an interrupted run may have left them. Raises LostRaceError if another run writes the
    object meanwhile, and DamagedObjectError if the object is unreadable.
    """
    stored = objects.read(key)
    if stored is None:
        return False
    with naming(key):
        is_changed = any(change(key, text) != text for text in _blocks(stored.content))
    if is_changed:
        objects.write(key, _pack((change(key, text) for text in _blocks(stored.content)), stored.content), stored)
    objects.purge(key)
    return is_changed


def name_of_subject(key: str, customer: str) -> str:
    """Return the suffix of the folder of a certificate about one *customer*, a property as NAME=VALUE.

    The suffix is a hash with the archive's *key*, so that a reader cannot test guessed names of customers. A topic's
    name may stand before the suffix. Topic names have no dot, so the suffix begins with one.
    """
    return f".of_{sha256(f'{key}{customer}'.encode()).hexdigest()[:12]}"


def certificates_of_one(objects: Objects) -> list[str]:
    """Return the keys of all audit certificates about one customer. No other certificate quotes properties or tags."""
    return [key for key in objects.sizes("reports/audit/") if _ABOUT_ONE.search(key)]


def reports_naming(objects: Objects, message_ids: frozenset[str]) -> list[str]:
    """Return the keys of the backtests, and of the certificates about one customer, that contain one of the ids."""
    named = set()
    for key in [*objects.sizes("reports/backtest/"), *certificates_of_one(objects)]:
        if key.endswith((".json", ".html")):
            stored = objects.read(key)
            if stored is not None and names_one_of(message_ids, stored.content.decode(errors="replace")):
                named.add("/".join(key.split("/")[:3]) + "/")
    return [key for folder in sorted(named) for key in objects.sizes(folder)]
