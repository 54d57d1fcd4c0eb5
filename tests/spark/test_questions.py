"""The questions of `events/athena/` have the answers beside them, on the tables as the template declares them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from glue_jobs import compact, delivery_report
from tests.spark.conftest import Bucket
from tests.spark.story import DAY, LIFE_MS, NOON, Record, end, lane, message, settings, wait
from tests.template import declared

ROOT = Path(__file__).parents[2]
QUESTIONS = sorted((ROOT / "events" / "athena").glob("*.sql"), key=lambda path: path.stem)
RESOURCES: dict[str, Any] = declared()
TABLES = {
    each["Properties"]["TableInput"]["Name"]: each["Properties"]["TableInput"]["StorageDescriptor"]["Columns"]
    for each in RESOURCES.values()
    if each["Type"] == "AWS::Glue::Table"
}
DOCUMENT = (ROOT / "docs" / "archive.md").read_text()
REPORTS = {"delivery_report_hours": "reports/report/hours", "audit_violations": "reports/audit/violations"}
SPARK_ONLY = {"unmatched-tags"}
"""DuckDB has other names for functions of arrays."""
HOUR_MS = 3_600_000


def story() -> dict[str, list[Record]]:
    """Fruit has an eager subscription and one that fails, vegetables one that is closed for long."""
    some = [message(n, at=NOON + n * 60_000, matched=(0, 1) if n < 3 else (0,)) for n in range(4)]
    lost, late, nobody = some[0], some[1], message(9, at=NOON + HOUR_MS, tags=["plum", "red"], matched=())
    leek = message(1, "vegetables", at=NOON + 2 * HOUR_MS)
    held = [wait(lost, 1, attempts=n, after_ms=60_000 * n) for n in (1, 2)]
    held.append(wait(lost, 1, attempts=1, position=7, after_ms=60_000))  # It moved in its backlog.
    ends = [end(each, after_ms=100 * (n + 1)) for n, each in enumerate(some)]
    ends += [
        end(lost, 1, "discarded", attempts=3, after_ms=180_000, outcome="http 503"),
        wait(late, 1, position=1), end(late, 1, "expired", after_ms=LIFE_MS),
        wait(some[2], 1, position=2), end(some[2], 1, attempts=1, after_ms=2 * HOUR_MS),
        end(leek, attempts=1, after_ms=5 * HOUR_MS + 1_000, outcome="http 204"),
    ]  # fmt: skip
    lanes = [
        lane("fruit", NOON + 60_000, ordinal=1), lane("fruit", NOON + 7_260_000, "active", "blocked", ordinal=1),
        lane("vegetables", NOON + 2 * HOUR_MS), lane("vegetables", NOON + 7 * HOUR_MS, "active", "blocked"),
    ]  # fmt: skip
    names = [settings("fruit", 0), settings("fruit", 1), settings("fruit", 1, version=2), settings("vegetables", 0)]
    return {"messages": [*some, nobody, leek], "deliveries": [*held, *ends], "subscriptions": names, "lanes": lanes}


def files_of(bucket: Bucket, name: str) -> list[str]:
    """Return the files of a table, as Athena finds them."""
    if name in REPORTS:
        return [f"{bucket.uri}/{key}" for key in bucket.keys(REPORTS[name]) if key.endswith(".parquet")]
    found = [key for key in bucket.keys(f"curated/{name}/manifest/") if key.endswith("/files")]
    return [uri.removeprefix("file://") for key in found for uri in bucket.text(key).split()]


@pytest.fixture(scope="module")
def asked(spark: SparkSession, new_bucket: Callable[[], Bucket]) -> Iterator[dict[str, Callable[..., Any]]]:
    """Two engines that know the tables by the columns and types of the template, and nothing else."""
    bucket, duck = new_bucket(), duckdb.connect()
    for kind, records in story().items():
        bucket.put(kind, DAY, records)
    given = ["--archive", bucket.uri, "--date", DAY]
    assert compact.main(given) == 0
    assert delivery_report.main(given) == 0
    for name, columns in TABLES.items():
        if files := files_of(bucket, name):
            declared = ", ".join(f"{column['Name']} {column['Type']}" for column in columns)
            day = re.escape("/dt=") + r"(\d{4}-\d{2}-\d{2})/"
            rows = spark.read.schema(declared).parquet(*files)
            rows.selectExpr("*", f"regexp_extract(_metadata.file_path, r'{day}', 1) as dt").createOrReplaceTempView(
                name
            )
            casts = ", ".join(
                f'cast("{each["Name"]}" as {in_duckdb(each["Type"])}) as "{each["Name"]}"' for each in columns
            )
            place = f"read_parquet({files}, filename = true, hive_partitioning = false)"
            duck.execute(
                f"create view {name} as select {casts}, regexp_extract(filename, '{day}', 1) as dt from {place}"
            )

    def by_spark(text: str, values: list[str]) -> tuple[list[str], list[list[Any]]]:
        answer = spark.sql(text, args=values)
        return answer.columns, [list(row) for row in answer.collect()]

    def by_duckdb(text: str, values: list[str]) -> tuple[list[str], list[list[Any]]]:
        answer = duck.execute(text, values)
        return [each[0] for each in answer.description or ()], [list(row) for row in answer.fetchall()]

    def written(name: str) -> list[tuple[str, str]]:
        fields = spark.read.parquet(*files_of(bucket, name)).schema.fields
        return [(each.name, each.dataType.simpleString()) for each in fields]

    yield {"spark": by_spark, "duckdb": by_duckdb, "written": written}
    for name in TABLES:
        spark.catalog.dropTempView(name)


def in_duckdb(kind: str) -> str:
    """Return a type of Glue as DuckDB has it.

    >>> in_duckdb("array<struct<outcome:string,count:bigint>>"), in_duckdb("map<string,string>")
    ('struct("outcome" varchar, "count" bigint)[]', 'map(varchar, varchar)')
    """
    if kind.startswith("array<"):
        return f"{in_duckdb(kind[6:-1])}[]"
    if kind.startswith("struct<"):
        fields = (each.split(":") for each in kind[7:-1].split(","))
        return "struct({})".format(", ".join(f'"{name}" {in_duckdb(of)}' for name, of in fields))
    if kind.startswith("map<"):
        return f"map({', '.join(map(in_duckdb, kind[4:-1].split(',')))})"
    return {"string": "varchar"}.get(kind, kind)


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("engine", ["spark", "duckdb"])
def test_a_question_has_the_answer_that_stands_beside_it(
    asked: dict[str, Callable[..., Any]], engine: str, path: Path
) -> None:
    if engine == "duckdb" and path.stem in SPARK_ONLY:
        return
    expected = json.loads(path.with_suffix(".json").read_text())
    assert expected["rows"]
    columns, rows = asked[engine](path.read_text(), expected["parameters"])
    assert {"columns": columns, "rows": rows} == {name: expected[name] for name in ("columns", "rows")}


def test_a_subscription_without_a_record_is_in_the_answer_without_its_name() -> None:
    duck = duckdb.connect()
    duck.execute("create table subscriptions (topic varchar, ordinal int, subscription varchar)")
    ends = "('fruit', 0, 'http 503'), ('fruit', 1, 'http 503')"
    columns = "topic, ordinal, 'discarded' as state, outcome, 3 as attempts, '2026-11-20' as dt"
    duck.execute(f"create table deliveries as select {columns} from (values {ends}) as ends (topic, ordinal, outcome)")
    text = (ROOT / "events" / "athena" / "gave-up.sql").read_text()
    assert duck.execute(text, ["2026-11-20"]).fetchall() == [("fruit", None, "discarded", "http 503", 1, 3)] * 2


def test_a_question_mark_is_a_parameter() -> None:
    """Athena asks for as many values, wherever a question mark stands."""
    for path in QUESTIONS:
        assert path.read_text().count("?") == len(json.loads(path.with_suffix(".json").read_text())["parameters"])


def test_the_template_saves_these_questions_in_athena() -> None:
    saved = {
        each["Properties"]["Name"]: (each["Properties"]["Description"], each["Properties"]["QueryString"])
        for each in RESOURCES.values()
        if each["Type"] == "AWS::Athena::NamedQuery"
    }
    texts = {path.stem: path.read_text() for path in QUESTIONS}
    assert saved == {name: (text.partition("\n")[0].removeprefix("-- "), text) for name, text in texts.items()}


def test_the_document_has_a_row_for_each_question_with_its_parameters() -> None:
    rows = re.findall(
        r"^\| (.*) \| \[`([\w-]+)`\]\(\.\./events/athena/([\w-]+)\.sql\) \| (.*) \|$", DOCUMENT, re.MULTILINE
    )
    texts = {path.stem: path.read_text().splitlines()[:2] for path in QUESTIONS}
    assert {name: [f"-- {question}", *parameters(told)] for question, name, file, told in rows if name == file} == texts


def parameters(told: str) -> list[str]:
    return [f"-- Parameter{'s' * (', ' in told)}: {told}."]


@pytest.mark.parametrize("name", TABLES)
def test_the_document_describes_every_column_of_a_table(name: str) -> None:
    part = DOCUMENT.partition(f"### {name}\n")[2].partition("\n#")[0]
    described = re.findall(r"^\| `(\w+)` \| ([\w<>,:]+) \|", part, re.MULTILINE)
    assert described == [(column["Name"], column["Type"]) for column in TABLES[name]]


def test_the_report_writes_the_columns_that_are_declared(asked: dict[str, Callable[..., Any]]) -> None:
    assert asked["written"]("delivery_report_hours") == [
        (each["Name"], each["Type"]) for each in TABLES["delivery_report_hours"]
    ]
