"""Compact: turns raw JSON into Parquet by day, each record once, in few files sorted by topic and time.

Raw files lie in the folder of their day of arrival. The Parquet files (*curated*) lie in the folder of their records'
day. The days of ``--from``/``--to`` are days of arrival. The job reads the raw files of these days, and of the day
before, that no run has compacted yet. It merges their records with the existing files of each day concerned, so late
records join their own day. It replaces a day's files in one step (:mod:`glue_jobs.io.manifests`), and then lists the
raw files as compacted. So the next run completes an interrupted one. If two runs overlap, the later one starts again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind

from glue_jobs.compacting import runs
from glue_jobs.compacting.runs import Source
from glue_jobs.erasing import contents
from glue_jobs.io import arguments, manifests, raw
from glue_jobs.io.manifests import GenerationSummary, Manifest
from glue_jobs.io.objects import LostRaceError, Objects, Stored, json_of, until_won
from glue_jobs.io.ranges import in_partitions
from glue_jobs.io.schemas import SCHEMAS
from glue_jobs.io.session import BATCH, RECORDS_AT_ONCE, open_session, suit
from glue_jobs.io.storage import RAW_WEIGHT, Archive, finish, print_progress

FILE_BYTES = 240 * 1024 * 1024
"""The maximum bytes of a curated file, so that large days have files of 128 to 256 MiB."""
TASK_BYTES = 32 * 1024 * 1024
"""A task reads at least 32 MiB of raw or curated files, so that few tasks have little work."""
OPEN_BYTES = 64 * 1024
"""Opening a file costs as much time as reading 64 KiB, so a task reads at most 512 files."""
SAMPLED = 10_000
CHUNKS_AT_ONCE = 16
KEPT_MS = 20 * 3_600_000
"""Replaced files stay for 20 hours, because readers may have them open. The next night's run deletes them."""
ATTEMPTS = 3
LINES_SHOWN = 5


@dataclass(slots=True)
class Compacted:
    """The result of a compaction for one kind of records.

    *days* have records in the files that were read, and *records* counts all records of these days. *duplicates* and
    *conflicts* count dropped records, *conflicts* those that differ from the kept record of their id. *corrupt* counts
    damaged lines. *removed_days* have no records after a rebuild. *days_of_files* has the days of each raw file's
    records.
    """

    kind: RecordKind
    days: list[str] = field(default_factory=list)
    read_files: int = 0
    records: int = 0
    duplicates: int = 0
    conflicts: int = 0
    corrupt: int = 0
    unknown_columns: list[str] = field(default_factory=list)
    removed_days: list[str] = field(default_factory=list)
    days_of_files: dict[str, list[str]] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return the fields that the job prints of this result."""
        return {name: value for name, value in asdict(self).items() if name not in ("kind", "days_of_files")}


@dataclass(frozen=True, slots=True)
class ArrivalDay:
    """A day of arrival. *files* maps the keys of its raw files to their bytes.

    *ledger* is the stored list of the compacted files among them; None if no compaction stored one.
    """

    day: str
    files: Mapping[str, int]
    ledger: Stored | None

    @property
    def compacted(self) -> dict[str, list[str]]:
        """The keys of the compacted files, each with the days of its records."""
        return json_of(self.ledger)

    @property
    def unread(self) -> dict[str, int]:
        """The keys of the files that no compaction has read, with their bytes."""
        compacted = self.compacted
        return {key: size for key, size in self.files.items() if key not in compacted}


class LostFilesError(RuntimeError):
    """Raw files of an earlier compaction are gone, so a rebuild from raw files would lose their records."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(
            f"{len(keys)} compacted raw files are missing, the last one is {max(keys)}. A rebuild would delete their"
            " records: restore the files, or begin at a later day"
        )


def ledger_key(kind: RecordKind, day: str) -> str:
    """Return the key of the ledger of *day*.

    A ledger lists the compacted files that arrived on one day, with the days of their records.
    """
    return f"curated/{kind}/arrived/dt={day}.json"


def first_arrival(day: str) -> str:
    """Return the day before *day*. It is the first day of arrival whose files may have records of *day*.

    Firehose names a file by the arrival of its oldest record (firehose/latest/dev/s3-prefixes.html). So the last file
    of a day may have records of the next day's first minutes.

    >>> first_arrival("2026-12-01")
    '2026-11-30'
    """
    return arguments.day_beside(day, -1)


def list_arrived(objects: Objects, kind: RecordKind, days: Collection[str]) -> list[ArrivalDay]:
    """Return the raw files that arrived on *days*, sorted by day."""
    return [
        ArrivalDay(day, objects.sizes(f"raw/{kind}/dt={day}/"), objects.read(ledger_key(kind, day)))
        for day in sorted(days)
    ]


