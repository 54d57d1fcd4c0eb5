"""Sorts and merges records: an external merge sort whose rows stay in Arrow from raw file to Parquet.

A worker reads some files, sorts their records by day and ``record_id`` (a sorted *run*), and cuts each run into
serialized Arrow chunks. Spark moves and spills the chunks as opaque bytes. A *range* of ids of one day becomes one
file. One worker gets all chunks of a range, sorted by their first records, so it can write the beginning of the file
before it has read the end.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, ipc, parquet
from pyspark.sql.pandas.types import from_arrow_schema
from tagcast.archive.record import RecordKind
from tagcast.instant import DAY_MS

from glue_jobs.compacting.lines import arrow_schema, read_file
from glue_jobs.erasing.contents import MARKS, salts_of
from glue_jobs.io.objects import Objects
from glue_jobs.io.schemas import DAY_OF

RUN_BYTES = 128 * 1024 * 1024
"""Bytes sorted at once: some half a million deliveries."""
CHUNK_ROWS, CHUNK_BYTES = 4096, 1024 * 1024
GROUP_ROWS, GROUP_BYTES = 1 << 18, 64 * 1024 * 1024
"""The size of a row group, before compression. A reader of one topic skips other groups by their statistics."""
SAMPLE_ROWS = 1 << 14
COMPRESSION = "zstd"
UNLIKE = ("record_id", "message_id", "body", "body_base64", "salt", "position")
"""Columns of almost unique texts. A dictionary would save nothing for them, nor for instants."""
_CHUNK = pa.schema(
    [
        ("refused", pa.string()),
        ("unknown", pa.list_(pa.string())),
        ("days", pa.list_(pa.string())),
        *((name, pa.string()) for name in ("dt", "first", "last")),
        *((name, pa.int64()) for name in ("records", "packed")),
        ("content", pa.binary()),
    ]
)
CHUNKS = from_arrow_schema(_CHUNK)
"""The schema of the reader's output. A row has a chunk, a refused file, unknown columns, or a file and its days."""
_FILE = pa.schema(
    [
        *((name, pa.string()) for name in ("dt", "key")),
        *((name, pa.int64()) for name in ("bytes", "records", "duplicates", "conflicts", "replaced")),
    ]
)
FILES = from_arrow_schema(_FILE)
"""The schema of the merge's output: a row for each range, with its file (or null), its bytes and its counts."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, raw or curated."""

    key: str
    is_curated: bool = False


def read_sources(opened: Callable[[], Objects], sources: Iterable[Source], kind: RecordKind, key: str) -> Iterator[Any]:
    """Read files and yield their chunks, in batches of the schema ``CHUNKS``.

    *opened* opens the archive. *key* is the archive's key, from which messages of raw files get their salts.
    """
    return _in_runs(_read(opened(), sources, kind), kind, key)


