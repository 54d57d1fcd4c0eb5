"""Bodies in the archive: no record is larger than Firehose takes, and text stays text."""

import base64
import json

import pytest
from tagcast.archive.change_records import archived_body, records_of
from tagcast.archive.record import RowChange
from tagcast.model import Draft, Message
from tagcast.rows.message import MESSAGES, MessageRow
from tagcast.rows.state_map import StateMap

FIREHOSE_RECORD_BYTES_MAX = 1_000 * 1_024
BODY_BYTES_MAX = 256 * 1_024


@pytest.mark.parametrize("character", ["\x01", '"', "\\", "é", "😀", "a"])
def test_the_largest_message_of_anything_is_one_record_that_firehose_takes(character: str) -> None:
    body = (character * BODY_BYTES_MAX).encode()[:BODY_BYTES_MAX]
    draft = Draft(
        body=body.decode(errors="ignore").encode(),
        tags=tuple(f"{place}{character * 63}" for place in range(10)),
        properties={f"p{place}": (character * 1_024).encode()[:320].decode(errors="ignore") for place in range(50)},
        routing_key="a.b",
    )
    message = Message("t" * 64, f"{1 << 60:020d}", draft, 0, 1)
    row = MessageRow(message, StateMap.of(range(10_000)), 1, filter_errors=("n" * 64,) * 100, filter_error_count=100)
    stored = {"pk": f"MSG#{message.topic}#{message.message_id}", "sk": "MSG", **MESSAGES.row_of(row)}
    [record] = records_of(RowChange(None, stored, 0), lambda topic: True)
    assert len(record.line().encode()) < FIREHOSE_RECORD_BYTES_MAX
    kept = json.loads(record.line())
    found = kept["body"].encode() if "body" in kept else base64.b64decode(kept["body_base64"])
    assert found == draft.body
    assert "body" in kept or kept["body_is_text"]


def test_readable_text_is_kept_readable_and_bytes_are_marked_as_nothing_else() -> None:
    assert archived_body(Draft(("line\n" * 5_000).encode())) == {"body": "line\n" * 5_000}
    assert archived_body(Draft(b"\xff", is_text=False)) == {"body_base64": "/w=="}
    assert archived_body(Draft(b"\x1b[2J")) == {"body": "\x1b[2J"}