def compact(archive: Archive, kind: RecordKind, arrival: arguments.Window, *, rebuild: bool = False) -> Compacted:
    """Compact the new raw files that arrived in the window.

    With *rebuild*, write all curated days from the window's first day on, from raw files alone. Raw files of the day
    before are read, too (:func:`first_arrival`). If compacted raw files are gone, a rebuild writes nothing and raises
    LostFilesError. Raises LostRaceError if other runs changed the same days during each of the attempts.
    """
    run = _Run(archive, archive.objects, kind, arrival, rebuild)
    return until_won(run.run, ATTEMPTS, lambda fault: print_progress(f"{kind}: {fault}"))


@dataclass
class _Run:
    """One attempt to compact one kind of records."""

    archive: Archive
    objects: Objects
    kind: RecordKind
    arrival: arguments.Window
    rebuild: bool

    def run(self) -> Compacted:
        """Read new files, write their days, swap the manifests, record the files as compacted. Return the result."""
        window = self.arrival.days()
        begin, end = first_arrival(window[0]), None if self.rebuild else window[-1]
        present = set(self.archive.days("raw", self.kind.value))
        if self.rebuild:
            ledgers = self.objects.sizes(f"curated/{self.kind}/arrived/")
            present |= {key.rpartition("dt=")[2].removesuffix(".json") for key in ledgers}
        wanted = [day for day in present if begin <= day and (end is None or day <= end)]
        days = list_arrived(self.objects, self.kind, wanted)
        if self.rebuild and (lost := [key for each in days for key in each.compacted.keys() - each.files.keys()]):
            raise LostFilesError(lost)
        files = {key: size for each in days for key, size in (each.files if self.rebuild else each.unread).items()}
        result = Compacted(self.kind, read_files=len(files))
        if files or self.rebuild:
            self._write_days(files, result)
            if result.corrupt:
                _quarantine(self.archive, self.kind, days)
            elif self.rebuild:
                self.archive.keep_only([], [each.day for each in days], "quarantine", self.kind.value)
        for each in days:
            read = each.compacted | result.days_of_files
            ledger = {key: read.get(key, []) for key in sorted(each.files)}
            if ledger != each.compacted:
                self.objects.write(ledger_key(self.kind, each.day), json.dumps(ledger).encode(), each.ledger)
        return result

    def _write_days(self, files: Mapping[str, int], result: Compacted) -> None:
        """Write the curated days that have records in *files*, and complete *result*."""
        suit(self.archive.spark, sum(files.values()) * RAW_WEIGHT)
        reading = _Reading(self.archive, self.objects, self.kind)
        reading.read_raw(files)
        rebuilt = self.arrival.days()[0] if self.rebuild else "9999"
        days = {day for day in self.archive.curated_days(self.kind) if day >= rebuilt} | set(reading.packed)
        before = manifests.read(self.objects, self.kind, sorted(days))
        kept = [each for each in before if each.files and each.day < rebuilt]
        with manifests.watch(self.objects, before):
            sizes = self.objects.sizes(manifests.data_prefix(self.kind))
            reading.read_curated({key: sizes.get(key, 0) for each in kept for key in each.files})
            result.corrupt, result.unknown_columns = reading.corrupt, sorted(reading.unknown)
            result.days_of_files = reading.days_of_files
            written = reading.write(manifests.generation_at(arguments.now_ms()))
        reading.close()
        result.duplicates, result.conflicts = (
            sum(row[name] for row in written) for name in ("duplicates", "conflicts")
        )
        if result.conflicts:
            print_progress(f"{self.kind}: {result.conflicts} records differ from others of the same id")
        try:
            self._swap(before, written, result)
        except LostRaceError:
            # Another run may have erased contents that these files still have.
            named = {key for each in manifests.read(self.objects, self.kind, days) for key in each.files}
            self.objects.remove({row.key for row in written if row.key is not None} - named)
            raise

    def _swap(self, before: Sequence[Manifest], written: Sequence[Row], result: Compacted) -> None:
        """Swap the manifest of each day to its new files; a day without changes keeps its files."""
        result.days = [each.day for each in before]
        for each in before:
            mine = [row for row in written if row.dt == each.day]
            files = [row.key for row in mine if row.key is not None]
            held = None if self.rebuild else manifests.read_summary(self.objects, each)
            conflicts = sum(row.conflicts for row in mine) + (0 if held is None else held.conflicts)
            records, size = (sum(row[name] for row in mine) for name in ("records", "bytes"))
            made = GenerationSummary(records, size, conflicts=conflicts)
            result.records += made.records
            if held is not None and held.records == made.records and not any(row.replaced for row in mine):
                self.objects.remove(files)
                continue
            if files or each.files:
                manifests.swap(self.objects, self.archive.root, each, sorted(files), made)
            if each.files and not files:
                result.removed_days.append(each.day)
        self.objects.remove(manifests.former(self.objects, self.kind, result.days, arguments.now_ms() - KEPT_MS))


