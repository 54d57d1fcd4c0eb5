"""The tag rule, Java's hash codes, and RocketMQ's tag expressions."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.errors import FilterSyntaxError
from tagcast.filters.tags import java_hash_code, matches, parse_tag_expression

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "tags_bloom.json").read_text())
NO_TAG_LEFT = {"||", "||||", " || ", "   "}
STAR_WITH_TAGS = {"*||TagA", "TagA||*"}
OTHER_OPERATORS = {"TagA|TagB", "TagA|||TagB", "TagA && TagB"}


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


@pytest.mark.parametrize("row", VECTORS["filterapi"], ids=lambda row: repr(row["sub"]))
def test_expressions_are_split_as_in_the_original(row: dict[str, Any]) -> None:
    text = str(row["sub"])
    if text in NO_TAG_LEFT | STAR_WITH_TAGS | OTHER_OPERATORS:
        with pytest.raises(FilterSyntaxError):
            parse_tag_expression(text)
    elif text.strip() == "*":
        assert parse_tag_expression(text) == ()
    else:
        parsed = parse_tag_expression(text)
        assert sorted(parsed) == sorted(row["tags"])
        assert sorted({*map(java_hash_code, parsed)}) == sorted(row["codes"])


def test_the_place_of_a_forbidden_star_is_named() -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_tag_expression("TagA ||\n *")
    assert (caught.value.line, caught.value.column) == (2, 2)


@pytest.mark.parametrize(
    ("text", "column", "operator"),
    [("a && b", 3, "&&"), ("a || b | c", 8, "|"), ("a|||b", 4, "|"), ("a & b &&", 7, "&&")],
)
def test_another_operator_is_refused_with_what_is_allowed(text: str, column: int, operator: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_tag_expression(text)
    assert (caught.value.column, caught.value.message) == (column, f"Unexpected {operator!r}")
    assert "tags with || between them" in caught.value.hint


def test_a_single_ampersand_is_part_of_a_tag() -> None:
    assert parse_tag_expression("R&D || a") == ("R&D", "a")
