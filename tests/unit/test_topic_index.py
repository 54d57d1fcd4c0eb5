"""The index of a topic agrees with the plain rule: every filter evaluated one by one."""

import json
import random

import pytest
from tagcast.errors import FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput
from tagcast.filters.index.parted_index import (
    PartedIndex,
    from_snapshot,
    join_snapshots,
    parts_of,
    unindexed_characters,
)
from tagcast.filters.index.sql92_index import Sql92Index
from tagcast.filters.index.topic_index import Matched, SnapshotError, TopicIndex
from tagcast.filters.kinds import compile_filter
from tagcast.filters.sql92 import cell, compile_sql92

from tests.unit.test_filters import Message

TAGS = [*(f"t{n}" for n in range(5)), "xff", "1,2", "#"]
NAMES = ["x", "y", "__class__", "n", "TAGS"]
TEXTS = ["'u'", "'t1'", "'v'", "''", "'5'", "'true'"]
NUMBERS = ["5", "-1", "2.5", "7", "5.0", "100", "9007199254740993", "9007199254740992"]


def expression(dice: random.Random, depth: int, strict: bool) -> str:
    shape = dice.random()
    if depth and shape < 0.45:
        word = dice.choice(["AND", "OR"])
        return f"({expression(dice, depth - 1, strict)} {word} {expression(dice, depth - 1, strict)})"
    if depth and shape < 0.55:
        return f"NOT ({expression(dice, depth - 1, strict)})"
    name, other, text, number = (dice.choice(words) for words in (NAMES, NAMES, TEXTS, NUMBERS))
    pattern = dice.choice(["_%", "u", "u%", "%u", "%0%", "%", "x_0", "_1%0", ""])
    only_strict = [f"{name} LIKE '{pattern}'", f"{name} NOT LIKE '{pattern}'", f"-{name} > 1"]
    return dice.choice(
        [
            f"{name} = {text}",
            f"{name} <> {text}",
            f"{text} = {name}",
            f"{name} IN ('u', '5', {text})",
            f"{name} NOT IN ('u', {text})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} = {number}",
            f"{name} <> {number}",
            f"{number} = {name}",
            f"{name} {dice.choice(['<', '>', '<=', '>='])} {number}",
            f"{name} BETWEEN 1 AND 5",
            f"{name} NOT BETWEEN 1 AND 5.5",
            f"{name} = {other}",
            f"{name} < {other}",
            f"{name} = TRUE",
            name,
            f"{name} CONTAINS 'u'",
            f"{name} NOT STARTSWITH 'v'",
            f"{name} {dice.choice(['', 'NOT '])}{dice.choice(['STARTSWITH', 'ENDSWITH', 'CONTAINS'])} {text}",
            f"({name} = {number}) = ({other} = {text})",
            "TRUE",
            "NULL",
            *(only_strict if strict else []),
        ]
    )


def some_filter(dice: random.Random) -> CompiledFilter:
    kind = dice.random()
    if kind < 0.05:
        return compile_filter(None)
    if kind < 0.2:
        return compile_filter({"kind": "tags", "tags": dice.sample(TAGS, dice.randint(0, 3))})
    if kind < 0.25:
        return compile_filter({"kind": "tags", "tags": dice.sample(TAGS, dice.randint(0, 3)), "match": "all"})
    if kind < 0.3:
        pattern = {dice.choice(NAMES): [dice.choice([{"exists": False}, {"prefix": "x"}, {"anything-but": "u"}, "v"])]}
        return compile_filter(
            {"kind": "event_pattern", "pattern": pattern, "scope": dice.choice(["properties", "body"])}
        )
    if kind < 0.35:
        text = dice.choice(["*", "t1 || t2", "t3"])
        return compile_filter({"kind": "tag_expression", "expression": text})
    if kind < 0.55:
        patterns = [".".join(dice.choices("abc*#", k=dice.randint(1, 4))) for _ in range(dice.randint(1, 3))]
        return compile_filter({"kind": "routing_key", "patterns": patterns})
    if kind < 0.57:
        return compile_filter({"kind": "function", "function": "rate"})
    strict = dice.random() < 0.6
    while True:
        text = expression(dice, 3, strict)
        dialect = "strict" if strict else "rocketmq"
        try:
            return compile_filter({"kind": "sql92", "expression": text, "dialect": dialect})
        except InvalidFilterError:
            continue


def some_message(dice: random.Random) -> Message:
    values = ["u", "v", "", "5", "5.0", "-1", "true", "7", "x100", "NaN", "-0.0", "1e400", "99999999999", " 7"]
    properties = {name: dice.choice(values) for name in NAMES if dice.random() < 0.7}
    key = ".".join(dice.choices("abcd", k=dice.randint(1, 4)))
    return Message(tuple(dice.sample(TAGS, dice.randint(0, 4))), dice.choice([None, key]), properties)


def one_by_one(filters: dict[int, CompiledFilter], message: FilterInput) -> Matched:
    received, failed = [], []
    for ordinal in sorted(filters):
        try:
            if filters[ordinal].evaluate(message) is True:
                received.append(ordinal)
        except FilterEvaluationError:
            failed.append(ordinal)
    return Matched(tuple(received), tuple(failed))


