"""Compact: what arrived as JSON becomes Parquet by day, each record once, in few files sorted by topic and time.

The days of ``--from``/``--to`` are days of arrival. Raw files that no run has compacted yet are read, and each day that
they have records of is made anew of them and of what it held: late records join the day they belong to. A day's files
are swapped in one step (:mod:`glue_jobs.io.manifests`), and only then are the raw files written down as compacted. So a
run that stops anywhere is made good by the next one, and of two at once one goes on with what the other made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import MapType
from tagcast.archive.record import RecordKind

from glue_jobs.erasing import contents
from glue_jobs.io import arguments, manifests, raw
from glue_jobs.io.manifests import Made, Manifest
from glue_jobs.io.objects import Objects, RacedError, Stored, until_won
from glue_jobs.io.ranges import RANGE, bounds_of, in_ranges
from glue_jobs.io.schemas import DAY_OF, SCHEMAS
from glue_jobs.io.session import open_session, suit
from glue_jobs.io.storage import Archive, day_of, finish, tell

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

FILE_BYTES = 192 * 1024 * 1024
"""What a file is made for; files are of 128 to 256 MiB where a day has as much."""
CURATED_PER_RAW = 0.75
"""Bytes of Parquet that a byte of raw records becomes (measured: docs/archive.md)."""
RAW_WEIGHT = 8
"""To parse a line is as much work as to read eight times its bytes of Parquet: generated code pays sooner."""
ROW_BYTES = 40
"""Compressed bytes of a record, roughly: they tell how thin a sample may be."""
SAMPLED = 10_000
KEPT_MS = 24 * 3_600_000
"""Readers may have files open that were replaced since: they stay for a day."""
ATTEMPTS = 3
LINES_SHOWN = 5


@dataclass(slots=True)
class Compacted:
    """What came of one kind of records."""

    kind: RecordKind
    days: list[str] = field(default_factory=list)
    read_files: int = 0
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
            "read_files": self.read_files,
            "records": self.records,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "corrupt": self.corrupt,
            "unknown_columns": self.unknown_columns,
            "removed_days": self.removed_days,
        }


@dataclass(frozen=True, slots=True)
class Arrived:
    """The raw files of one day of arrival, with their bytes, and the ledger: which of them are compacted."""

    day: str
    files: Mapping[str, int]
    ledger: Stored | None

    @property
    def compacted(self) -> frozenset[str]:
        """Return the keys that the ledger names."""
        return frozenset(() if self.ledger is None else json.loads(self.ledger.content))


def ledger_key(kind: RecordKind, day: str) -> str:
    """Return where it is written which raw files of a day of arrival are compacted."""
    return f"curated/{kind}/arrived/dt={day}.json"


def arrived(objects: Objects, kind: RecordKind, days: Collection[str]) -> list[Arrived]:
    """Return the raw files of *days*."""
    return [
        Arrived(day, objects.sizes(f"raw/{kind}/dt={day}/"), objects.read(ledger_key(kind, day)))
        for day in sorted(days)
    ]


def compact(archive: Archive, kind: RecordKind, arrival: arguments.Window, *, rebuild: bool = False) -> Compacted:
    """Add the raw files of the window that are not compacted yet. Raises RacedError if others are faster each time.

    With *rebuild* all raw files from the first day on are read, and its days and later ones made of them alone.
    """
    run = _Run(archive, archive.objects, kind, arrival, rebuild)
    return until_won(run.made, ATTEMPTS, lambda fault: tell(f"{kind}: {fault}"))


@dataclass
class _Run:
    """One try to compact one kind."""

    archive: Archive
    objects: Objects
    kind: RecordKind
    arrival: arguments.Window
    rebuild: bool

    def made(self) -> Compacted:
        """Read what is new, write the days that it belongs to, swap their manifests, then write down what was read."""
        window = self.arrival.days()
        present = self.archive.days("raw", self.kind.value)
        wanted = [day for day in present if day >= window[0]] if self.rebuild else sorted({*present} & {*window})
        days = arrived(self.objects, self.kind, wanted)
        files = {
            key: size for each in days for key, size in each.files.items() if self.rebuild or key not in each.compacted
        }
        result = Compacted(self.kind, read_files=len(files))
        if files or self.rebuild:
            known: set[str] = set()
            while overlooked := self._days_made(files, known, result):
                known |= overlooked
            if result.corrupt:
                _quarantine(self.archive, self.kind, days)
            elif self.rebuild:
                self.archive.keep_only([], [each.day for each in days], "quarantine", self.kind.value)
        for each in days:
            if each.files.keys() != each.compacted:
                content = json.dumps(sorted(each.files)).encode()
                self.objects.write(ledger_key(self.kind, each.day), content, each.ledger)
        return result

    def _days_made(self, files: Mapping[str, int], known: set[str], result: Compacted) -> set[str]:
        """Write the days of *files* and those *known*; return the days of records that the survey had overlooked."""
        size = sum(files.values())
        suit(self.archive.spark, size * RAW_WEIGHT)
        lines = self.archive.lines(list(files))
        thin = max(1, size // ROW_BYTES // SAMPLED)
        survey: dict[str, Any] = (
            _survey(lines, self.kind, thin) if files else {"lines": 0, "days": (), "unknown": (), "keys": ()}
        )
        rebuilt = self.arrival.days()[0] if self.rebuild else "9999"
        days = {*survey["days"], *known}
        days |= {day for day in self.archive.curated_days(self.kind) if day >= rebuilt}
        before = manifests.read(self.objects, self.kind, sorted(days))
        kept = [each for each in before if each.files and each.day < rebuilt]
        held = {each.day: manifests.made_of(self.objects, each) for each in before}
        total = size * CURATED_PER_RAW + sum(each.bytes for m in kept if (each := held[m.day]) is not None)
        counted: dict[str, Any] = {}
        written: dict[str, dict[str, int]] = {}
        if survey["lines"] or kept:
            sample = survey["keys"] if total > FILE_BYTES else []
            counted, written = self._written(lines, kept, days, sample, total)
        if counted.get("overlooked"):
            self.objects.remove(key for keys in written.values() for key in keys)
            return set(written) - days
        result.unknown_columns = sorted(survey["unknown"])
        result.corrupt, result.duplicates = counted.get("corrupt") or 0, counted.get("duplicates") or 0
        result.conflicts = counted.get("conflicts") or 0
        if result.conflicts:
            tell(f"{self.kind}: {result.conflicts} records differ from others of the same id")
        try:
            self._swapped(before, held, counted, written, result)
        except RacedError:
            # Another run may have erased what these files hold.
            named = {key for each in manifests.read(self.objects, self.kind, written) for key in each.files}
            self.objects.remove({key for keys in written.values() for key in keys} - named)
            raise
        return set()

    def _written(
        self, lines: DataFrame, kept: Sequence[Manifest], days: Collection[str], sample: Sequence[str], total: float
    ) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
        """Write the records of all *days* as one generation; return what was counted, and its files by day."""
        generation = manifests.generation_at(arguments.now_ms())
        columns = [*SCHEMAS[self.kind].fieldNames(), "dt"]
        rows = raw.parsed(lines, self.kind).select("is_corrupt", *columns)
        if self.kind is RecordKind.MESSAGES:
            rows = rows.withColumn("salt", contents.salt_column(contents.key_of(self.objects)))
        if kept:
            former = self.archive.records_of(kept, self.kind).withColumn("dt", day_of(DAY_OF[self.kind]))
            rows = rows.unionByName(former.withColumn("is_corrupt", sql.lit(False)))
        # Corrupt lines come along until they are counted: Spark never tells what it observed of a stage without rows.
        marked, seen = one_per_id(rows, bounds_of(sample, -int(-total // FILE_BYTES))), Observation()
        counts = {
            "corrupt": sql.col("is_corrupt"),
            "overlooked": ~sql.col("dt").isin(sorted(days)),
            "duplicates": sql.col("earlier") == sql.col("hash"),
            "conflicts": sql.col("earlier") != sql.col("hash"),
            **{f"n{day}": _is_first(day) for day in sorted(days)},
        }
        marked = marked.observe(
            seen,
            *(sql.sum(what.cast("int")).alias(name) for name, what in counts.items()),
            *(sql.bit_xor(sql.when(_is_first(day), sql.col("hash"))).alias(f"x{day}") for day in sorted(days)),
        )
        rows = marked.where("earlier is null and not is_corrupt").select(*columns)
        written = self.archive.write_generation(rows, self.kind, generation)
        return seen.get, written

    def _swapped(
        self,
        before: Sequence[Manifest],
        held: Mapping[str, Made | None],
        counted: Mapping[str, Any],
        written: Mapping[str, Mapping[str, int]],
        result: Compacted,
    ) -> None:
        """Point the manifest of each day to its new files; a day that they change nothing of keeps the former ones."""
        result.days = [each.day for each in before]
        for each in before:
            files = written.get(each.day, {})
            number = counted.get(f"n{each.day}") or 0
            made = Made(number, counted.get(f"x{each.day}") or 0, sum(files.values()))
            known = held[each.day]
            result.records += number
            if known is not None and (known.records, known.digest) == (made.records, made.digest):
                self.objects.remove(files)
                continue
            if files or each.files:
                manifests.swap(self.objects, self.archive.root, each, sorted(files), made)
            if each.files and not files:
                result.removed_days.append(each.day)
        current = manifests.read(self.objects, self.kind, result.days)
        self.objects.remove(manifests.former(self.objects, current, arguments.now_ms() - KEPT_MS))


def one_per_id(rows: DataFrame, bounds: Sequence[str]) -> DataFrame:
    """Return *rows* in ranges of day and id, sorted; ``earlier`` is the ``hash`` of the record before of the same id.

    A record's id begins with its topic and its time (:mod:`tagcast.archive.messages`), so that files come sorted by
    both. Where records of one id differ, the same one of them is the first every time.
    """
    key = sql.concat_ws(" ", "dt", "record_id")
    fields = [each for each in rows.schema.fields if each.name not in ("is_corrupt", *contents.MARKS)]
    # Of an erased message another copy may still arrive: what was taken out of one stays out, and is no conflict.
    gone = sql.size(sql.coalesce("hashes", sql.create_map())) if "hashes" in rows.columns else sql.lit(0)
    hashed = rows.withColumn("hash", sql.xxhash64(*map(_hashable, fields))).withColumn("gone", gone)
    order = Window.partitionBy(RANGE, "dt", "record_id").orderBy(sql.desc("gone"), "hash")
    before = sql.when(sql.lag("gone").over(order) > 0, sql.col("hash")).otherwise(sql.lag("hash").over(order))
    return in_ranges(hashed, key, bounds).withColumn("earlier", sql.when(sql.col("dt").isNotNull(), before))


def _hashable(field: StructField) -> Column:
    """Return a column as it can be hashed: a map has no order of its own, so its entries are sorted."""
    if not isinstance(field.dataType, MapType):
        return sql.col(field.name)
    return sql.array_sort(sql.map_entries(field.name))


def _is_first(day: str) -> Column:
    return (sql.col("dt") == day) & sql.col("earlier").isNull()


def _survey(lines: DataFrame, kind: RecordKind, thin: int) -> dict[str, Any]:
    """Return the days that lines are of, and of every *thin*-th its key and the columns that no schema has.

    Instants are cut out of the text, which costs a tenth of parsing it. Whatever that misses shows when it is parsed.
    """
    name = f'"{DAY_OF[kind]}":'
    place = sql.instr("line", name)
    cut = sql.substring_index(sql.col("line").substr(place + sql.lit(len(name)), sql.lit(18)), ",", 1)
    at = sql.expr("try_cast(trim(cut) as bigint)")
    known = sql.array(*(sql.lit(each) for each in SCHEMAS[kind].fieldNames()))
    is_sampled = sql.pmod(sql.xxhash64("line"), sql.lit(thin)) == 0
    read = lines.withColumn("cut", cut).withColumn("at", at)
    day = sql.when(sql.col("at").between(0, raw.INSTANT_MAX), sql.floor(sql.col("at") / 86_400_000).cast("int"))
    counted = read.agg(sql.count("*").alias("lines"), sql.collect_set(day).alias("days")).collect()[0]
    unknown = sql.array_except(sql.coalesce(sql.json_object_keys("line"), sql.array().cast("array<string>")), known)
    key = sql.concat_ws(" ", day_of("at"), sql.get_json_object("line", "$.record_id"))
    some = read.where(is_sampled).select(key.alias("key"), unknown.alias("unknown")).collect()
    return {
        "lines": counted.lines,
        "days": {str(date(1970, 1, 1) + timedelta(each)) for each in counted.days},
        "keys": [row.key for row in some],
        "unknown": {name for row in some for name in row.unknown},
    }


def _quarantine(archive: Archive, kind: RecordKind, days: Sequence[Arrived]) -> None:
    """Set the corrupt lines of days of arrival aside, with their file and number."""
    lines = archive.lines([key for each in days for key in each.files])
    read = raw.parsed(raw.numbered(lines), kind).where("is_corrupt").select("file", "line_number", "line")
    corrupt = read.withColumn("dt", sql.regexp_extract("file", r"/dt=(\d{4}-\d{2}-\d{2})/", 1)).cache()
    found = [row.dt for row in corrupt.select("dt").distinct().collect()]
    writer = corrupt.coalesce(1).write.mode("overwrite").partitionBy("dt")
    writer.option("partitionOverwriteMode", "dynamic").json(archive.uri("quarantine", kind.value))
    archive.keep_only(found, [each.day for each in days], "quarantine", kind.value)
    for row in corrupt.orderBy("file", "line_number").limit(LINES_SHOWN).collect():
        tell(f"{kind}: corrupt line {row.line_number} of {row.file}")
    corrupt.unpersist()


def main(argv: Sequence[str] | None = None) -> int:
    """Compact every kind of records; exit code 0. A file that cannot be read to its end fails the job (1)."""
    parser = arguments.parser("compact", (__doc__ or "").partition("\n\n")[0], lookback_days=1)
    text = "true: make the days anew from all raw files from the first day on (default: false)"
    parser.add_argument("--rebuild", type=arguments.truth, default=False, help=text)
    given = arguments.parse(parser, argv)
    window = arguments.window(parser, given, today_included=True)
    archive = Archive.at(open_session(given), given.archive)
    kinds: dict[str, object] = {}
    for kind in SCHEMAS:
        try:
            made = compact(archive, kind, window, rebuild=given.rebuild)
        except RacedError as fault:
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
        tell(f"{kind}: {made.records} records of {len(made.days)} days{aside}{left}")
    finish({"job": "compact", "ok": True, "window": window.label, "kinds": kinds, "html": None, "json": None})
    return 0


def _is_unreadable(fault: Exception) -> bool:
    """Say whether a raw file is truncated or no gzip: the data's fault, told in one line, not the job's."""
    told = str(fault)
    return "java.io.EOFException" in told or "java.util.zip" in told or "not a gzip" in told


def _unreadable_file(archive: Archive, kind: RecordKind, arrival: arguments.Window) -> str | None:
    """Return the first file that cannot be read to its end: those that arrived in the window are tried first."""
    window = arrival.days()
    for days in (window, [day for day in archive.days("raw", kind.value) if day not in window]):
        for key in (key for each in arrived(archive.objects, kind, days) for key in each.files):
            try:
                archive.lines([key]).count()
            except Exception as fault:
                if not _is_unreadable(fault):
                    raise
                return archive.uri(key)
    return None


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
