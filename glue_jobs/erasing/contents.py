"""The erasable parts of a message, and the salted hashes that replace them.

An audit's certificate has the root of a Merkle tree (:mod:`glue_jobs.auditing.merkle`). A message's leaf has its
envelope and the hashes of its parts, not their content. So after an erasure of a part its hash stays, and the
certificate still verifies. Each part of a record has its own salt, which is deleted with the part, so the content
cannot be guessed from the hash. Salts are derived from the record's id and a key of the archive, so another compaction
gives the same salts.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sql
from tagcast.errors import InvalidFilterError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.event_pattern.scopes import PatternScope
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.function_filter import FunctionFilter
from tagcast.filters.kinds import EverythingFilter, compile_filter
from tagcast.filters.routing_key_filter import RoutingKeyFilter
from tagcast.filters.sql92_filter import Sql92Filter
from tagcast.filters.tag_filters import TagsFilter

from glue_jobs.io.objects import LostRaceError, Objects

KEY = "keys/salt"
"""The object that holds the archive's key for salts. Anyone who has this key can test guesses against a hash."""
SALT_DIGITS = 32
_SMALL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*\\u00)([0-9a-f]{2})")


class Part(StrEnum):
    """An erasable part of a message; :data:`COLUMNS` has its columns."""

    BODY = "body"
    PROPERTIES = "properties"
    KEYS = "keys"


COLUMNS: Mapping[Part, tuple[str, ...]] = {
    Part.BODY: ("body", "body_base64", "body_is_text"),
    Part.PROPERTIES: ("properties",),
    Part.KEYS: ("tags", "routing_key", "ordering_key", "content_type", "attributes"),
}
"""All producer content by part, except the topic's name."""
CONTENT = tuple(name for names in COLUMNS.values() for name in names)
MARKS = ("salt", "salts", "hashes", "matching", "erasure")
"""Columns about an erasure and about the salts and hashes of parts. No leaf includes these columns."""
_SCOPES: Mapping[PatternScope, frozenset[Part]] = {
    PatternScope.BODY: frozenset({Part.BODY}),
    PatternScope.PROPERTIES: frozenset({Part.PROPERTIES}),
    PatternScope.ENVELOPE: frozenset(Part),
}


def compile_archived(filter: Mapping[str, object] | None) -> CompiledFilter | None:
    """Compile a filter of the archive. Return None if this release cannot read it.

    The service may be newer than the jobs, because another command installs the jobs. The archive may be older.

    >>> compile_archived({"kind": "of a later release"}) is None
    True
    """
    try:
        return compile_filter(filter)
    except InvalidFilterError:
        return None


def parts_read(filter: CompiledFilter | None) -> frozenset[Part]:
    """Return the parts that a filter needs for a verdict. Return all parts for None, a filter that is unreadable.

    >>> from tagcast.filters.kinds import compile_filter
    >>> sorted(parts_read(compile_filter({"kind": "tags", "tags": ["a"]}))), parts_read(compile_filter(None))
    ([<Part.KEYS: 'keys'>], frozenset())
    """
    match filter:
        case EverythingFilter() | FunctionFilter():
            return frozenset()
        case TagsFilter() | RoutingKeyFilter():
            return frozenset({Part.KEYS})
        case Sql92Filter():
            return frozenset({Part.PROPERTIES, Part.KEYS} if filter.reads_tags else {Part.PROPERTIES})
        case EventPatternFilter():
            return _SCOPES[filter.scope]
    return frozenset(Part)


def compact_json(present: Mapping[str, object]) -> str:
    """Return JSON as Spark writes it: without spaces and nulls, and with unescaped non-ASCII text.

    >>> compact_json({"record_id": "1", "topic": None, "tags": ["ä"]})
    '{"record_id":"1","tags":["ä"]}'
    """
    known = {name: value for name, value in present.items() if value is not None}
    text = json.dumps(known, separators=(",", ":"), ensure_ascii=False)
    return _SMALL_ESCAPE.sub(lambda found: found[1] + found[2].upper(), text)


def key_of(objects: Objects) -> str:
    """Return the archive's key; the first job that needs it creates it."""
    stored = objects.read(KEY)
    if stored is None:
        with suppress(LostRaceError):
            objects.write(KEY, secrets.token_hex(32).encode(), None)
        stored = objects.read(KEY)
        assert stored is not None
    return stored.content.decode()


def salt_of(key: str, record_id: str) -> str:
    """Return the salt of a record without erased parts. *key* is the archive's key."""
    return sha256(f"{key}{record_id}".encode()).hexdigest()[:SALT_DIGITS]


def salts_of(key: str, record_ids: Iterable[str], are_whole: Iterable[bool]) -> list[str | None]:
    """Return the salts of records. A record with erased parts, whose *are_whole* is false, gets None.

    >>> salts_of("k", ["a", "b"], [True, False]) == [salt_of("k", "a"), None]
    True
    """
    begun, found = sha256(key.encode()), list[str | None]()
    for record_id, is_whole in zip(record_ids, are_whole, strict=True):
        hashed = begun.copy()
        hashed.update(record_id.encode())
        found.append(hashed.hexdigest()[:SALT_DIGITS] if is_whole else None)
    return found


def hashes_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each part that the record has, or had before an erasure. The Merkle leaf has these hashes."""
    found = dict(record.get("hashes") or {})
    for part, names in COLUMNS.items():
        value = compact_json({name: record.get(name) for name in names})
        if part not in found and value != "{}":
            # Spark replaces unpaired surrogates, too.
            found[part] = sha256(f"{_part_salt(record, part)}{value}".encode(errors="replace")).hexdigest()
    return dict(sorted(found.items()))


def _part_salt(record: Mapping[str, Any], part: str) -> str:
    salts = record.get("salts") or {}
    return str(salts[part]) if part in salts else sha256(f"{record['salt']}{part}".encode()).hexdigest()[:SALT_DIGITS]


def forget_parts(record: Mapping[str, Any], parts: Collection[Part], **marks: Any) -> dict[str, Any]:
    """Return *record* with the hashes of *parts* instead of the parts. *marks* are values of columns to set.

    Salts of remaining parts stay; salts of erased parts are deleted. A record keeps the name of its first erasure. A
    repeated call changes nothing.
    """
    all_hashes = hashes_of(record)
    gone = {*(record.get("hashes") or {}), *(part for part in parts if part in all_hashes)}
    left = {part for part in all_hashes if part not in gone}
    salts = {part: _part_salt(record, part) for part in sorted(left)}
    columns = {name: None for part in gone for name in COLUMNS[Part(part)]}
    hashes = {part: all_hashes[part] for part in sorted(gone)}
    known = {name: value for name, value in marks.items() if name != "erasure" or record.get(name) is None}
    if not gone:
        return {**record, **known}
    return {**record, **columns, "salt": None, "salts": salts or None, "hashes": hashes, **known}


def hash_columns() -> list[Column]:
    """Return a Spark column for each part with the hash of :func:`hashes_of`; null if the record never had the part."""
    found = []
    for part in sorted(Part):
        value = sql.to_json(sql.struct(*COLUMNS[part]))
        derived = sql.substring(sql.sha2(sql.concat(sql.col("salt"), sql.lit(part.value)), 256), 1, SALT_DIGITS)
        salt = sql.coalesce(sql.try_element_at("salts", sql.lit(part.value)), derived)
        present = sql.when(value != "{}", sql.sha2(sql.concat(salt, value), 256))
        found.append(sql.coalesce(sql.try_element_at("hashes", sql.lit(part.value)), present).alias(part.value))
    return found
