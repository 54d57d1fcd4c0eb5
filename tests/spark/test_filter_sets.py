"""Filters in Spark say what the core says: one by one, and by the set."""

import base64
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tagcast.errors import FilterEvaluationError
from tagcast.filters.kinds import compile_filter

from glue_jobs.auditing.filter_set import FilterSet
from glue_jobs.io.messages_read import Seen
from glue_jobs.measuring import filter_sets

MESSAGES, PAIRS_MIN = 600, 100_000
TAGS = ("apple", "pear", "imac", "Aa", "BB", "café", "a b", "x" * 64)
WORDS = ("order", "audit", "eu", "us", "new")
SCHEMA = "hour bigint, tags array<string>, routing_key string, properties map<string,string>"


def drawn_messages(dice: random.Random) -> list[tuple[int, list[str] | None, str | None, dict[str, str] | None]]:
    made = []
    for _ in range(MESSAGES):
        absent: list[list[str] | None] = [None, []]
        tags: list[str] | None = dice.sample(TAGS, dice.randrange(4))
        if not tags:
            tags = dice.choice(absent)
        key = ".".join(dice.choices(WORDS, k=dice.randrange(1, 4))) if dice.random() < 0.7 else None
        values = ("80", "120", "1e2", "-3", "abc", "", "true", "eu", "us", "0x10")
        names = dice.sample(("price", "region", "flag", "n"), dice.randrange(5))
        properties = {name: dice.choice(values) for name in names} or None
        made.append((dice.randrange(3) * 3_600_000, tags, key, properties))
    return made


def drawn_filters(dice: random.Random) -> list[dict[str, Any] | None]:
    expressions = (
        "price > 100", "price <= {n}", "region = 'eu'", "region IN ('eu', 'us') AND price > {n}", "NOT flag = TRUE",
        "n IS NULL OR price BETWEEN 1 AND {n}", "region LIKE 'e%'", "price = n", "flag", "region <> 'eu'",
    )  # fmt: skip
    quirks = ("price > 100", "a = 1 garbage", "region CONTAINS 'e'", "price > 1.5", "flag = TRUE", "NOT price = 1")
    made: list[dict[str, Any] | None] = [None]
    for _ in range(60):
        made.append({"kind": "tags", "tags": dice.sample(TAGS, dice.randrange(4))})
        made.append({"kind": "tag_expression", "expression": " || ".join(dice.sample(TAGS[:6], dice.randrange(1, 4)))})
        words = [*WORDS, "*", "#", "*"]
        patterns = [".".join(dice.choices(words, k=dice.randrange(1, 4))) for _ in range(dice.randrange(1, 3))]
        made.append({"kind": "routing_key", "patterns": patterns})
        text = dice.choice(expressions).replace("{n}", str(dice.randrange(200)))
        made.append({"kind": "sql92", "expression": text})
    made += [{"kind": "sql92", "expression": text, "dialect": "rocketmq"} for text in quirks]
    return made


@pytest.fixture(scope="module")
def drawn() -> tuple[list[Any], list[dict[str, Any] | None]]:
    dice = random.Random(20261121)
    return drawn_messages(dice), drawn_filters(dice)


@pytest.fixture(scope="module")
def messages(spark: SparkSession, drawn: tuple[list[Any], Any]) -> DataFrame:
    rows = spark.createDataFrame(drawn[0], SCHEMA).withColumn("hashes", sql.lit(None).cast("map<string,string>"))
    return rows.repartition(2).cache()


def test_spark_counts_what_the_core_says_one_by_one(drawn: tuple[list[Any], Any], messages: DataFrame) -> None:
    rows, values = drawn
    assert len(rows) * len(values) >= PAIRS_MIN
    matched: Counter[tuple[int, int]] = Counter()
    failed: Counter[tuple[int, int]] = Counter()
    compiled = [compile_filter(value) for value in values]
    for hour, tags, key, properties in rows:
        seen = Seen(tuple(tags or ()), key, properties or {})
        for number, each in enumerate(compiled):
            try:
                matched[hour, number] += each.evaluate(seen) is True
            except FilterEvaluationError:
                failed[hour, number] += 1
    found = filter_sets.matches(messages, FilterSet.of(values)).collect()
    assert {(row.hour, row.candidate): row.matched for row in found if row.matched} == {
        k: n for k, n in matched.items() if n
    }
    assert {(row.hour, row.candidate): row.failed for row in found if row.failed} == dict(failed)
    assert failed


def test_no_plan_grows_with_messages_times_filters(messages: DataFrame) -> None:
    values = [{"kind": "tags", "tags": [f"t{n}"]} for n in range(50)]
    plan = str(filter_sets.matches(messages, FilterSet.of(values))._jdf.queryExecution().executedPlan().toString())
    assert "MapInArrow" in plan or "PythonMapInArrow" in plan
    for word in ("CartesianProduct", "BroadcastNestedLoopJoin", "SortAggregate"):
        assert word not in plan


def test_only_what_filters_read_tells_messages_apart(messages: DataFrame) -> None:
    only = FilterSet.of([{"kind": "tags", "tags": ["apple"]}])
    assert filter_sets.distinct_sets(messages, only).count() == 2


def test_messages_without_what_a_filter_reads_are_counted_apart(spark: SparkSession) -> None:
    """A body that was never archived, and parts that an erasure or their age took."""
    pattern = {"price": [7]}
    values: list[dict[str, Any] | None] = [
        {"kind": "event_pattern", "pattern": pattern},
        {"kind": "event_pattern", "pattern": {"detail": pattern, "source": ["shop"]}, "scope": "envelope"},
        {"kind": "event_pattern", "pattern": {"a.b": ["x"]}, "scope": "properties"},
        None,
        {"kind": "tags", "tags": ["t"]},
        {"kind": "sql92", "expression": "price is null"},
    ]
    coded = base64.b64encode(b'{"price": 7}').decode()
    rows = [
        (1, ["t"], None, {"source": "shop"}, '{"price": 7}', None, None),
        (1, ["t"], None, {"source": "other"}, None, coded, None),
        (1, ["t"], None, {"a.b": "x"}, "no JSON", None, None),
        (1, ["t"], None, {"a.b": "x"}, None, None, None),
        (1, ["t"], None, {}, None, None, None),
        (1, ["t"], None, {"a.b": "x"}, None, None, {"body": "h"}),
        (1, ["t"], None, None, '{"price": 7}', None, {"properties": "h"}),
        (1, None, None, None, None, None, {"body": "h", "properties": "h", "keys": "h"}),
    ]
    messages = spark.createDataFrame(rows, f"{SCHEMA}, body string, body_base64 string, hashes map<string,string>")
    found = filter_sets.matches(messages, FilterSet.of(values)).collect()
    assert {row.candidate: (row.matched, row.failed, row.unjudged) for row in found} == {
        0: (3, 0, 4),
        1: (1, 0, 5),
        2: (3, 0, 2),
        3: (8, 0, 0),
        4: (7, 0, 1),
        5: (6, 0, 2),
    }
