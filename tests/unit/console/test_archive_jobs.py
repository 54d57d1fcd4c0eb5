"""Jobs over the archive that are started from a page; the program that is started is a small one."""

import asyncio
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from boto3.exceptions import Boto3Error, RetriesExceededError
from botocore.exceptions import ClientError
from tagcast_cli import job_run
from tagcast_cli.app import app
from tagcast_cli.job_run import Days, JobError, Result
from typer.testing import CliRunner

from glue_jobs.io.arguments import Window
from local.console import server
from local.console.archive_jobs import GlueJobs, JobBoard, JobOrder
from tests.unit.console.visitor import Seen, Visitor

STACK = {
    "jobs": {"port": 1, "token": ""},
    "owner_environment": {},
    "engine_url": "http://127.0.0.1:1",
    "outputs": {"ArchiveBucketName": "kept"},
    "time_scale": 10.0,
}
DAYS = {"from": "2026-11-01", "to": "2026-11-02"}


@pytest.fixture
def stack(visitor: Visitor) -> Visitor:
    """A console whose stack runs."""
    visitor.desk.reports.parent.joinpath("stack.json").write_text(json.dumps(STACK))
    return visitor


def started(visitor: Visitor, **asked: str) -> Seen:
    """What the page says once the job that was started as the form asks has ended."""
    preview = visitor.get("/archive/job?" + "&".join(f"{name}={text}" for name, text in {**DAYS, **asked}.items()))
    fields = {
        name: preview.field(name) for name in ("job", "from", "to", "topic", "subscription", "kind", "text", "dialect")
    }
    assert visitor.act("/archive/job", fields).location == "/archive"
    return ended(visitor)


def ended(visitor: Visitor) -> Seen:
    until = time.monotonic() + 60
    while "in progress" in (seen := visitor.get("/archive")).text and time.monotonic() < until:
        time.sleep(0.02)
    return seen


def test_a_job_is_told_of_then_started_and_leaves_a_page_that_is_read(stack: Visitor) -> None:
    told = stack.get("/archive/job?job=audit&topic=orders&from=2026-11-01&to=2026-11-02").text
    assert "audit of orders, from 2026-11-01 to 2026-11-02 (exclusive)" in told
    assert not list(stack.desk.reports.rglob("*"))

    seen = started(stack, job="audit", topic="orders")

    assert "No violations in 12 audited deliveries." in seen.text
    assert 'href="/archive/audit/day/index.html">Open report' in seen.text
    assert 'data-live="0"' in seen.text
    page = stack.get("/archive/audit/day/index.html")
    assert "--topic orders" in page.text
    assert "--time-scale 10" in page.text


def test_a_backtest_has_a_topic_and_a_filter(stack: Visitor) -> None:
    assert "A backtest needs a topic." in stack.get("/archive/job?job=backtest").text

    started(stack, job="backtest", topic="orders", kind="sql92", text="price > 100", subscription="mailer")

    page = stack.get("/archive/backtest/day/index.html").text
    assert '{"kind": "sql92", "expression": "price > 100", "dialect": "strict"}' in page
    assert "--subscription mailer" in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"job": "replay"}, "Unknown job"), ({"job": "audit", "from": "1.11.2026"}, "2026-11-20"),
     ({"job": "report", "from": "2026-11-02"}, "later"), ({"job": "backtest", "topic": "t", "kind": "json"}, "JSON")],
)  # fmt: skip
def test_what_is_no_job_is_said_and_not_started(stack: Visitor, asked: dict[str, str], said: str) -> None:
    refused = stack.act("/archive/job", {**DAYS, **asked})

    assert (refused.status, said in refused.text) == (409, True)
    assert stack.desk.jobs.order is None


def test_a_failure_is_seen_with_what_was_said_last(stack: Visitor) -> None:
    seen = started(stack, job="report", topic="broken").text

    assert "The job failed." in seen
    assert "the archive has &lt;no&gt; such day" in seen


def test_a_violation_is_no_calm_sentence(stack: Visitor) -> None:
    seen = started(stack, job="audit", topic="violated").text

    assert 'role="alert"' in seen
    assert "2 violations" in seen


@pytest.mark.parametrize("job", ["audit", "report"])
def test_a_job_that_another_one_before_it_kept_from_running_says_so(stack: Visitor, job: str) -> None:
    seen = started(stack, job=job, topic="damaged").text

    assert 'role="alert"' in seen
    assert "compact failed: raw/1.gz cannot be read." in seen


def test_without_a_stack_it_is_said_how_to_get_one(visitor: Visitor) -> None:
    assert "make run" in started(visitor, job="audit").text


def test_one_job_runs_at_a_time_and_ends_with_the_console(stack: Visitor) -> None:
    assert stack.act("/archive/job", {**DAYS, "job": "audit", "topic": "slow"}).status == 303
    until = time.monotonic() + 60
    while "reading what was archived" not in stack.get("/archive").text:
        assert time.monotonic() < until

    assert "Another job is in progress: audit" in stack.get("/archive/job?job=report").text
    assert stack.act("/archive/job", {**DAYS, "job": "report"}).status == 409
    # The fixture closes the console, which has to end the job: otherwise this never returns.


def test_nothing_is_started_without_the_token_of_a_page(stack: Visitor) -> None:
    assert stack.post("/archive/job", {**DAYS, "job": "audit"}).status == 403
    assert stack.desk.jobs.order is None


