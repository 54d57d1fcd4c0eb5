"""Compact: what arrived as JSON becomes Parquet by day, each record once, a few files instead of many.

The days of ``--from``/``--to`` are days of arrival. Records that arrived then may be of earlier days: those are
affected, too. Every affected day is made anew from all raw files, so that a repetition changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind

from glue_jobs.io import arguments, raw
from glue_jobs.io.schemas import SCHEMAS
from glue_jobs.io.session import open_session, suit
from glue_jobs.io.settled import settled
from glue_jobs.io.storage import Archive, finish, tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_BYTES = 128 * 1024 * 1024
LINES_SHOWN = 5


@dataclass(slots=True)
class Compacted:
    """What came of one kind of records."""

    kind: RecordKind
    days: list[str] = field(default_factory=list)
    records: int = 0
    duplicates: int = 0
    conflicts: int = 0
    corrupt: int = 0
    unknown_columns: list[str] = field(default_factory=list)
    removed_days: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return it as part of the summary."""
        return {
            "days": self.days,
            "records": self.records,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "corrupt": self.corrupt,
            "unknown_columns": self.unknown_columns,
            "removed_days": self.removed_days,
        }


def compact(archive: Archive, kind: RecordKind, arrival: arguments.Window) -> Compacted:
    """Make the curated days anew that records arrived for in the window, and those of the window itself.

    Everything is counted before anything is written.
    """
    arrived = archive.days("raw", kind.value)
    window = arrival.days()
    # Of what arrived outside of the window, only the days are read that records from within it belong to.
    is_all = set(arrived) <= set(window)
    affected = window if is_all else sorted({*window, *_days_of(raw.parsed(archive.lines(kind, window), kind))})
    sources = [day for day in arrived if is_all or day >= affected[0]]
    size = sum(archive.size(archive.uri("raw", kind.value, f"dt={day}")) for day in sources)
    suit(archive.spark, size)
    lines = archive.lines(kind, sources)
    whole = raw.parsed(raw.distinct_lines(lines), kind)
    if is_all:
        whole = settled(whole)
        affected = sorted({*window, *_days_of(whole)})
    else:
        whole = settled(whole.where(sql.col("dt").isin(affected) | sql.col("is_corrupt")))
    made = Compacted(kind, affected)
    counts = _counts(whole, affected)
    made.duplicates = counts["copies"] or 0
    made.conflicts = (counts["valid"] or 0) - counts["ids"]
    made.records = sum(counts[day] or 0 for day in affected) - made.conflicts
    if made.conflicts:
        tell(f"{kind}: {made.conflicts} records differ from others of the same id")
    chosen = raw.one_per_id(whole.where("not is_corrupt")) if made.conflicts else whole
    archive.write_days(_placed(chosen, kind, affected, _files_per_day(size, affected)), "curated", kind.value)
    written = [day for day in affected if counts[day]]
    made.removed_days = archive.keep_only(written, affected, "curated", kind.value)
    if counts["unknown"]:
        made.unknown_columns = _unknown(whole)
    whole.unpersist()
    made.corrupt = _quarantine(archive, kind, lines, sources, bool(counts["corrupt"]))
    return made


def _days_of(records: DataFrame) -> list[str]:
    return [row.dt for row in records.where("dt is not null").select("dt").distinct().collect()]


def _counts(records: DataFrame, affected: Sequence[str]) -> dict[str, Any]:
    """Return the rows of each day, the copies that were dropped, and what is wrong; of no rows, sums are None."""
    days = [sql.sum((sql.col("dt") == day).cast("int")).alias(day) for day in affected]
    counted = records.agg(
        sql.sum((sql.col("copies") - 1) * (~sql.col("is_corrupt")).cast("int")).alias("copies"),
        sql.sum(sql.col("is_corrupt").cast("int")).alias("corrupt"),
        sql.sum((sql.size("unknown") > 0).cast("int")).alias("unknown"),
        # What is lost to another of its id that is not the same.
        sql.sum((~sql.col("is_corrupt")).cast("int")).alias("valid"),
        sql.count_distinct(sql.when(~sql.col("is_corrupt"), sql.col("record_id"))).alias("ids"),
        *days,
    )
    return counted.collect()[0].asDict()


