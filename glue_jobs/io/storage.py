"""The archive of the jobs, a bucket or folder: days of records, tables, and single files of reports."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind

from glue_jobs.io import manifests, schemas
from glue_jobs.io.manifests import Manifest
from glue_jobs.io.objects import S3A_NAMES, Objects, objects_at, root_of
from glue_jobs.io.session import PROGRESS, suit

RAW_WEIGHT = 8
"""Parsing a raw byte costs as much as reading eight bytes of Parquet, so it counts as eight when Spark is tuned."""
_DAY = re.compile(r"dt=(\d{4}-\d{2}-\d{2})$")
LITERAL = {"__globPaths__": "false"}
"""The option of Spark's reader to take each path literally, because a folder's name may look like a pattern."""


def print_progress(text: str) -> None:
    """Print a line of progress for people, with a prefix that distinguishes it from Spark's output."""
    print(f"{PROGRESS}{text}", file=sys.stderr, flush=True)


def finish(summary: Mapping[str, object]) -> None:
    """Print the result of a job as its last line, for programs."""
    print(json.dumps(summary, sort_keys=False, ensure_ascii=False), flush=True)


@dataclass(frozen=True, slots=True)
class Archive:
    """Everything under *root*, the URI of a bucket (s3://, s3a://) or of a folder.

    Spark reads and writes tables; `objects` reads and writes single files.
    """

    spark: SparkSession
    root: str

    @classmethod
    def at(cls, spark: SparkSession, uri: str) -> Archive:
        """Return the archive at *uri*; a folder may be relative."""
        return cls(spark, root_of(uri))

    def uri(self, *parts: str) -> str:
        """Return the URI of an object in the archive."""
        return "/".join((self.root, *parts))

    def _path(self, uri: str) -> tuple[Any, Any]:
        jvm: Any = self.spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self.spark._jsc.hadoopConfiguration()), path

    def days(self, *parts: str) -> list[str]:
        """Return the sorted days that have a folder below *parts*."""
        system, path = self._path(self.uri(*parts))
        if not system.exists(path):
            return []
        names = (status.getPath().getName() for status in system.listStatus(path))
        return sorted(found[1] for found in map(_DAY.search, names) if found)

    def suit(self, days: Collection[str], whole: Collection[RecordKind] = (), raw_bytes: int = 0) -> None:
        """Tune the session for the size of a job's input.

        The input is the curated records of *days*, all days of the kinds in *whole*, and *raw_bytes* of raw files.
        """
        size = raw_bytes * RAW_WEIGHT
        for kind in schemas.SCHEMAS:
            sizes = self.objects.sizes(manifests.data_prefix(kind))
            keys = manifests.by_day(sizes)
            size += sum(sizes[key] for day in keys if kind in whole or day in days for key in keys[day])
        suit(self.spark, size)

    def write_text(self, content: str, *parts: str) -> str:
        """Write one file, replacing an existing one; return its URI."""
        self.objects.replace("/".join(parts), content.encode())
        return self.uri(*parts)

    @property
    def objects(self) -> Objects:
        """The single files of the archive, with conditional writes."""
        return self.opened()

    @property
    def opened(self) -> Callable[[], Objects]:
        """A function that opens the same objects in a worker of Spark."""
        conf = self.spark._jsc.hadoopConfiguration()
        return partial(objects_at, self.root, {name: conf.get(f"fs.s3a.{name}") for name in S3A_NAMES})

    def lines(self, keys: Sequence[str]) -> DataFrame:
        """Return the lines of raw files, with their file: (line, file)."""
        if not keys:
            return self.spark.createDataFrame([], "line string, file string")
        found = self.spark.read.options(**LITERAL, lineSep="\n").text([self.uri(key) for key in keys])
        return found.select(sql.col("value").alias("line"), sql.col("_metadata.file_path").alias("file"))

    def curated_days(self, kind: RecordKind, days: Collection[str] | None = None) -> list[str]:
        """Return the days in *days* that have a manifest; if *days* is None, all days with a manifest."""
        present = self.days("curated", kind.value, "manifest")
        return present if days is None else [day for day in present if day in days]

    def records(self, kind: RecordKind, days: Collection[str] | None = None) -> DataFrame:
        """Return the curated records of a kind. *days* of None means all days. A column that a file lacks is null."""
        return self.records_of(manifests.read(self.objects, kind, self.curated_days(kind, days)), kind)

    def records_of(self, found: Iterable[Manifest], kind: RecordKind) -> DataFrame:
        """Return the records in the files of these manifests."""
        schema = schemas.SCHEMAS[kind]
        files = [self.uri(key) for each in found for key in each.files]
        reader = self.spark.read.options(**LITERAL).schema(schema)
        return reader.parquet(*files) if files else self.spark.createDataFrame([], schema)

    def write_generation(self, rows: DataFrame, kind: RecordKind, generation: str) -> dict[str, dict[str, int]]:
        """Write *rows* by their column ``dt`` as a new generation; return the files of each day with their bytes."""
        prefix = manifests.data_prefix(kind, generation)
        writer = rows.write.partitionBy("dt").option("compression", "zstd")
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(self.uri(prefix))
        sizes = self.objects.sizes(prefix)
        return {day: {key: sizes[key] for key in keys} for day, keys in manifests.by_day(sizes).items()}

    def write_days(self, table: DataFrame, *parts: str) -> None:
        """Write *table* below *parts*, divided into days by its column ``dt``. These days are replaced; others stay."""
        writer = table.write.mode("overwrite").partitionBy("dt").option("compression", "zstd")
        writer.option("partitionOverwriteMode", "dynamic").parquet(self.uri(*parts))

    def keep_only(self, written: Iterable[str], affected: Iterable[str], *parts: str) -> list[str]:
        """Delete the folders of the *affected* days that are not in *written*; return the deleted days.

        Spark replaces only days that have new rows, so old rows of the other days would stay.
        """
        stale = sorted((set(affected) - set(written)) & set(self.days(*parts)))
        for day in stale:
            system, path = self._path(self.uri(*parts, f"dt={day}"))
            system.delete(path, True)
        return stale


def has_property(name: str, value: str) -> Any:
    """Return the Spark condition that a message has the property *name* with *value*. An erased property never does."""
    return sql.try_element_at("properties", sql.lit(name)) == sql.lit(value)


def day_of(instant: str) -> Any:
    """Return a Spark column: the UTC day, as text, of the column named *instant*, in milliseconds since 1970."""
    days = sql.floor(sql.col(instant) / sql.lit(86_400_000.0)).cast("int")
    return sql.date_format(sql.date_add(sql.lit("1970-01-01").cast("date"), days), "yyyy-MM-dd")