class FakeAws:
    """Glue, S3 and CloudFormation of one stack: a job runs for two looks, then ends in *state*."""

    def __init__(self, state: str, error: str | None = None) -> None:
        self.states = ["STARTING", "RUNNING", state]
        self.error = error
        self.started: list[tuple[str, dict[str, str]]] = []
        now = datetime.now(UTC)
        self.pages = {"reports/audit/2026-11-01_orders/old.html": now - timedelta(1)}
        self.made = {
            "reports/audit/2026-11-01_orders/index.html": now + timedelta(seconds=30),
            "reports/audit/2026-11-01/index.html": now + timedelta(seconds=31),
        }

    def __call__(self, service: str) -> Any:
        return self

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803
        if StackName != "mine":
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "no such stack"}}, "DescribeStacks")
        outputs = {"ArchiveBucketName": "kept", "Url": URL}
        return {"Stacks": [{"Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]}]}

    def start_job_run(self, JobName: str, Arguments: dict[str, str]) -> Any:  # noqa: N803
        self.started.append((JobName, Arguments))
        return {"JobRunId": "jr_1"}

    def get_job_run(self, JobName: str, RunId: str) -> Any:  # noqa: N803
        state = self.states.pop(0)
        if not self.states and state != "ERROR":
            self.pages |= self.made
        return {"JobRun": {"JobRunState": state, "ExecutionTime": 7, "ErrorMessage": self.error or ""}}

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, Bucket: str, Prefix: str) -> Any:  # noqa: N803
        listed = [{"Key": key, "LastModified": at} for key, at in self.pages.items() if key.startswith(Prefix)]
        return [{"Contents": [each]} for each in listed] + [{}]

    def download_file(self, bucket: str, key: str, target: str) -> None:
        Path(target).write_text(f"{bucket} {key}")


URL = "https://mine.execute-api.eu-west-1.amazonaws.com"
ORDER = JobOrder("audit", Days.of("2026-11-01", "2026-11-02"), "orders")


@pytest.mark.parametrize(("state", "is_well"), [("SUCCEEDED", True), ("FAILED", False)])
def test_glue_runs_the_jobs_of_a_deployment_and_their_pages_come_from_its_bucket(
    tmp_path: Path, state: str, is_well: bool
) -> None:
    aws, said = FakeAws(state, "2 violations"), list[str]()

    found = GlueJobs("mine", f"{URL}/", tmp_path, aws, look_s=0).run(ORDER, said.append)

    assert aws.started == [("mine-audit", {"--from": "2026-11-01", "--to": "2026-11-02", "--topic": "orders"})]
    assert said == ["Glue: starting, 7 s", "Glue: running, 7 s"]
    assert found.is_well is is_well
    assert found.page == tmp_path / "audit/2026-11-01_orders/index.html"
    assert found.page.read_text() == "kept reports/audit/2026-11-01_orders/index.html"


@pytest.mark.parametrize("end", ["2026-11-02", "2026-11-04"])
def test_a_report_is_looked_for_where_the_job_writes_it(end: str) -> None:
    days = Days.of("2026-11-01", end)
    assert JobOrder("report", days).folder == Window(days.first, days.end).label


@pytest.mark.parametrize(
    "fault",
    [
        ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, "HeadObject"),
        RetriesExceededError(Boto3Error()),
    ],
)
def test_a_report_that_cannot_be_downloaded_is_a_failure_with_its_reason(
    stack: Visitor, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    class NoReport:
        def download_file(self, *asked: str) -> None:
            raise fault

    class Done:
        def run(self, *asked: object, **more: object) -> Result:
            return Result({"html": "s3://kept/reports/report/day/index.html"}, 0)

        def stop(self) -> None:
            """Nothing runs."""

    monkeypatch.setattr(job_run, "client_of", lambda *asked: NoReport())
    monkeypatch.setattr(stack.desk.jobs.runner, "jobs", Done())
    seen = started(stack, job="report").text
    assert "The job failed." in seen
    assert "cannot download the report" in seen


def test_a_job_of_glue_that_leaves_no_page_failed_and_says_why(tmp_path: Path) -> None:
    jobs = GlueJobs("mine", f"{URL}/", tmp_path, FakeAws("ERROR", "no memory"), look_s=0)
    with pytest.raises(JobError, match="no memory"):
        jobs.run(ORDER, lambda said: None)
    with pytest.raises(JobError, match="no such stack"):
        GlueJobs("other", URL, tmp_path, FakeAws("SUCCEEDED")).run(ORDER, lambda said: None)


async def test_the_console_ends_at_once_while_glue_goes_on(tmp_path: Path) -> None:
    board = JobBoard(GlueJobs("mine", URL, tmp_path, FakeAws("SUCCEEDED"), look_s=600))

    assert board.start(ORDER)
    while "starting" not in board.progress:
        await asyncio.sleep(0.01)
    await board.stop()
    assert board.fault == "the console stopped waiting: the run jr_1 of mine-audit continues in Glue"


def test_no_job_reads_the_archive_of_another_stack(tmp_path: Path) -> None:
    aws = FakeAws("SUCCEEDED")
    jobs = GlueJobs("mine", "https://other.execute-api.eu-west-1.amazonaws.com", tmp_path, aws)
    with pytest.raises(JobError, match="is not the API of the stack mine"):
        jobs.run(ORDER, lambda said: None)
    with pytest.raises(JobError, match="is not the API"):
        jobs.message("orders", "1")
    assert aws.started == []


def test_the_console_writes_files_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(*asked: object) -> int:
        (tmp_path / "report.html").write_text("a message")
        return 0

    monkeypatch.setattr(server, "serve", write)
    before = os.umask(0o022)
    try:
        assert CliRunner().invoke(app, ["console"]).exit_code == 0
    finally:
        os.umask(before)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o600
