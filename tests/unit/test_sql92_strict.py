"""The strict dialect against SQLite on the shared subset, and where it goes beyond."""

import random
import sqlite3

import pytest
from tagcast.filters.sql92 import FilterSyntaxError, compile_sql92

PROPERTIES = "abcd"
TEXTS = ["x", "xy", "Xy", "", "it's", "%", "x_y", "a%b", "100%", "yx"]
NUMBERS = ["0", "-1", "5", "5.0", "007", "2.5", "-2.50", "1e2", "100", "1700000000000"]
LITERALS = ["0", "0.0", "5", "5.0", "-1", "2.5", "1E2", "100", "1700000000000", "-2.5"]
PATTERNS = ["%", "x%", "%y", "_", "x_", "%x%", "a\\%b", "%\\%", "x\\__", "%_y%", "%x_%", ""]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def leaf(dice: random.Random) -> tuple[str, str]:
    """A condition in our language and in SQLite's; ``n_a`` is the number that the text of ``a`` is, or NULL."""
    name, other, text = dice.choice(PROPERTIES), dice.choice(PROPERTIES), dice.choice(TEXTS + NUMBERS)
    number, second = dice.choice(LITERALS), dice.choice(LITERALS)
    sign = dice.choice(["=", "<>", "<", "<=", ">", ">="])
    equal = dice.choice(["=", "<>"])
    negated = dice.choice(["", "NOT "])
    texts = ", ".join(quoted(choice) for choice in dice.sample(TEXTS, 3))
    pattern = quoted(dice.choice(PATTERNS))
    search = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    both = [
        f"{name} {equal} {quoted(text)}",
        f"{quoted(text)} {equal} {name}",
        f"{name} {equal} {other}",
        f"{name} {negated}IN ({texts})",
        f"{name} IS {negated}NULL",
        f"{name} {negated}LIKE {pattern} ESCAPE '\\'",
        f"{number} {sign} {second}",
        f"({name} = {quoted(text)}) {equal} ({other} = {quoted(text)})",
        f"({name} = {quoted(text)}) IS {negated}NULL",
    ]
    pairs = [(same, same) for same in both]
    pairs += [
        (f"{name} {sign} {number}", f"n_{name} {sign} {number}"),
        (f"{number} {sign} {name}", f"{number} {sign} n_{name}"),
        (f"-{name} {sign} {number}", f"-n_{name} {sign} {number}"),
        (f"{name} < {other}", f"n_{name} < n_{other}"),
        (f"{name} {negated}BETWEEN -1 AND {other}", f"n_{name} {negated}BETWEEN -1 AND n_{other}"),
        (f"{name} {negated}CONTAINS {quoted(text)}", f"{name} {negated}LIKE {quoted(f'%{search}%')} ESCAPE '\\'"),
        (f"{name} {negated}STARTSWITH {quoted(text)}", f"{name} {negated}LIKE {quoted(f'{search}%')} ESCAPE '\\'"),
        (f"{name} {negated}ENDSWITH {quoted(text)}", f"{name} {negated}LIKE {quoted(f'%{search}')} ESCAPE '\\'"),
        ("TRUE", "TRUE"),
        ("NULL", "NULL"),
    ]
    return dice.choice(pairs)


def condition(dice: random.Random, depth: int) -> tuple[str, str]:
    """AND, OR and NOT over leaves, sometimes without the parentheses, to test precedence too."""
    shape = dice.random()
    if depth == 0 or shape < 0.25:
        return leaf(dice)
    ours, theirs = condition(dice, depth - 1)
    if shape < 0.4:
        return f"NOT ({ours})", f"NOT ({theirs})"
    if shape < 0.5:
        ours, theirs = leaf(dice)
        return f"NOT {ours}", f"NOT ({theirs})"
    mine, yours = condition(dice, depth - 1)
    word = dice.choice(["AND", "OR"])
    if shape < 0.75:
        return f"{ours} {word} {mine}", f"{theirs} {word} {yours}"
    return f"({ours}) {word} ({mine})", f"({theirs}) {word} ({yours})"


def test_sqlite_agrees_on_many_generated_cases() -> None:
    dice = random.Random(92)
    rows = [{name: dice.choice(TEXTS + NUMBERS) for name in PROPERTIES if dice.random() < 0.75} for _ in range(20)]
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA case_sensitive_like = ON")
    columns = [f"{name} TEXT" for name in PROPERTIES] + [f"n_{name}" for name in PROPERTIES]
    database.execute(f"CREATE TABLE message ({', '.join(columns)})")
    for row in rows:
        numbers = [float(row[name]) if row.get(name) in NUMBERS else None for name in PROPERTIES]
        values = [row.get(name) for name in PROPERTIES] + numbers
        database.execute(f"INSERT INTO message VALUES ({', '.join('?' * len(values))})", values)
    cases = 0
    for _ in range(1_500):
        ours, theirs = condition(dice, 3)
        compiled = compile_sql92(ours)
        expected = [value for (value,) in database.execute(f"SELECT {theirs} FROM message ORDER BY rowid")]
        for row, value in zip(rows, expected, strict=True):
            found = compiled.evaluate(row)
            assert found is (None if value is None else bool(value)), (ours, theirs, row)
            cases += 1
    assert cases >= 20_000


@pytest.mark.parametrize(
    ("expression", "properties", "expected"),
    [
        ("ts > 100", {"ts": "1700000000000"}, True),
        ("n = 0.0", {"n": "-0"}, True),
        ("n = -9223372036854775808", {"n": "-9223372036854775808"}, True),
        ("n > 9007199254740992", {"n": "9007199254740993"}, True),
        ("n = 5L", {"n": "5.00"}, True),
        ("n > 1", {"n": " 5"}, None),
        ("n > 1", {"n": "NaN"}, None),
        ("n > 1", {"n": "1e309"}, None),
        ("n > 1", {"n": "٧"}, None),
        ("1 = a", {}, None),
        ("a = b", {}, None),
        ("TRUE = a", {"a": "TRUE"}, True),
        ("a = FALSE", {"a": "banana"}, None),
        ("a", {"a": "True"}, True),
        ("NOT a", {"a": "yes"}, None),
        ("NOT a = 1", {"a": "2"}, True),
        ("a CONTAINS ''", {"a": "x"}, True),
        ("a NOT CONTAINS ''", {"a": "x"}, False),
        ("a NOT CONTAINS 'x'", {}, None),
        ("-a = -5", {"a": "5"}, True),
        ("a LIKE 'A%'", {"a": "abc"}, False),
        ("a = 1 -- a note", {"a": "1"}, True),
        ("like = 'like' AND like LIKE 'l%'", {"like": "like"}, True),
    ],
)
def test_what_strict_means(expression: str, properties: dict[str, str], expected: bool | None) -> None:
    assert compile_sql92(expression).evaluate(properties) is expected


@pytest.mark.parametrize(
    "expression", ["a = 1 b", "a = NOT b", "n = 007", "a LIKE 'x' ESCAPE 'ab'", "a LIKE 'x\\' ESCAPE '\\'", "n = 1e309"]
)
def test_what_strict_refuses(expression: str) -> None:
    with pytest.raises(FilterSyntaxError):
        compile_sql92(expression)
