"""The documents, the schemas and what the core writes tell of the same columns."""

import json
import re
from pathlib import Path

from tagcast.archive.change_records import records_of
from tagcast.archive.record import Record, RecordKind, RowChange
from tagcast.rows.keys import late_key
from tagcast.rows.message_transitions import LATE, Late, Origin
from tagcast.rows.state_map import AddedLater

from glue_jobs import audit
from glue_jobs.erasing.contents import MARKS
from glue_jobs.io.schemas import SCHEMAS
from tests.simulation.history import archive_of

DOCUMENT = (Path(__file__).parents[2] / "docs" / "archive.md").read_text()


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
    for told in (*(archive_of(seed) for seed in range(12)), late_entry()):
        for record in told:
            types_of = {column.name: column.dataType.simpleString() for column in SCHEMAS[record.kind].fields}
            assert record.fields.keys() <= types_of.keys()
            for name, value in json.loads(record.line()).items():
                assert isinstance(value, types[types_of[name]]), (record.kind, name)
            written[record.kind] |= record.fields.keys()
    # Bodies are not archived here; the rest is what jobs add.
    never = {"body", "body_base64", "body_is_text", *MARKS}
    for kind, schema in SCHEMAS.items():
        assert set(schema.fieldNames()) - written[kind] <= never, kind


def late_entry() -> tuple[Record, ...]:
    """What is told of an entry that was added for a younger group, which no history of these has."""
    origin = Origin("fruit", "07457000000000000001", 3, 1, 2)
    key = late_key(origin.topic, origin.message_id, 2)
    after = {"pk": key.pk, "sk": key.sk, **LATE.row_of(Late(origin, 2, AddedLater(1, 1)))}
    return records_of(RowChange(None, after, 1), keeps_body=lambda topic: False)


def test_the_document_names_every_kind_of_violation() -> None:
    assert re.findall(r"^\| `(\w+)` \| [a-z]", DOCUMENT.partition("kind of violation")[2], re.MULTILINE) == list(
        audit.KINDS
    )
