"""Bit positions of RocketMQ's Bloom filter."""

import json
from pathlib import Path

import pytest
from tagcast.bloom import BloomFilter

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "tags_bloom.json").read_text())["bloom"]


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{row['f']}-{row['n']}-{row['key'][:20]}")
def test_sizes_positions_and_bytes_are_those_of_the_original(row: dict[str, object]) -> None:
    bloom = BloomFilter.sized(int(str(row["f"])), int(str(row["n"])))
    assert (bloom.hashes, bloom.bits) == (row["k"], row["m"])
    assert list(bloom.positions(str(row["key"]))) == row["pos"]
    assert bloom.bit_map(str(row["key"])).hex() == row["bits_hex"]
