"""Long, deep and hostile expressions."""

import contextlib
import json
import pickle
import pickletools
import sys
import time
from collections.abc import Callable
from types import FrameType

import pytest
from tagcast.filters.index.sql92_index import Sql92Index
from tagcast.filters.sql92 import FilterSyntaxError, compile_sql92
from tagcast.filters.sql92.alternatives import alternatives_of

DIALECTS = ["strict", "rocketmq"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_limits_are_reached_and_not_passed(dialect: str) -> None:
    for most, make in (
        (256, lambda n: "(" * n + "a = 'x'" + ")" * n),
        (250, lambda n: "NOT (" * n + "a = 'x'" + ")" * n),
        (1_024, lambda n: " OR ".join(["a='x'"] * n)),
        (1_000, lambda n: "a IN (" + ",".join(["'x'"] * n) + ")"),
    ):
        assert compile_sql92(make(most), dialect).evaluate({"a": "x"}) is True
        with pytest.raises(FilterSyntaxError):
            compile_sql92(make(most + 10), dialect)
    assert compile_sql92("a = '" + "x" * 16_378 + "'", dialect).evaluate({"a": ""}) is False
    with pytest.raises(FilterSyntaxError):
        compile_sql92("a = '" + "x" * 16_379 + "'", dialect)


def test_depth_does_not_need_the_stack() -> None:
    compiled = compile_sql92("NOT (" * 250 + "a = 1" + ")" * 250)
    limit = sys.getrecursionlimit()
    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(frames + 40)
    try:
        assert compile_sql92(compiled.text).evaluate({"a": "1"}) is True
        assert compiled.explain({"a": "1"}).as_json()["value"] is True
        assert pickle.loads(pickle.dumps(compiled)).evaluate({"a": "1"}) is True
    finally:
        sys.setrecursionlimit(limit)


HOSTILE = {
    "signs": "a = " + "- " * 8_000 + "1",
    "dashes": "a = " + "-" * 16_000,
    "nots": "NOT " * 4_000 + "a",
    "parentheses": "(" * 16_000,
    "quotes": "'" * 16_000,
    "doubled quotes": "a = '" + "''" * 8_000,
    "digits": "a = " + "9" * 16_000,
    "float digits": "a = " + "9" * 16_000 + ".",
    "comments": "/**/" * 4_000 + "a = 1",
    "open comments": "/*" * 8_000,
    "line comments": "--\n" * 5_000 + "a = 1",
    "ands": "a AND " * 2_700 + "a",
    "chain": "a" + " = a" * 4_000,
    "is null": "a" + " IS NULL" * 2_000,
    "between": "a" + " BETWEEN 1 AND 2" * 1_000,
    "blanks": " " * 16_000 + "!",
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_expression_is_slow_to_refuse_or_accept(name: str, dialect: str) -> None:
    started = time.thread_time()
    with contextlib.suppress(FilterSyntaxError):
        compile_sql92(HOSTILE[name], dialect).explain({"a": "1"})
    assert time.thread_time() - started < 2


def calls_of(act: Callable[[], object]) -> int:
    """Return the number of Python calls of *act*: a time that no other program on the machine changes."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("operator", [" AND ", " OR "])
def test_a_chain_takes_twice_as_long_to_read_as_its_half(operator: str) -> None:
    half, whole = (operator.join(["a='x'"] * terms) for terms in (500, 1_000))
    assert calls_of(lambda: compile_sql92(whole)) < 2.1 * calls_of(lambda: compile_sql92(half))


def test_the_alternatives_of_an_expression_are_indexed_without_reading_it_again_for_each() -> None:
    compiled = compile_sql92(" AND ".join(f"(a = '{number}' OR b = 'y')" for number in range(400)))
    assert len(alternatives_of(compiled.nodes, compiled.dialect)) == 8
    assert calls_of(lambda: Sql92Index.build([(0, compiled)])) < 40 * len(compiled.nodes)


@pytest.mark.parametrize("pattern", ["%a" * 8_000, "%a_" * 300 + "%b", "_%" * 4_000, "%" * 16_000 + "b"])
def test_like_does_not_backtrack(pattern: str) -> None:
    compiled = compile_sql92(f"s LIKE '{pattern}'")
    started = time.thread_time()
    for _ in range(5):
        compiled.evaluate({"s": "a" * 1_024})
    assert time.thread_time() - started < 2


def test_the_explanation_of_deep_parts_does_not_repeat_their_text() -> None:
    deep = "a = 'é中'"
    for _ in range(120):
        deep = f"({deep}) AND b = '{'中' * 100}'"
    tree = compile_sql92(deep).explain({"a": "1"}).as_json()
    assert len(json.dumps(tree)) < 20 * len(deep)


def test_many_searches_with_any_character_between_share_one_reading_of_the_text() -> None:
    compiled = compile_sql92(" OR ".join(f"s LIKE '%_h_{number}%'" for number in range(700)))

    def spent_s() -> float:
        started = time.thread_time()
        for letter in "abcdefghijklmnopqrst":
            compiled.evaluate({"s": letter + "h" * 1_023})
        return time.thread_time() - started

    assert min(spent_s(), spent_s()) < 0.5  # A garbage collection of the whole run may come between.


@pytest.mark.parametrize("text", ["'); import os #", "__import__('os')", "\n def f():", "{p}", "k0", '"""'])
def test_what_a_subscriber_writes_stays_a_value(text: str) -> None:
    """The index compares it; pickles name nothing but our own, and a snapshot is JSON."""
    literal = text.replace("'", "''")
    compiled = compile_sql92(f"a = '{literal}' AND b NOT IN ('{literal}') AND a LIKE '{literal}' AND n > 1")
    index = Sql92Index.build([(3, compiled)])
    rows, lines = json.loads(json.dumps(index.as_rows())), index.lines()
    for again in (index, Sql92Index.from_rows(lines, *rows)):
        assert again.match({"a": text, "b": "", "n": "2"}) == ([3], [])
        assert again.match({"a": text, "b": text, "n": "2"}) == ([], [])
    assert all(json.loads(line) for line in lines)
    strings = [argument for op, argument, _ in pickletools.genops(pickle.dumps(compiled, 2)) if op.name == "GLOBAL"]
    assert strings == ["tagcast.filters.sql92.expression restore"]
