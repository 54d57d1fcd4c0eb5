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


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: repr(row["sub"]))
def test_expressions_are_split_as_in_the_original(row: dict[str, Any]) -> None:
    text = str(row["sub"])
    if text in NO_TAG_LEFT | STAR_WITH_TAGS:
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