def compare_on_generated_topics(dice: random.Random, topics: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compare them; the number of failed evaluations. Every other topic tests few expressions together, too."""
    failures = 0
    for topic in range(topics):
        monkeypatch.setattr(cell, "ONE_BY_ONE_MAX", topic % 2 * 3)
        filters = {dice.randrange(1_000_000): some_filter(dice) for _ in range(dice.choice([1, 2, 5, 12]))}
        whole = TopicIndex.build(filters)
        index: TopicIndex | PartedIndex = whole
        if topic % 5 == 0:
            index = from_snapshot(whole.to_snapshot())
        elif topic % 10 == 1:
            parts = parts_of({ordinal: value.as_json() for ordinal, value in filters.items()}, dice.randrange(2_000))
            index = from_snapshot(join_snapshots([TopicIndex.build(part.filters).to_snapshot() for part in parts]))
        for _ in range(4):
            message = some_message(dice)
            expected = one_by_one(filters, message)
            assert index.match(message) == expected, (filters, message)
            failures += len(expected.errors)
    return failures


def test_an_expression_counts_for_the_bound_of_its_topic_if_its_index_keeps_its_text() -> None:
    dice = random.Random(3)
    counted = 0
    for place in range(400):
        strict = place % 2 == 0
        text = expression(dice, 3, strict)
        value: dict[str, object] = {
            "kind": "sql92",
            "expression": text,
            "dialect": "strict" if strict else "rocketmq",
        }
        _, texts, *_ = Sql92Index.build([(0, compile_sql92(text, str(value["dialect"])))]).as_rows()
        assert unindexed_characters(value) == (len(text) if texts else 0)
        counted += bool(texts)
    assert 100 < counted < 300


def test_index_and_rule_agree_on_generated_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_on_generated_topics(random.Random(10_000), 5_000, monkeypatch) > 100


@pytest.mark.benchmark
def test_index_and_rule_agree_on_many_more_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_on_generated_topics(random.Random(20_000), 20_000, monkeypatch) > 100


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.nightly) for each in (1, 2))])
def test_index_and_rule_agree_on_a_large_topic(seed: int) -> None:
    dice = random.Random(seed)
    filters = {ordinal: some_filter(dice) for ordinal in range(2_000)}
    index = TopicIndex.from_snapshot(TopicIndex.build(filters).to_snapshot())
    for _ in range(25):
        message = some_message(dice)
        assert index.match(message) == one_by_one(filters, message)


def test_in_rocketmq_a_part_that_fails_hides_one_behind_it_that_is_true() -> None:
    value = {"kind": "sql92", "expression": "n > 5 OR a = 'x'", "dialect": "rocketmq"}
    index = TopicIndex.from_snapshot(TopicIndex.build({1: value, 2: None}).to_snapshot())
    assert index.match(Message((), None, {"n": "many", "a": "x"})) == Matched((2,), (1,))
    assert index.match(Message((), None, {"n": "1", "a": "x"})) == Matched((1, 2), ())


@pytest.mark.parametrize("literal", ["10e308", "0.5e-308", "0.0e-308", f"0.{'0' * 400}1"])
@pytest.mark.parametrize("few", [0, 3])
def test_a_literal_whose_normal_form_has_a_larger_exponent_is_restored(
    literal: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "ONE_BY_ONE_MAX", few)
    texts = [f"n {sign} {literal}" for sign in ("<", ">", "<>", "=")]
    filters = {n: compile_filter({"kind": "sql92", "expression": text}) for n, text in enumerate(texts)}
    index = TopicIndex.build(filters)
    for each in (index, TopicIndex.from_snapshot(index.to_snapshot())):
        for number in ("7", "0", literal):
            message = Message((), None, {"n": number})
            assert each.match(message) == one_by_one(filters, message)


@pytest.mark.parametrize("dialect", ["strict", "rocketmq"])
def test_no_expression_makes_a_snapshot_much_larger_than_itself(dialect: str) -> None:
    values = ", ".join(f"'v{n}'" for n in range(400))
    many = " AND ".join(f"(a{n} = 'x' OR b{n} > 5 OR c{n} IN ('v1', 'v2'))" for n in range(60))
    for text in (
        f"a IN ({values}) AND b IN ({values})",
        many,
        many.replace(" OR ", " AND ").replace(") AND (", ") OR ("),
    ):
        snapshot = TopicIndex.build({n: {"kind": "sql92", "expression": text, "dialect": dialect} for n in (1, 2)})
        assert len(snapshot.to_snapshot()) < 16 * len(text)


def test_a_topic_without_subscriptions_matches_nobody() -> None:
    empty = TopicIndex.from_snapshot(TopicIndex.build({}).to_snapshot())
    assert empty.match(Message(("t1",), "a", {"x": "u"})) == Matched((), ())


def test_a_snapshot_is_json_and_a_part_of_it_or_another_format_is_refused() -> None:
    snapshot = TopicIndex.build({1: {"kind": "sql92", "expression": "a = 'x'"}}).to_snapshot()
    head, entry = map(json.loads, snapshot.splitlines())
    assert (head[2], entry) == ([[1, 1]], [[0, [[1], [], None]]])
    parted = join_snapshots([snapshot, snapshot])
    cut = [whole[:end] for whole in (snapshot, parted) for end in range(len(whole))]
    for other in (*cut, b"[]", b"7", b"\x80\x04", b'["tagcast-topic-index-6",0,[],[],[],[],null]\n'):
        with pytest.raises(SnapshotError):
            from_snapshot(other)


def test_two_tags_that_many_want_reach_all_who_want_either() -> None:
    filters = {ordinal: {"kind": "tags", "tags": [f"t{ordinal % 2}"]} for ordinal in range(400)}
    index = TopicIndex.build(filters)

    assert index.match(Message(("t0", "t1"), None, {})).ordinals == tuple(range(400))
    assert index.match(Message(("t1",), None, {})).ordinals == tuple(range(1, 400, 2))
