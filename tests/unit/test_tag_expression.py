"""RocketMQ's tag expressions."""

import json
from pathlib import Path
from typing import Any

import pytest
from tagcast.errors import FilterSyntaxError
from tagcast.filters.tag_expression import parse_tag_expression

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "tags_bloom.json").read_text())["filterapi"]
NO_TAG_LEFT = {"||", "||||", " || ", "   "}
STAR_WITH_TAGS = {"*||TagA", "TagA||*"}
OTHER_OPERATORS = {"TagA|TagB", "TagA|||TagB", "TagA && TagB"}


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: repr(row["sub"]))
def test_expressions_are_split_as_in_the_original(row: dict[str, Any]) -> None:
    text = str(row["sub"])
    if text in NO_TAG_LEFT | STAR_WITH_TAGS | OTHER_OPERATORS:
        with pytest.raises(FilterSyntaxError):
            parse_tag_expression(text)
    elif text.strip() == "*":
        assert parse_tag_expression(text).everything
    else:
        parsed = parse_tag_expression(text)
        assert sorted(parsed.tags) == sorted(row["tags"])
        assert sorted(parsed.codes) == sorted(row["codes"])


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
    assert parse_tag_expression("R&D || a").tags == ("R&D", "a")
