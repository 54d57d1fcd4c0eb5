"""Parses raw lines into records by the schema, and separates corrupt ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from glue_jobs.io.schemas import DAY_OF, INSTANT_MAX, REQUIRED, SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from tagcast.archive.record import RecordKind

CORRUPT = "_corrupt_record"


def parse_lines(lines: DataFrame, kind: RecordKind) -> DataFrame:
    """Return the lines with their columns, ``is_corrupt`` and ``unknown`` (columns without a schema).

    A line is corrupt if it is no JSON object, has a value of another type, or lacks a required column. Missing optional
    columns are null: older writers did not have them.
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


def _is_corrupt(kind: RecordKind) -> Column:
    instant = sql.col(f"read.{DAY_OF[kind]}")
    faults = sql.col("read").isNull() | sql.col(f"read.{CORRUPT}").isNotNull()
    for name in REQUIRED[kind]:
        faults = faults | sql.col(f"read.{name}").isNull()
    return faults | ~sql.coalesce(instant.between(0, INSTANT_MAX), sql.lit(False))


def number_lines(lines: DataFrame) -> DataFrame:
    """Return the lines with their line numbers, from 1.

    One task reads a compressed file completely, so its line numbers are consecutive.
    """
    placed = lines.withColumn("place", sql.monotonically_increasing_id())
    first = placed.groupBy("file").agg(sql.min("place").alias("first"))
    joined = placed.join(sql.broadcast(first), "file")
    return joined.select("file", (sql.col("place") - sql.col("first") + 1).alias("line_number"), "line")
