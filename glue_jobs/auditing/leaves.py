"""The leaves of records in batches of Arrow: the lines of :func:`glue_jobs.auditing.merkle.line_of`, column by column.

A record with a character that JSON escapes, or of which a part was taken out, is left to that recipe itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind

from glue_jobs.auditing.merkle import BUCKET_DIGITS, leaf_of, root_of
from glue_jobs.erasing.contents import COLUMNS, CONTENT, MARKS, SALT_DIGITS, Part
from glue_jobs.io.schemas import SCHEMAS
from glue_jobs.io.storage import day_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ESCAPED = '["\\\\\\x00-\\x1f]'


def leaves(batch: pa.RecordBatch, kind: RecordKind) -> list[str]:
    """Return the leaf of each record in hex."""
    if not batch.num_rows:
        return []
    names = SCHEMAS[kind].fieldNames()
    rows = pa.Table.from_batches([batch]).select(names).combine_chunks()
    columns = {name: _array(rows[name]) for name in names}
    written = [name for name in names if kind is not RecordKind.MESSAGES or name not in (*CONTENT, *MARKS)]
    pieces = {name: _pairs_of(name, columns[name]) for name in written}
    if kind is RecordKind.MESSAGES:
        pieces["hashes"] = _hashes(columns)
    lines = _object(list(pieces.values())).to_pylist()
    found = [sha256(line.encode()).hexdigest() for line in lines]
    for place in _odd(columns):
        [record] = rows.slice(place, 1).to_pylist(maps_as_pydicts="strict")
        found[place] = leaf_of(record)
    return found


def day_roots(records: DataFrame, kind: RecordKind) -> list[tuple[str, str, int, str]]:
    """Return kind, day, number of records and root of each day of *records*."""
    names = SCHEMAS[kind].fieldNames()
    instant = "accepted_at" if "expires_at" in names else "changed_at"

    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = pa.array(leaves(batch, kind), pa.string())
            yield pa.RecordBatch.from_arrays([batch.column(len(names)), found], ["dt", "leaf"])

    told_of = records.select(*names, day_of(instant).alias("dt")).mapInArrow(told, "dt string, leaf string")
    told_of = told_of.withColumn("bucket", sql.substring("leaf", 1, BUCKET_DIGITS))
    joined = sql.array_join(sql.sort_array(sql.collect_list("leaf")), "")
    digests = told_of.groupBy("dt", "bucket").agg(sql.sha2(joined, 256).alias("digest"), sql.count("leaf").alias("n"))
    days: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for row in digests.collect():
        days[row.dt].append((row.bucket, row.digest, row.n))
    return [
        (kind.value, day, sum(n for _, _, n in found), root_of([digest for _, digest, _ in sorted(found)]))
        for day, found in sorted(days.items())
    ]


def _array(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _joined(*parts: Any) -> Any:
    """Return the texts of several columns one behind the other, null where one of them is."""
    return compute.binary_join_element_wise(*parts, "")


def _object(pairs: Sequence[Any]) -> Any:
    """Return JSON objects of columns of pairs; those that are null are left out."""
    if all(each.null_count for each in pairs):
        # Of a row that is null in every column Arrow makes no row.
        ended = compute.binary_join_element_wise(*pairs, "", ",", null_handling="skip")
        return _joined("{", compute.utf8_rtrim(ended, ","), "}")
    return _joined("{", compute.binary_join_element_wise(*pairs, ",", null_handling="skip"), "}")


def _pairs_of(name: str, column: Any) -> Any:
    """Return ``"name":value`` for each value of a column that is not null."""
    return _joined(f'"{name}":', _value(column))


def _value(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return _joined('"', column, '"')
    if pa.types.is_map(column.type):
        pairs = _joined(_value(column.keys), ":", _value(column.items))
        return _joined("{", _listed(column, pairs), "}")
    if pa.types.is_list(column.type):
        return _joined("[", _listed(column, _value(column.values)), "]")
    return column.cast(pa.string())


def _listed(column: Any, values: Any) -> Any:
    """Return the *values* of each list of a column with commas between them, null where it is null."""
    lists = pa.ListArray.from_arrays(column.offsets, values)
    joined = compute.binary_join(lists, ",")
    return compute.if_else(column.is_valid(), joined, pa.scalar(None, pa.string()))


def _hashes(columns: dict[str, Any]) -> Any:
    """Return ``"hashes":{…}`` of whole messages: of each part the hash of its salt and what it says."""
    salts = columns["salt"].to_pylist()
    pieces = []
    for part in sorted(Part):
        texts = _object([_pairs_of(name, columns[name]) for name in COLUMNS[part]]).to_pylist()
        found = [
            None if text == "{}" or salt is None else _hashed(salt, part.value, text)
            for salt, text in zip(salts, texts, strict=True)
        ]
        pieces.append(_pairs_of(part.value, pa.array(found, pa.string())))
    return _joined('"hashes":', _object(pieces))


def _hashed(salt: str, part: str, text: str) -> str:
    own = sha256(f"{salt}{part}".encode()).hexdigest()[:SALT_DIGITS]
    return sha256(f"{own}{text}".encode()).hexdigest()


def _odd(columns: dict[str, Any]) -> list[int]:
    """Return the places of the records that have a character which JSON escapes, or of which a part is gone."""
    odd = np.zeros(len(columns["record_id"]), bool)
    for name, column in columns.items():
        if name in ("salts", "hashes"):
            odd |= column.is_valid().to_numpy(zero_copy_only=False)
            continue
        texts = [column.keys, column.items] if pa.types.is_map(column.type) else [column]
        texts = [each.values if pa.types.is_list(each.type) else each for each in texts]
        for text in texts:
            if pa.types.is_string(text.type) and _may_escape(text):
                places = compute.match_substring_regex(text, ESCAPED).fill_null(False).to_numpy(zero_copy_only=False)
                found = places.nonzero()[0]
                odd[found if text is column else _owners(column, found)] = True
    return [int(place) for place in odd.nonzero()[0]]


def _may_escape(texts: Any) -> bool:
    """Say whether a column of texts has a byte that JSON escapes, at the price of one pass over its bytes."""
    held = texts.buffers()[2]
    if held is None:
        return False
    data = np.frombuffer(held, np.uint8)
    return bool(((data < 0x20) | (data == 0x22) | (data == 0x5C)).any())


def _owners(lists: Any, places: Any) -> Any:
    """Return the rows of a column of lists, or maps, that hold the values at *places*."""
    return np.searchsorted(np.asarray(lists.offsets), places, side="right") - 1
