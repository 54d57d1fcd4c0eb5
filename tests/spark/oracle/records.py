"""An archive's raw lines as records, each once, read without Spark; and its curated records, to compare them with."""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Fields = Mapping[str, Any]
Key = tuple[str, str]
"""Kind and record id."""
KINDS = ("messages", "deliveries", "subscriptions", "lanes")
ALWAYS = {
    "messages": ("record_id", "topic", "message_id", "accepted_at", "expires_at", "subscriptions_version"),
    "deliveries": ("record_id", "message_id", "ordinal", "state", "attempts", "accepted_at", "changed_at"),
    "subscriptions": ("record_id", "part", "topic", "changed_at"),
    "lanes": ("record_id", "topic", "topic_id", "ordinal", "state", "changed_at"),
}
"""What every record of a kind has."""
TYPES: dict[str, Any] = {
    **{"int": int, "bigint": int, "string": str, "boolean": bool},
    **{"array<string>": list, "array<int>": list, "map<string,string>": dict},
}
DOCUMENT = (Path(__file__).parents[3] / "docs" / "archive.md").read_text()
CONTENTS = (
    "body",
    "body_base64",
    "body_is_text",
    "properties",
    "tags",
    "routing_key",
    "ordering_key",
    "content_type",
    "attributes",
)


def columns_of(kind: str) -> dict[str, type]:
    """Return the columns of a kind as docs/archive.md has them."""
    part = DOCUMENT.partition(f"### {kind}\n")[2].partition("\n#")[0]
    return {name: TYPES[told] for name, told in re.findall(r"^\| `(\w+)` \| ([\w<>,]+) \|", part, re.MULTILINE)}


COLUMNS = {kind: columns_of(kind) for kind in KINDS}


def parsed(kind: str, line: str) -> Fields | None:
    """Return the record of a line, None of one that is damaged."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or any(fields.get(name) is None for name in ALWAYS[kind]):
        return None
    types = COLUMNS[kind]
    known = {name: value for name, value in fields.items() if value is not None and name in types}
    return known if all(isinstance(value, types[name]) for name, value in known.items()) else None


def raw_records(folder: Path) -> dict[Key, list[Fields]]:
    """Return what the raw files say of each record: one thing, unless lines of one id differ."""
    found: dict[Key, list[Fields]] = defaultdict(list)
    for kind in KINDS:
        for path in sorted((folder / "raw" / kind).rglob("*.gz")):
            for line in gzip.decompress(path.read_bytes()).decode().splitlines():
                record = parsed(kind, line)
                if record is not None and record not in found[kind, record["record_id"]]:
                    found[kind, record["record_id"]].append(record)
    return {key: records for key, records in found.items() if records}


def curated_records(folder: Path) -> list[tuple[str, str, Fields]]:
    """Return kind, day and columns of each record that the manifests of an archive lead to."""
    found: list[tuple[str, str, Fields]] = []
    for kind in KINDS:
        for manifest in sorted((folder / "curated" / kind / "manifest").glob("dt=*/files")):
            for uri in manifest.read_text().splitlines():
                rows = pq.ParquetFile(uri.removeprefix("file://")).read().to_pylist(maps_as_pydicts="strict")
                day = manifest.parent.name.removeprefix("dt=")
                found += [(kind, day, {k: v for k, v in row.items() if v is not None}) for row in rows]
    return found


def table(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table of the reports, with their day."""
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        day = {"dt": path.parent.name.removeprefix("dt=")} if path.parent.name.startswith("dt=") else {}
        found += [{**row, **day} for row in pq.ParquetFile(path).read().to_pylist()]
    return found


@dataclass(frozen=True)
class Archive:
    """The records that count, by kind: each once."""

    messages: Sequence[Fields]
    deliveries: Sequence[Fields]
    subscriptions: Sequence[Fields]
    lanes: Sequence[Fields]


def told_once(raw: Mapping[Key, list[Fields]], curated: Iterable[tuple[str, str, Fields]]) -> dict[Key, Fields]:
    """Return each record of the raw lines once; where lines differ, the one that is curated is taken."""
    kept = {(kind, row["record_id"]): row for kind, _, row in curated}
    return {
        key: next((each for each in lines if agrees(each, kept.get(key, {}))), lines[0]) for key, lines in raw.items()
    }


def agrees(line: Fields, row: Fields) -> bool:
    """Say whether a curated row says what a line says; what compaction adds aside."""
    return {name: value for name, value in row.items() if name != "salt"} == dict(line)


def archive_of(records: Mapping[Key, Fields]) -> Archive:
    return Archive(*([fields for (kind, _), fields in records.items() if kind == each] for each in KINDS))
