"""The columns of the archive's records, raw and curated alike; ``docs/archive.md`` explains them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from tagcast.archive.record import RecordKind

_TEXT, _INT, _LONG = StringType(), IntegerType(), LongType()
_INTS, _TEXTS, _PAIRS = ArrayType(_INT, False), ArrayType(_TEXT, False), MapType(_TEXT, _TEXT, False)


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


MESSAGES = _schema(
    record_id=_TEXT,
    schema_version=_INT,
    topic=_TEXT,
    message_id=_TEXT,
    accepted_at=_LONG,
    expires_at=_LONG,
    tags=_TEXTS,
    routing_key=_TEXT,
    properties=_PAIRS,
    ordering_key=_TEXT,
    content_type=_TEXT,
    attributes=_TEXT,
    replay_of=_TEXT,
    subscriptions_version=_LONG,
    matched=_INTS,
    filter_errors=_TEXTS,
    filter_error_count=_LONG,
    body_bytes=_LONG,
    body=_TEXT,
    body_base64=_TEXT,
    body_is_text=BooleanType(),
    salt=_TEXT,
    salts=_PAIRS,
    hashes=_PAIRS,
    matching=_TEXTS,
    erasure=_TEXT,
)
DELIVERIES = _schema(
    record_id=_TEXT,
    schema_version=_INT,
    topic=_TEXT,
    topic_id=_TEXT,
    message_id=_TEXT,
    ordinal=_INT,
    state=_TEXT,
    attempts=_INT,
    last_attempt_at=_LONG,
    outcome=_TEXT,
    position=_TEXT,
    round_at=_LONG,
    subscriptions_version=_LONG,
    accepted_at=_LONG,
    expires_at=_LONG,
    changed_at=_LONG,
    removed_by=_TEXT,
    added_at=_LONG,
    filter_version=_INT,
)
LANES = _schema(
    record_id=_TEXT,
    schema_version=_INT,
    topic=_TEXT,
    topic_id=_TEXT,
    ordinal=_INT,
    state=_TEXT,
    previous_state=_TEXT,
    generation=_TEXT,
    previous_generation=_TEXT,
    next_attempt_at=_LONG,
    changed_at=_LONG,
)
SUBSCRIPTIONS = _schema(
    record_id=_TEXT,
    schema_version=_INT,
    part=_TEXT,
    topic=_TEXT,
    topic_id=_TEXT,
    subscription=_TEXT,
    ordinal=_INT,
    version=_INT,
    filter=_TEXT,
    since=_LONG,
    protocol=_TEXT,
    endpoint=_TEXT,
    strategy=_TEXT,
    max_retries=_INT,
    interval_s=_INT,
    interval_s_max=_INT,
    timeout_s=_INT,
    start_from=_LONG,
    unverified=_TEXT,
    ordering=_TEXT,
    settings=_TEXT,
    created_at=_LONG,
    changed_at=_LONG,
)

SCHEMAS: Mapping[RecordKind, StructType] = {
    RecordKind.MESSAGES: MESSAGES,
    RecordKind.DELIVERIES: DELIVERIES,
    RecordKind.SUBSCRIPTIONS: SUBSCRIPTIONS,
    RecordKind.LANES: LANES,
}
"""The schema of each record kind, in the order of compaction."""

REQUIRED: Mapping[RecordKind, tuple[str, ...]] = {
    RecordKind.MESSAGES: ("record_id", "topic", "message_id", "accepted_at", "expires_at", "subscriptions_version"),
    RecordKind.DELIVERIES: ("record_id", "message_id", "ordinal", "state", "attempts", "accepted_at", "changed_at"),
    RecordKind.SUBSCRIPTIONS: ("record_id", "part", "topic", "changed_at"),
    RecordKind.LANES: ("record_id", "topic", "topic_id", "ordinal", "state", "changed_at"),
}
"""Columns without which a record cannot be assigned or counted; such a record is quarantined."""

DAY_OF: Mapping[RecordKind, str] = {
    RecordKind.MESSAGES: "accepted_at",
    RecordKind.DELIVERIES: "accepted_at",
    RecordKind.SUBSCRIPTIONS: "changed_at",
    RecordKind.LANES: "changed_at",
}
"""The column whose day is a record's partition. A message and its deliveries have the same day."""

INSTANT_MAX = 4_102_444_800_000
"""The largest valid instant: the beginning of the year 2100."""
