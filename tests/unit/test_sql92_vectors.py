"""The rocketmq dialect gives what the original evaluator gives, row by row."""

import json
import pickle
from pathlib import Path

import pytest
from tagcast.filters.sql92 import FilterEvaluationError, FilterSyntaxError, compile_sql92

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "sql92.json").read_text())["vectors"]


def outcome(expression: str, properties: dict[str, str], dialect: str) -> object:
    """What happens, in the words of the vectors."""
    try:
        compiled = compile_sql92(expression, dialect)
    except FilterSyntaxError:
        return "error_at_subscribe"
    compiled = pickle.loads(pickle.dumps(compiled))
    explained = compiled.explain(properties).value
    try:
        value = compiled.evaluate(properties)
    except FilterEvaluationError:
        assert explained == "error"
        return "error_at_eval"
    assert explained is value
    return value


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["expr"][:50])
def test_rocketmq_rows(row: dict[str, object]) -> None:
    found = outcome(str(row["expr"]), row["props"], "rocketmq")  # type: ignore[arg-type]
    assert found == row["expect"]
    assert type(found) is type(row["expect"])


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["expr"][:50])
def test_strict_differs_only_where_the_table_says(row: dict[str, object]) -> None:
    found, expected = outcome(str(row["expr"]), row["props"], "strict"), row["expect"]  # type: ignore[arg-type]
    assert found != "error_at_eval"
    if row.get("quirk") or row.get("tail_ignored") or expected == "error_at_eval" or found == expected:
        return
    by_value = {"n = 9223372036854775808": False, "n > 100000000000000000000000": False, "'1' = 1": False}
    unknown = {"vip = TRUE": None}
    assert found is {**by_value, **unknown}[str(row["expr"])]


@pytest.mark.parametrize("row", [row for row in VECTORS if row.get("tail_ignored")], ids=lambda row: row["expr"])
def test_ignored_text_is_warned_of_and_refused_by_strict(row: dict[str, object]) -> None:
    expression = str(row["expr"])
    assert any("ignored" in warning for warning in compile_sql92(expression, "rocketmq").warnings)
    if "--" not in expression and "0L" not in expression and "LIKE" not in expression:
        with pytest.raises(FilterSyntaxError):
            compile_sql92(expression, "strict")


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("NOT a = 1", "tighter"),
        ("a > 10", "32-bit"),
        ("vip", "never true"),
        ("a LIKE 'x'", "LIKE"),
        ("-a = 5.5", "sign"),
        ("a NOT CONTAINS ''", "empty"),
    ],
)
def test_known_traps_are_warned_of(expression: str, word: str) -> None:
    assert any(word in warning for warning in compile_sql92(expression, "rocketmq").warnings)
    assert compile_sql92(expression, "strict").warnings == ()


@pytest.mark.parametrize("dialect", ["strict", "rocketmq"])
def test_a_word_without_quotes_is_warned_of(dialect: str) -> None:
    for expression in ("region = eu", "x = 'a' OR region <> eu"):
        [warning] = [each for each in compile_sql92(expression, dialect).warnings if "compares two" in each]
        assert "if eu is a text, write 'eu'" in warning
    for expression in ("region = 'eu'", "price > dear", "a = TRUE", "a = 1.0"):
        assert not any("two properties" in each for each in compile_sql92(expression, dialect).warnings)


@pytest.mark.parametrize("dialect", ["strict", "rocketmq"])
@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("region == 'eu'", "Write = for equal, not =="),
        ("a = 'x' AND b == 'y'", "Write = for equal, not =="),
        ("a != 'x'", "Write <> for unequal"),
        ('a = "x"', "single quotes"),
        ("a = 'x' && b = 'y'", "Write AND"),
        ("a = 'x' || b = 'y'", "Write OR"),
    ],
)
def test_what_other_languages_write_is_told_in_sql92(expression: str, hint: str, dialect: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        compile_sql92(expression, dialect)

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "column"), [("a = ", 1, 5), ("a = 1\n AND ) ", 2, 6), ("a IN (1)", 1, 7), ("a = 0.0 #", 1, 9)]
)
def test_an_error_names_the_place(text: str, line: int, column: int) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        compile_sql92(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.found
    assert caught.value.expected
    assert pickle.loads(pickle.dumps(caught.value)).fault.pointer == "/expression"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("vip AND n > 5", False),
        ("NOT (vip AND n > 5)", True),
        ("(vip AND n > 5) OR ok = 1", True),
        ("n > 5 AND vip", "error_at_eval"),
        ("(n > 5) CONTAINS ''", False),
        ("NOT ((n > 5) CONTAINS '')", True),
        ("(n > 5) CONTAINS 'x'", "error_at_eval"),
    ],
)
def test_rocketmq_does_not_evaluate_what_cannot_change_the_result(expression: str, expected: object) -> None:
    """The results are those of RocketMQ's own classes (apache/rocketmq, commit 8fc57f1, filter)."""
    assert outcome(expression, {"vip": "true", "n": "x", "ok": "1"}, "rocketmq") == expected
