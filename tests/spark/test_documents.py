"""The documents, the schemas and what the core writes tell of the same columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tagcast.archive.record import RecordKind

from glue_jobs import audit
from glue_jobs.io.schemas import SCHEMAS
from tests.simulation.exported import archive_of

DOCUMENT = (Path(__file__).parents[2] / "docs" / "archive.md").read_text()


@pytest.mark.parametrize("kind", RecordKind)
def test_the_document_describes_every_column(kind: RecordKind) -> None:
    part = DOCUMENT.partition(f"### {kind}\n")[2].partition("\n#")[0]
    described = re.findall(r"^\| `(\w+)` \| ([\w<>,]+) \|", part, re.MULTILINE)
    assert described == [(column.name, column.dataType.simpleString()) for column in SCHEMAS[kind].fields]


def test_the_core_writes_the_columns_of_the_schemas_and_no_others() -> None:
    types = {
        "int": int,
        "bigint": int,
        "string": str,
        "array<string>": list,
        "array<int>": list,
        "map<string,string>": dict,
    }
    written: dict[RecordKind, set[str]] = {kind: set() for kind in RecordKind}
    for seed in range(12):
        for record in archive_of(seed):
            types_of = {column.name: column.dataType.simpleString() for column in SCHEMAS[record.kind].fields}
            assert record.fields.keys() <= types_of.keys()
            for name, value in json.loads(record.line()).items():
                assert isinstance(value, types[types_of[name]]), (record.kind, name)
            written[record.kind] |= record.fields.keys()
    never = {"body", "body_base64", "body_is_text"}
    for kind, schema in SCHEMAS.items():
        assert set(schema.fieldNames()) - written[kind] <= never, kind


def test_the_document_names_every_kind_of_violation() -> None:
    assert re.findall(r"^\| `(\w+)` \| [a-z]", DOCUMENT.partition("kind of violation")[2], re.MULTILINE) == list(
        audit.KINDS
    )
