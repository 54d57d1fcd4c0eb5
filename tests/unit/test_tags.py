"""The tag rule and Java's hash codes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.filters.tags import java_hash_code, matches

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "tags_bloom.json").read_text())


@pytest.mark.parametrize(
    ("message", "wanted", "received"),
    [
        (set(), {"apple"}, False),
        ({"apple"}, set(), True),
        ({"apple", "imac"}, {"xiaomi", "imac"}, True),
        ({"apple"}, {"xiaomi"}, False),
        ({"apple"}, {"Apple"}, False),
        (set(), set(), True),
    ],
)
def test_the_four_rules(message: set[str], wanted: set[str], received: bool) -> None:
    assert matches(message, wanted) is received
    assert matches(tuple(message), tuple(wanted)) is received


@pytest.mark.parametrize("row", VECTORS["javahash"], ids=lambda row: row["s"][:20] or "empty")
def test_hash_codes_are_those_of_java(row: dict[str, object]) -> None:
    assert java_hash_code(str(row["s"])) == row["h"]


@given(st.text())
def test_hash_codes_fit_a_signed_int(text: str) -> None:
    assert -(2**31) <= java_hash_code(text) < 2**31


def test_tags_with_the_same_code_are_not_confused() -> None:
    assert java_hash_code("Aa") == java_hash_code("BB")
    assert not matches({"Aa"}, {"BB"})
