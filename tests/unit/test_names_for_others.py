"""Names that other programs import filters by."""

import re
from pathlib import Path
from typing import Any

import pytest

FILTERS = (Path(__file__).resolve().parents[2] / "docs" / "filters.md").read_text()


def test_other_programs_find_filters_by_the_names_they_know() -> None:
    [code] = re.findall(r"^```python\n(.*?)^```", FILTERS, re.DOTALL | re.MULTILINE)
    known: dict[str, Any] = {}

    exec(code, known)

    assert known["compiled"].evaluate({"price": "120"}) is True
    assert known["matches"]({"apple", "imac"}, {"imac"}) is True
    assert known["matches_key"]("order.*.eu", "order.new.eu") is True
    assert known["java_hash_code"]("TagA") == 2_598_919


def test_what_an_expression_may_raise_is_found_beside_it() -> None:
    from tagcast.sql92 import Dialect, FilterEvaluationError, FilterSyntaxError, compile_sql92

    with pytest.raises(FilterSyntaxError) as refused:
        compile_sql92("price > ")

    assert (refused.value.line, refused.value.column, bool(refused.value.message)) == (1, 9, True)
    assert issubclass(FilterEvaluationError, Exception)
    assert {each.value for each in Dialect} == {"strict", "rocketmq"}
