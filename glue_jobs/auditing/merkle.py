"""A Merkle root over curated records that anyone can recompute from the Parquet files alone.

1. Leaf: SHA-256 of the record's line. The line is compact JSON in UTF-8 (:func:`line_of`): the columns except ``dt``
in the order of the schema, without nulls. In a message, hashes replace the producer's content
(:mod:`glue_jobs.erasing.contents`).
2. Bucket: the leaves (hex) of one kind and day that begin with the same three digits, sorted and joined; its digest is
the SHA-256 of this text.
3. Day: the bucket digests of one kind and day, sorted by their three digits, in a binary tree (:func:`root_of`).
4. Certificate: the day roots, sorted by kind and day, in another binary tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind

from glue_jobs.erasing.contents import CONTENT, MARKS, compact_json, hash_columns, hashes_of
from glue_jobs.io.schemas import DAY_OF, SCHEMAS
from glue_jobs.io.storage import day_of

BUCKET_DIGITS = 3
EMPTY = sha256(b"").hexdigest()


def line_of(record: Mapping[str, object]) -> str:
    """Return the line of *record*, the compact JSON that is hashed. The columns must be in the order of the schema.

    The line of a message contains hashes instead of the producer's content.
    """
    if "salt" not in record:
        return compact_json(record)
    envelope = {name: value for name, value in record.items() if name not in (*CONTENT, *MARKS)}
    return compact_json({**envelope, "hashes": hashes_of(record)})


def leaf_of(record: Mapping[str, object]) -> str:
    """Return the leaf of *record*, the SHA-256 of its line, in hex."""
    return sha256(line_of(record).encode()).hexdigest()


def bucket_digests(leaves: Iterable[str]) -> dict[str, str]:
    """Return the digest (hex) of each bucket by its three digits. This is plain Python; the job itself uses Spark."""
    buckets: dict[str, list[str]] = defaultdict(list)
    for leaf in leaves:
        buckets[leaf[:BUCKET_DIGITS]].append(leaf)
    return {name: sha256("".join(sorted(found)).encode()).hexdigest() for name, found in sorted(buckets.items())}


def root_of(digests: Sequence[str]) -> str:
    """Return the root (hex) of a binary tree over *digests*; without digests, the SHA-256 of no bytes.

    A leaf of the tree is SHA-256 of 0x00 and a digest. An inner node is SHA-256 of 0x01 and its two children, so that
    no inner node equals a leaf (RFC 6962). A last node without a sibling moves up unchanged.

    >>> root_of([]) == EMPTY, root_of(["aa"]) == sha256(bytes([0, 0xaa])).hexdigest()
    (True, True)
    """
    if not digests:
        return EMPTY
    level = [sha256(b"\x00" + bytes.fromhex(digest)).digest() for digest in digests]
    while len(level) > 1:
        pairs = [sha256(b"\x01" + level[n] + level[n + 1]).digest() for n in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0].hex()


def leaves_of(records: DataFrame, kind: RecordKind) -> DataFrame:
    """Return kind, day and leaf (hex) of each record."""
    names = SCHEMAS[kind].fieldNames()
    columns = [sql.col(name) for name in names if kind is not RecordKind.MESSAGES or name not in (*CONTENT, *MARKS)]
    if kind is RecordKind.MESSAGES:
        columns.append(sql.struct(*hash_columns()).alias("hashes"))
    leaf = sql.sha2(sql.to_json(sql.struct(*columns)), 256)
    return records.select(sql.lit(kind.value).alias("kind"), day_of(DAY_OF[kind]).alias("dt"), leaf.alias("leaf"))


def day_roots(leaves: DataFrame) -> list[tuple[str, str, int, str]]:
    """Return kind, day, number of records and root (hex) for each pair of kind and day, sorted by kind, then day."""
    joined = sql.array_join(sql.sort_array(sql.collect_list("leaf")), "")
    buckets = leaves.groupBy("kind", "dt", sql.substring("leaf", 1, BUCKET_DIGITS).alias("bucket"))
    digests = buckets.agg(sql.sha2(joined, 256).alias("digest"), sql.count("leaf").alias("n"))
    days: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
    for row in digests.collect():
        days[row.kind, row.dt].append((row.bucket, row.digest, row.n))
    return [
        (*day, sum(n for _, _, n in found), root_of([digest for _, digest, _ in sorted(found)]))
        for day, found in sorted(days.items())
    ]
