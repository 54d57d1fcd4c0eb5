"""Partitions rows by ranges of their keys with known bounds. Each range gets one task and one file.

Spark's own range partitioning reads its input twice to sample it, and so would parse raw lines twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

RANGE = "range"
_MASK = 0xFFFFFFFF


def in_ranges(rows: DataFrame, key: Column, bounds: Sequence[str]) -> DataFrame:
    """Return *rows* with the column ``range``. Each range of *key* has its own partition, in the order of the ranges.

    The first range ends before the first of the sorted *bounds*; each bound begins a further range.
    """
    number = sum(((key >= sql.lit(bound)).cast("int") for bound in bounds), sql.lit(0))
    return in_partitions(rows, number, len(bounds) + 1)


def in_partitions(rows: DataFrame, number: Column, partitions: int) -> DataFrame:
    """Return *rows* with the column ``range``. Each row is in the partition with the index *number*."""
    tokens = list(islice(_tokens(partitions), partitions))
    token = sql.get(sql.array(*(sql.lit(each) for each in tokens)), number)
    return rows.withColumn(RANGE, token).repartition(partitions, RANGE)


def _tokens(partitions: int) -> Iterator[int]:
    """Yield, for each partition in turn, a number that Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    numbers = count()
    for partition in range(partitions):
        while partition not in found:
            number = next(numbers)
            found.setdefault(murmur3(number) % partitions, number)
        yield found[partition]


def murmur3(number: int) -> int:
    """Return Spark's hash of an int column: Murmur3 (x86, 32 bits) of its four bytes with the seed 42.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    block = number * 0xCC9E2D51 & _MASK
    block = (block << 15 | block >> 17) * 0x1B873593 & _MASK
    value = 42 ^ block
    value = ((value << 13 | value >> 19) & _MASK) * 5 + 0xE6546B64 & _MASK
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value
