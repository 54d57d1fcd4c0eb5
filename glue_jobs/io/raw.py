"""Parses raw lines into records by the schema, and separates corrupt lines."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType
from tagcast.archive.record import RecordKind

from glue_jobs.io.schemas import DAY_OF, INSTANT_MAX, REQUIRED, SCHEMAS

CORRUPT = "_corrupt_record"
_LARGEST = {"int": 1 << 31, "bigint": 1 << 63}


def parse_lines(lines: DataFrame, kind: RecordKind) -> DataFrame:
    """Return *lines* with the columns of *kind*, and with the columns ``is_corrupt`` and ``unknown``.

    ``unknown`` has the names in the line that the schema lacks. A corrupt line is not a JSON object, lacks a required
    column, or has a value of another type or an invalid instant. Missing optional columns are null, because older
    writers did not have these columns.
    """
    schema = SCHEMAS[kind]
    wide = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    known = sql.array(*(sql.lit(name) for name in schema.fieldNames()))
    keys = sql.coalesce(sql.json_object_keys("line"), sql.array().cast("array<string>"))
    read = lines.withColumn("read", sql.from_json("line", wide, options))
    read = read.withColumn("unknown", sql.array_except(keys, known))
    columns = [sql.col(f"read.{name}").alias(name) for name in schema.fieldNames()]
    return read.select(*lines.columns, "unknown", _is_corrupt(kind).alias("is_corrupt"), *columns)


def record_of(line: str, kind: RecordKind) -> dict[str, Any] | None:
    """Return the record of one line, or None if the line is damaged. Values are converted as Spark converts them.

    Every line that is corrupt for :func:`parse_lines` is damaged here, too.

    >>> from tagcast.archive.record import RecordKind
    >>> record_of('{"record_id": "1", "accepted_at": 0}', RecordKind.MESSAGES) is None
    True
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    for each in SCHEMAS[kind].fields:
        value = record.get(each.name)
        if value is not None:
            made = _value_of(value, each.dataType.simpleString())
            if made is None:
                return None
            record[each.name] = made
    is_whole = all(record.get(name) is not None for name in REQUIRED[kind])
    return record if is_whole and 0 <= record[DAY_OF[kind]] <= INSTANT_MAX else None


def _value_of(value: object, kind: str) -> object:
    """Return a value as Spark reads it into a column of *kind*, or None if it has another type."""
    match kind, value:
        case "string", str():
            return value
        case "string", bool() | int() | float():
            return json.dumps(value)
        case "boolean", bool():
            return value
        case (("int" | "bigint"), int()) if not isinstance(value, bool):
            return value if -_LARGEST[kind] <= value < _LARGEST[kind] else None
        case (("array<string>" | "array<int>"), list()):
            found = [_value_of(each, kind[6:-1]) for each in value]
            return None if None in found else found
        case "map<string,string>", dict():
            values = {name: _value_of(each, "string") for name, each in value.items()}
            return None if None in values.values() else values
    return None


def _is_corrupt(kind: RecordKind) -> Column:
    instant = sql.col(f"read.{DAY_OF[kind]}")
    faults = sql.col("read").isNull() | sql.col(f"read.{CORRUPT}").isNotNull()
    for name in REQUIRED[kind]:
        faults = faults | sql.col(f"read.{name}").isNull()
    return faults | ~sql.coalesce(instant.between(0, INSTANT_MAX), sql.lit(False))


def number_lines(lines: DataFrame) -> DataFrame:
    """Return *lines* with ``line_number``, the place in the file from 1. One task reads a compressed file in order."""
    placed = lines.withColumn("place", sql.monotonically_increasing_id())
    first = placed.groupBy("file").agg(sql.min("place").alias("first"))
    joined = placed.join(sql.broadcast(first), "file")
    return joined.select("file", (sql.col("place") - sql.col("first") + 1).alias("line_number"), "line")