def _read(objects: Objects, sources: Iterable[Source], kind: RecordKind) -> Iterator[Any]:
    for source in sources:
        stored = objects.read(source.key)
        if stored is None:
            raise FileNotFoundError(source.key)
        if source.is_curated:
            yield from _read_curated(stored.content, kind)
            continue
        read = read_file(stored.content, kind, zipped=source.key.endswith(".gz"))
        if read is None:
            yield _chunk(refused=source.key)
            continue
        if read.unknown:
            yield _chunk(unknown=sorted(read.unknown))
        numbers = np.unique(read.records[DAY_OF[kind]].to_numpy() // DAY_MS)
        yield _chunk(days=[source.key, *map(day_of, numbers.tolist())])
        yield read.records


def of_rows(batches: Iterable[Any], kind: RecordKind, key: str) -> Iterator[Any]:
    """Yield the chunks of rows that Spark parsed. A corrupt row is only counted, because it has no day."""
    return _in_runs(_drop_corrupt(batches, kind), kind, key)


def _drop_corrupt(batches: Iterable[Any], kind: RecordKind) -> Iterator[Any]:
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        whole = rows.filter(compute.invert(rows["is_corrupt"]))
        unknown = sorted(compute.unique(compute.list_flatten(rows["unknown"])).to_pylist())
        yield _chunk(records=len(rows) - len(whole), unknown=unknown)
        yield _of_schema(whole, kind)


def _in_runs(read: Iterable[Any], kind: RecordKind, key: str) -> Iterator[Any]:
    """Yield batches of ``CHUNKS`` unchanged, and tables of raw records as chunks of sorted runs of ``RUN_BYTES``."""
    ready, size = list[pa.Table](), 0
    for each in read:
        if not isinstance(each, pa.Table):
            yield each
            continue
        ready.append(each)
        size += each.nbytes
        if size >= RUN_BYTES:
            yield from sorted_runs(pa.concat_tables(ready), kind, key)
            ready, size = [], 0
    if ready:
        yield from sorted_runs(pa.concat_tables(ready), kind, key)


def sorted_runs(records: pa.Table, kind: RecordKind, key: str) -> Iterator[Any]:
    """Sort raw *records* by day and ``record_id``, and yield them in chunks.

    Messages get salts, which are derived from *key*, the archive's key.
    """
    if kind is RecordKind.MESSAGES:
        place = records.schema.get_field_index("salt")
        salts = salts_of(key, records["record_id"].to_pylist(), records["hashes"].is_null().to_pylist())
        records = records.set_column(place, "salt", pa.array(salts, pa.string()))
    days = records[DAY_OF[kind]].to_numpy() // DAY_MS
    for day in np.unique(days):
        of_day = records if days[0] == days[-1] == day and (days == day).all() else records.filter(days == day)
        run = of_day.combine_chunks()
        run = run.take(compute.sort_indices(run["record_id"]))
        yield from _chunks(run.combine_chunks(), day_of(int(day)), _packed_share(run))


def _read_curated(content: bytes, kind: RecordKind) -> Iterator[Any]:
    """Yield the chunks of a curated file, which is one sorted run."""
    file = parquet.ParquetFile(pa.BufferReader(content))
    for number in range(file.num_row_groups):
        rows, group = _of_schema(file.read_row_group(number, use_threads=False), kind), file.metadata.row_group(number)
        packed = sum(group.column(place).total_compressed_size for place in range(group.num_columns))
        yield from _chunks(rows, day_of(rows[DAY_OF[kind]][0].as_py() // DAY_MS), packed / rows.nbytes)


def day_of(number: int) -> str:
    """Return a day, given by its number since 1970-01-01 (0).

    >>> day_of(1)
    '1970-01-02'
    """
    return str(date(1970, 1, 1) + timedelta(number))


def _of_schema(rows: pa.Table, kind: RecordKind) -> pa.Table:
    """Return *rows* with the columns of the current schema; missing columns are null."""
    columns = [
        rows[each.name].cast(each.type) if each.name in rows.column_names else pa.nulls(len(rows), each.type)
        for each in arrow_schema(kind)
    ]
    return pa.Table.from_arrays(columns, schema=arrow_schema(kind)).combine_chunks()


def _packed_share(run: pa.Table) -> float:
    """Return the Parquet bytes per byte in memory, from a sample of consecutive records."""
    sample = run.slice(max(0, (len(run) - SAMPLE_ROWS) // 2), SAMPLE_ROWS)
    sink = pa.BufferOutputStream()
    with _writer(sink, run.schema) as writer:
        writer.write_table(sample)
    return float(sink.getvalue().size / sample.nbytes)


def _writer(sink: Any, schema: pa.Schema) -> Any:
    repeated = [each.name for each in schema if each.name not in UNLIKE and each.type != pa.int64()]
    return parquet.ParquetWriter(sink, schema, compression=COMPRESSION, use_dictionary=repeated, write_page_index=True)


def _chunks(run: pa.Table, day: str, packed_share: float) -> Iterator[Any]:
    """Yield a sorted run of one day as chunks."""
    rows = min(CHUNK_ROWS, max(1, CHUNK_BYTES * len(run) // max(1, run.nbytes)))
    ids = run["record_id"]
    for start in range(0, len(run), rows):
        piece = run.slice(start, rows)
        if rows > 1 and piece.nbytes > 2 * CHUNK_BYTES:  # Its records are larger than most others.
            yield from _chunks(piece, day, packed_share)
            continue
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, run.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(piece)
        yield _chunk(
            dt=day,
            first=ids[start].as_py(),
            last=ids[start + len(piece) - 1].as_py(),
            records=len(piece),
            packed=round(packed_share * piece.nbytes),
            content=sink.getvalue().to_pybytes(),
        )


def _chunk(**values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], _CHUNK)


@dataclass(frozen=True, slots=True)
class Range:
    """A range of ids of one day, from *low* to before *high*, or to the end if *high* is None. It becomes one file."""

    day: str
    low: str
    high: str | None

    @property
    def key(self) -> str:
        """The day and the first id. Ranges are sorted, and chunks are assigned to ranges, by this key."""
        return f"{self.day} {self.low}"


def ranges_of(weights: Iterable[tuple[str, str, int]], packed: Mapping[str, int], file_bytes: int) -> list[Range]:
    """Return the sorted ranges of all days, each of at most about *file_bytes*.

    *weights* is a sample of chunks, as (day, first id, bytes). *packed* maps each day to the bytes of its files.

    >>> [each.low for each in ranges_of([("d", "a", 5), ("d", "b", 5), ("d", "c", 5)], {"d": 30}, 20)]
    ['', 'c']
    """
    sample: dict[str, list[tuple[str, int]]] = {day: [] for day in packed}
    for day, first, size in weights:
        sample[day].append((first, size))
    found = []
    for day in sorted(packed):
        ordered = sorted(sample[day])
        sums = np.cumsum([size for _, size in ordered]).tolist()
        number = -(-packed[day] // file_bytes)
        places = (bisect_left(sums, sums[-1] * n / number) for n in range(1, number) if sums)
        lows = ["", *sorted({ordered[min(place + 1, len(ordered) - 1)][0] for place in places})]
        found += [Range(day, low, high) for low, high in zip(lows, [*lows[1:], None], strict=True)]
    return found


@dataclass
class _File:
    """A file that is being written, with the records of its chunks that are not written yet."""

    range: Range
    kind: RecordKind
    sink: pa.BufferOutputStream = field(default_factory=pa.BufferOutputStream)
    waiting: list[pa.Table] = field(default_factory=list)
    rows_waiting: int = 0
    bytes_waiting: int = 0
    records: int = 0
    duplicates: int = 0
    conflicts: int = 0
    replaced: int = 0

    def __post_init__(self) -> None:
        self.writer = _writer(self.sink, arrow_schema(self.kind))

    def add(self, first: str, content: bytes) -> None:
        """Add the next chunk. No later chunk begins before *first*."""
        if self.rows_waiting >= GROUP_ROWS or self.bytes_waiting >= GROUP_BYTES:
            self._write(first)
        chunk = ipc.open_stream(content).read_all()
        low = _place(chunk, self.range.low)
        high = len(chunk) if self.range.high is None else _place(chunk, self.range.high)
        self.waiting.append(chunk.slice(low, high - low))
        self.rows_waiting += high - low
        self.bytes_waiting += self.waiting[-1].nbytes

    def _write(self, end: str | None) -> None:
        """Write the waiting records with ids before *end*, or all if *end* is None."""
        places = [len(each) if end is None else _place(each, end) for each in self.waiting]
        ready = [each.slice(0, place) for each, place in zip(self.waiting, places, strict=True) if place]
        rest = zip(self.waiting, places, strict=True)
        self.waiting = [each.slice(place) for each, place in rest if place < len(each)]
        self.rows_waiting, self.bytes_waiting = sum(map(len, self.waiting)), sum(each.nbytes for each in self.waiting)
        if ready:
            rows = pa.concat_tables(ready).combine_chunks()
            rows = self._once(rows.take(compute.sort_indices(rows["record_id"])).combine_chunks())
            self.records += len(rows)
            self.writer.write_table(rows, row_group_size=len(rows))

    def _once(self, rows: pa.Table) -> pa.Table:
        """Return sorted *rows* without repeated ids, and update the counts."""
        ids = rows["record_id"].chunk(0)
        repeats = compute.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False).nonzero()[0] + 1
        if not len(repeats):
            return rows
        names = [name for name in rows.column_names if name not in MARKS]
        unlike = set(_unlike(rows.select(names).take(repeats - 1), rows.select(names).take(repeats)))
        marked = () if "hashes" not in rows.column_names else compute.is_valid(rows["hashes"]).to_numpy().nonzero()[0]
        odd = {ids[int(repeats[place])].as_py() for place in unlike}
        odd |= {ids[int(place)].as_py() for place in np.intersect1d(marked, [*repeats, *(repeats - 1)])}
        kept = np.ones(len(rows), bool)
        kept[repeats] = False
        self.duplicates += len(repeats)
        for each in sorted(odd):
            low = _place(rows, each)
            alike = rows.slice(low, _place(rows, f"{each}\0") - low).to_pylist()
            chosen, conflicts = choose_record(alike)
            kept[low : low + len(alike)] = False
            kept[low + chosen] = True
            self.conflicts += conflicts
            self.duplicates -= conflicts
            self.replaced += 1
        return rows.filter(kept)

    def close(self, objects: Objects, prefix: str, number: int) -> pa.RecordBatch:
        """Write the remaining records, store the file unless it is empty, and return a row that describes it."""
        self._write(None)
        self.writer.close()
        content = self.sink.getvalue()
        key = f"{prefix}dt={self.range.day}/{number:05d}.{COMPRESSION}.parquet" if self.records else None
        if key is not None:
            objects.replace(key, content.to_pybytes())
        found = {"dt": self.range.day, "key": key, "bytes": content.size if key else 0, "records": self.records}
        found |= {"duplicates": self.duplicates, "conflicts": self.conflicts, "replaced": self.replaced}
        return pa.RecordBatch.from_pylist([found], _FILE)


def _place(rows: pa.Table, record_id: str) -> int:
    """Return the number of sorted *rows* whose id is before *record_id*."""
    ids = rows["record_id"]
    return bisect_left(range(len(rows)), record_id.encode(), key=lambda place: ids[place].as_py().encode())


def _unlike(one: pa.Table, other: pa.Table, start: int = 0) -> Iterator[int]:
    """Yield the row numbers at which two tables differ, by bisection."""
    if one.equals(other):
        return
    if len(one) == 1:
        yield start
        return
    half = len(one) // 2
    yield from _unlike(one.slice(0, half), other.slice(0, half), start)
    yield from _unlike(one.slice(half), other.slice(half), start + half)


def choose_record(records: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the index of the record to keep among several with one id, and the number of conflicts.

    The record with the most erased parts is kept. The choice does not depend on the order of *records*. Among the
    records without erased parts, each distinct content after the first is a conflict.
    """
    texts = [_text_of(each) for each in records]
    order = sorted(range(len(records)), key=lambda place: (-len(records[place].get("hashes") or ()), texts[place]))
    conflicts = 0
    for before, after in pairwise(order):
        conflicts += texts[before] != texts[after] and not records[before].get("hashes")
    return order[0], conflicts


def _text_of(record: Mapping[str, Any]) -> str:
    """Return the text by which records are compared; maps, which Arrow returns as pairs, are sorted."""
    known = {name: value for name, value in record.items() if name not in MARKS}
    return json.dumps({**known, "properties": sorted(known.get("properties") or ())})


def merge(
    batches: Iterable[Any], opened: Callable[[], Objects], kind: RecordKind, prefix: str, ranges: Sequence[Range]
) -> Iterator[Any]:
    """Merge chunks into one file per range; yield a row of ``FILES`` for each file.

    The chunks in *batches* are sorted by range and first record id. The keys of the files begin with *prefix*.
    """
    objects = opened()
    chunks = (row for each in batches for row in zip(*(column.to_pylist() for column in each.columns[:3]), strict=True))
    for number, of_range in groupby(chunks, key=itemgetter(0)):
        file = _File(ranges[number], kind)
        for _, first, content in of_range:
            file.add(first, content)
        yield file.close(objects, prefix, number)