@dataclass
class _Reading:
    """Reads files into chunks of sorted records (:mod:`glue_jobs.compacting.runs`), which Spark stores on disk.

    *packed* maps each day to the bytes that its records need in Parquet. *number* counts the chunks.
    """

    archive: Archive
    objects: Objects
    kind: RecordKind
    chunks: list[DataFrame] = field(default_factory=list)
    packed: dict[str, int] = field(default_factory=dict)
    number: int = 0
    corrupt: int = 0
    unknown: set[str] = field(default_factory=set)
    days_of_files: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = contents.key_of(self.objects) if self.kind is RecordKind.MESSAGES else ""

    def read_raw(self, files: Mapping[str, int]) -> None:
        """Read raw files. If a file has an unusual line, Spark reads the whole file again."""
        refused = self._read(files, is_curated=False)
        if refused:
            kind, key = self.kind, self.key
            lines = raw.parse_lines(self.archive.lines(refused), kind)
            rows = lines.select("is_corrupt", "unknown", *SCHEMAS[kind].fieldNames())
            self._keep(rows.mapInArrow(lambda batches: runs.of_rows(batches, kind, key), runs.CHUNKS))
            # It is unknown which file has which days, so each file gets all days.
            self.days_of_files |= {file: sorted(self.packed) for file in refused}

    def read_curated(self, files: Mapping[str, int]) -> None:
        """Read files of curated records."""
        self._read(files, is_curated=True)

    def _read(self, files: Mapping[str, int], *, is_curated: bool) -> list[str]:
        groups = group_files(files, TASK_BYTES)
        kind, key, opened = self.kind, self.key, self.archive.opened

        def read(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    sources = [Source(each, is_curated) for each in groups[number]]
                    yield from runs.read_sources(opened, sources, kind, key)

        numbers = self.archive.spark.range(0, len(groups), 1, max(1, len(groups)))
        return self._keep(numbers.mapInArrow(read, runs.CHUNKS)) if groups else []

    def _keep(self, chunks: DataFrame) -> list[str]:
        """Persist *chunks*, add up their counts, and return the files that Spark must read again."""
        self.chunks.append(chunks.persist(StorageLevel.DISK_ONLY))
        refused = list[str]()
        sums = (sql.sum(name).alias(name) for name in ("records", "packed"))
        sets = (sql.collect_set(name).alias(name) for name in ("refused", "unknown", "days"))
        for row in self.chunks[-1].groupBy("dt").agg(sql.count("*").alias("number"), *sums, *sets).collect():
            if row.dt is None:
                self.corrupt += row.records or 0
                self.unknown |= {name for names in row.unknown for name in names}
                refused += row.refused
                self.days_of_files |= {file: days for file, *days in row.days}
            else:
                self.packed[row.dt] = self.packed.get(row.dt, 0) + row.packed
                self.number += row.number
        return refused

    def write(self, generation: str) -> list[Row]:
        """Write each record of all days once, as one generation. Return a row for each file of the generation."""
        if not self.packed:
            return []
        session = self.archive.spark
        chunks = reduce(lambda one, other: one.unionByName(other), self.chunks).where("dt is not null")
        ranges = runs.ranges_of(self._sample(chunks), self.packed, FILE_BYTES)
        kind, opened, prefix = self.kind, self.archive.opened, manifests.data_prefix(self.kind, generation)
        merged = place_chunks(chunks, [each.key for each in ranges]).mapInArrow(
            lambda batches: runs.merge(batches, opened, kind, prefix, ranges), runs.FILES
        )
        session.conf.set(BATCH, CHUNKS_AT_ONCE)
        try:
            return merged.collect()
        finally:
            session.conf.set(BATCH, RECORDS_AT_ONCE)

    def _sample(self, chunks: DataFrame) -> list[tuple[str, str, int]]:
        """Return day, first id and bytes of some chunks; an empty list if each day fits one file."""
        if max(self.packed.values()) <= FILE_BYTES:
            return []
        thin = -(-self.number // SAMPLED)
        some = chunks.where(sql.pmod(sql.xxhash64("first"), sql.lit(thin)) == 0).select("dt", "first", "packed")
        return [(row.dt, row["first"], row.packed) for row in some.collect()]

    def close(self) -> None:
        """Release the chunks."""
        for each in self.chunks:
            each.unpersist()


def group_files(files: Mapping[str, int], bytes_min: int) -> list[list[str]]:
    """Return *files* in groups of at least *bytes_min* bytes, except the last. A file counts `OPEN_BYTES` more.

    >>> group_files({"a": 1, "b": 9, "c": 1}, 2 * OPEN_BYTES + 10)
    [['a', 'b'], ['c']]
    >>> [len(group) for group in group_files({f"{n}": 1 for n in range(1_200)}, TASK_BYTES)]
    [512, 512, 176]
    """
    found: list[list[str]] = []
    size = bytes_min
    for key, each in files.items():
        if size >= bytes_min:
            found.append([])
            size = 0
        found[-1].append(key)
        size += each + OPEN_BYTES
    return found


def place_chunks(chunks: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return each chunk with the number of its range: (number, first, content).

    *keys* are the first keys of the ranges. All chunks of a range are in one partition, sorted by first id. A chunk
    with records of several ranges is returned once for each range, and ``runs.merge`` picks the records of the range.
    """
    begins = sql.array(*(sql.lit(key) for key in keys))

    def range_of(name: str) -> Column:
        key = sql.concat_ws(" ", "dt", name)
        return sql.size(sql.filter(begins, lambda begin: begin <= key)) - 1

    numbered = chunks.withColumn("number", sql.explode(sql.sequence(range_of("first"), range_of("last"))))
    there = in_partitions(numbered, sql.col("number"), len(keys)).sortWithinPartitions("number", "first")
    return there.select("number", "first", "content")


def _quarantine(archive: Archive, kind: RecordKind, days: Sequence[ArrivalDay]) -> None:
    """Quarantine the corrupt lines of days of arrival, with their file and line number."""
    lines = archive.lines([key for each in days for key in each.files])
    read = raw.parse_lines(raw.number_lines(lines), kind).where("is_corrupt").select("file", "line_number", "line")
    corrupt = read.withColumn("dt", sql.regexp_extract("file", r"/dt=(\d{4}-\d{2}-\d{2})/", 1)).cache()
    found = [row.dt for row in corrupt.select("dt").distinct().collect()]
    writer = corrupt.coalesce(1).write.mode("overwrite").partitionBy("dt")
    writer.option("partitionOverwriteMode", "dynamic").json(archive.uri("quarantine", kind.value))
    archive.keep_only(found, [each.day for each in days], "quarantine", kind.value)
    for row in corrupt.orderBy("file", "line_number").limit(LINES_SHOWN).collect():
        print_progress(f"{kind}: corrupt line {row.line_number} of {row.file}")
    corrupt.unpersist()


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = arguments.parser("compact", (__doc__ or "").partition("\n\n")[0], lookback_days=1)
    text = "true: rebuild the days from all raw files of the first day and later (default: false)"
    parser.add_argument("--rebuild", type=arguments.truth, default=False, help=text)
    given = arguments.parse(parser, argv)
    given.window = arguments.window(parser, given, today_included=True)
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Compact every kind of records. Return 1 if a file is unreadable or lost, or if other runs interfere; else 0."""
    given = read_arguments(argv)
    window = given.window
    archive = Archive.at(open_session(given), given.archive)
    kinds: dict[str, object] = {}
    for kind in SCHEMAS:
        try:
            made = compact(archive, kind, window, rebuild=given.rebuild)
        except (LostRaceError, LostFilesError) as fault:
            finish({"job": "compact", "ok": False, "kinds": kinds, "failed": kind.value, "detail": str(fault)})
            return 1
        except Exception as fault:
            if not _is_unreadable(fault):
                raise
            file = _unreadable_file(archive, kind, window)
            finish({"job": "compact", "ok": False, "kinds": kinds, "failed": kind.value, "file": file})
            return 1
        kinds[kind.value] = made.as_json()
        aside = f", {made.corrupt} lines set aside" if made.corrupt else ""
        left = f" ({len(kinds)} of {len(SCHEMAS)} kinds)"
        print_progress(f"{kind}: {made.records} records of {len(made.days)} days{aside}{left}")
    finish({"job": "compact", "ok": True, "window": window.label, "kinds": kinds, "html": None, "json": None})
    return 0


def _is_unreadable(fault: Exception) -> bool:
    """Return whether *fault* means that a raw file is truncated or not gzip: the job reports it without a traceback."""
    text = str(fault)
    return "java.io.EOFException" in text or "java.util.zip" in text or "not a gzip" in text


def _unreadable_file(archive: Archive, kind: RecordKind, arrival: arguments.Window) -> str | None:
    """Return the URI of the first unreadable file, or None. Files that arrived in the window are checked first."""
    window = arrival.days()
    for days in (window, [day for day in archive.days("raw", kind.value) if day not in window]):
        for key in (key for each in list_arrived(archive.objects, kind, days) for key in each.files):
            try:
                archive.lines([key]).count()
            except Exception as fault:
                if not _is_unreadable(fault):
                    raise
                return archive.uri(key)
    return None


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