def _placed(records: DataFrame, kind: RecordKind, days: Sequence[str], per_day: int) -> DataFrame:
    """Return the records of *days* spread over *per_day* files each, whatever one day or topic weighs."""
    chosen = records.where(sql.col("dt").isin(list(days)) & ~sql.col("is_corrupt"))
    salt = sql.pmod(sql.xxhash64("record_id"), sql.lit(per_day))
    columns = [*SCHEMAS[kind].fieldNames(), "dt"]
    return chosen.select(*columns).repartition(max(1, len(days) * per_day), "dt", salt).sortWithinPartitions("dt")


def _files_per_day(raw_bytes: int, days: Sequence[str]) -> int:
    return max(1, -(-raw_bytes // (FILE_BYTES * len(days))))


def _unknown(records: DataFrame) -> list[str]:
    rows = records.select(sql.explode("unknown").alias("name")).distinct().orderBy("name").limit(100).collect()
    return [row.name for row in rows]


def _quarantine(archive: Archive, kind: RecordKind, lines: DataFrame, sources: Sequence[str], any_corrupt: bool) -> int:
    """Set corrupt lines aside with their file and number; return how many there are."""
    if not any_corrupt:
        archive.keep_only([], sources, "quarantine", kind.value)
        return 0
    read = raw.parsed(raw.numbered(lines), kind).where("is_corrupt").select("file", "line_number", "line")
    corrupt = read.withColumn("dt", sql.regexp_extract("file", r"/dt=(\d{4}-\d{2}-\d{2})/", 1)).cache()
    days = _days_of(corrupt)
    writer = corrupt.coalesce(1).write.mode("overwrite").partitionBy("dt")
    writer.option("partitionOverwriteMode", "dynamic").json(archive.uri("quarantine", kind.value))
    archive.keep_only(days, sources, "quarantine", kind.value)
    for row in corrupt.orderBy("file", "line_number").limit(LINES_SHOWN).collect():
        tell(f"{kind}: corrupt line {row.line_number} of {row.file}")
    count = corrupt.count()
    corrupt.unpersist()
    return count


def main(argv: Sequence[str] | None = None) -> int:
    """Compact every kind of records; exit code 0. A file that cannot be read to its end fails the job (1)."""
    parser = arguments.parser("compact", (__doc__ or "").partition("\n\n")[0], lookback_days=1)
    given = arguments.parse(parser, argv)
    window = arguments.window(parser, given, today_included=True)
    archive = Archive.at(open_session(given), given.archive)
    archive.suit("raw", window.days())
    kinds: dict[str, object] = {}
    for kind in SCHEMAS:
        try:
            made = compact(archive, kind, window)
        except Exception as fault:
            if not _is_unreadable(fault):
                raise
            file = _unreadable_file(archive, kind, window)
            finish({"job": "compact", "ok": False, "kinds": kinds, "failed": kind.value, "file": file})
            return 1
        kinds[kind.value] = made.as_json()
        aside = f", {made.corrupt} lines set aside" if made.corrupt else ""
        left = f" ({len(kinds)} of {len(SCHEMAS)} kinds)"
        tell(f"{kind}: {made.records} records of {len(made.days)} days{aside}{left}")
    finish({"job": "compact", "ok": True, "window": window.label, "kinds": kinds, "html": None, "json": None})
    return 0


def _is_unreadable(fault: Exception) -> bool:
    """Say whether a raw file is truncated or no gzip: the data's fault, told in one line, not the job's."""
    told = str(fault)
    return "java.io.EOFException" in told or "java.util.zip" in told or "not a gzip" in told


def _unreadable_file(archive: Archive, kind: RecordKind, arrival: arguments.Window) -> str | None:
    """Return the first file that cannot be read to its end: those that arrived in the window are tried first."""
    for days in (arrival.days(), archive.days("raw", kind.value)):
        for file in sorted(archive.lines(kind, days).inputFiles()):
            try:
                archive.spark.read.text(file).count()
            except Exception as fault:
                if not _is_unreadable(fault):
                    raise
                return file
    return None


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
