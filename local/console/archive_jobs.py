"""Runs jobs over the archive, one at a time, on this machine or by Glue. Also reads single archived messages."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.ids import accepted_at_of
from tagcast.instant import rfc3339
from tagcast_cli.filters import filter_text
from tagcast_cli.job_run import (
    NOTHING_JUDGED,
    Archive,
    Days,
    JobError,
    Jobs,
    arguments_of,
    audit_arguments,
    backtest_arguments,
    check_spark,
    client_of,
    compacting,
    jobs_of,
)
from tagcast_client import NewMessage

from local.rules.limits import PRICES_USD

OBJECTS_READ_MAX = 400
LATE = timedelta(hours=1)
"""The maximum time from the acceptance of a message until it is in the archive."""
EARLY = timedelta(minutes=5)
"""Firehose names an object by its oldest record. That record is at most this much older than the message."""
GZIP = b"\x1f\x8b"


def archived_message(s3: Any, bucket: str, topic: str, message_id: str) -> NewMessage | None:
    """Return a message as published; None if the archive does not have all of it.

    The topic may archive no bodies, or an erasure or the retention may have removed a part of the message.
    """
    for content in _objects(s3, bucket, datetime.fromtimestamp(accepted_at_of(message_id) / 1000, UTC)):
        if message_id.encode() not in content:
            continue
        for line in content.splitlines():
            if message_id.encode() in line:
                record = json.loads(line)
                if record.get("topic") == topic and record.get("message_id") == message_id:
                    return _message(record)
    return None


def _objects(s3: Any, bucket: str, accepted_at: datetime) -> Iterator[bytes]:
    """Yield the contents of the archive's objects that may have a message accepted at *accepted_at*.

    They are those of the hours from ``EARLY`` before this instant to ``LATE`` after it, at most ``OBJECTS_READ_MAX``.
    """
    hours = (accepted_at, accepted_at - EARLY, accepted_at + LATE)
    listed = [
        each["Key"]
        for prefix in dict.fromkeys(f"raw/messages/dt={hour:%Y-%m-%d}/hour={hour:%H}/" for hour in hours)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for each in page.get("Contents", ())
    ]
    for key in listed[:OBJECTS_READ_MAX]:
        content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        yield gzip.decompress(content) if content.startswith(GZIP) else content


def _message(record: dict[str, Any]) -> NewMessage | None:
    """Return the message of a record; None if a part is missing.

    >>> _message({"body_base64": "aGk=", "body_is_text": True, "tags": ["a"]}).body
    'hi'
    """
    body: str | bytes | None = record.get("body")
    if (encoded := record.get("body_base64")) is not None:
        octets = base64.b64decode(encoded)
        body = octets.decode() if record.get("body_is_text") else octets
    if body is None or record.get("hashes"):
        return None
    others = json.loads(record.get("attributes") or "{}")
    return NewMessage.like({**record, **others}, body)


JOBS: Mapping[str, str] = {"audit": "audit", "report": "delivery_report", "backtest": "backtest"}
"""The jobs that a page may start, with their programs."""
LOOK_S = 5.0
PREPARED_S = 240.0
"""A preparation is not repeated within this time. Spark runs for five minutes after it, so a minute is left."""
GLUE_USD_A_MINUTE = 2 * PRICES_USD["glue: a DPU-hour"] / 60
"""The price of a minute with two workers, the template's default."""
ARCHIVE = "ArchiveBucketName"
"""The stack output with the bucket's name."""
ENDED_WELL, UNDER_WAY = "SUCCEEDED", ("STARTING", "RUNNING", "WAITING", "STOPPING")
ProgressSink = Callable[[str], object]


@dataclass(frozen=True)
class JobOrder:
    """One job with its arguments. If *topic* is None, the job is about all topics.

    A backtest tries the filter *candidate*. If *subscription* is not None, the backtest compares *candidate* with the
    filter of this subscription.
    """

    job: str
    days: Days
    topic: str | None = None
    candidate: Mapping[str, Any] | None = None
    subscription: str | None = None

    @property
    def text(self) -> str:
        """A description of the job.

        >>> JobOrder("audit", Days.of("2026-11-01", "2026-11-02")).text
        'audit of all topics, from 2026-11-01 to 2026-11-02 (exclusive)'
        """
        text = f"{self.job} of {self.topic or 'all topics'}, from {self.days.first} to {self.days.end} (exclusive)"
        if self.job != "backtest":
            return text
        beside = f", compared with the filter of {self.subscription}" if self.subscription else ""
        return f"{text}, with {filter_text(self.candidate)}{beside}"

    @property
    def folder(self) -> str:
        """The name of the folder of the job's report. For a backtest, this is only the beginning of the name.

        >>> JobOrder("audit", Days.of("2026-11-01", "2026-11-03"), "orders").folder
        '2026-11-01_2026-11-02_orders'
        """
        first, last = self.days.first, self.days.end - timedelta(1)
        days = first.isoformat() if first == last else f"{first.isoformat()}_{last.isoformat()}"
        if self.job == "backtest":
            return f"{self.topic}_{days}"
        return days if self.topic is None else f"{days}_{self.topic}"

    def arguments(self, place: Archive) -> list[str]:
        """Return the job's command-line arguments for the archive *place*.

        If the archive is local, an audit's arguments say that the archive is complete up to now.
        """
        if self.job == "backtest":
            arguments = backtest_arguments(self.days, self.topic or "", self.candidate)
            return arguments + arguments_of(subscription=self.subscription)
        if self.job == "report":
            return self.days.arguments() + arguments_of(topic=self.topic)
        as_of = rfc3339(round(time.time() * 1000)) if place.is_local else None
        return audit_arguments(place, self.days, self.topic, as_of)


@dataclass(frozen=True)
class JobResult:
    """The result of a job. *page* is the path of its HTML report; None if it wrote none. *sentence* is a summary.

    *is_well* is False if the job failed, found violations, or had nothing to audit.
    """

    page: Path | None
    sentence: str
    is_well: bool = True


@dataclass
class LocalJobs:
    """Runs jobs over the archive of the local stack whose state is in *folder*.

    *jobs* executes the jobs. If it is None, the stack executes them in its Spark process.
    """

    folder: Path
    jobs: Jobs | None = None
    _prepared_s: float = -math.inf
    _running: Jobs | None = None
    _preparing: Jobs | None = None

    @property
    def means(self) -> str:
        """A sentence for the archive page. It says where jobs run, and how long Spark keeps running after a job."""
        return "Spark runs the job on this machine. It stays up for five minutes, so the next job starts faster."

    def prepare(self) -> None:
        """Let the stack start Spark and compact today's files, unless this was done in the last few minutes."""
        if self.jobs is not None or time.monotonic() - self._prepared_s < PREPARED_S:
            return
        self._prepared_s = time.monotonic()
        with suppress(JobError):  # The error is shown when a job starts.
            check_spark()
            place = Archive.of_stack(self.folder)
            self._preparing = jobs_of(place)
            self._preparing.run("compact", place, Days.of(None, None).arguments(), lambda text: None)

    def run(self, order: JobOrder, show: ProgressSink) -> JobResult:
        """Compact new files, run the job, and return its result. Call *show* with the progress. Raises JobError."""
        place = Archive.of_stack(self.folder)
        if self.jobs is None:
            check_spark()
        self._running = self.jobs or jobs_of(place)
        arguments = order.arguments(place)
        result = self._running.run(JOBS[order.job], place, arguments, show, first=compacting(place, order.days.first))
        uri = result.summary.get("html")
        page = None if uri is None else place.fetch(str(uri))
        return JobResult(page, verdict(order.job, result.code, result.summary), result.code == 0)

    def message(self, topic: str, message_id: str) -> NewMessage | None:
        """Return a message as published, from the stack's archive; None if it is incomplete. Raises JobError."""
        place = Archive.of_stack(self.folder)
        try:
            return archived_message(client_of(place.owner, "s3"), place.uri.removeprefix("s3://"), topic, message_id)
        except (BotoCoreError, ClientError) as fault:
            raise JobError(f"S3 of the local stack refused: {fault}") from fault

    def stop(self) -> None:
        """Stop the running job and the preparation."""
        for each in (self._preparing, self._running):
            if each is not None:
                each.stop()


def verdict(job: str, code: int, summary: Mapping[str, Any]) -> str:
    """Return a sentence about the result of a job. *code* is its exit code, and *summary* is the JSON that it printed.

    >>> verdict("audit", 0, {"judged": 12, "violations": 0}), verdict("audit", 3, {}), verdict("report", 0, {})
    ('No violations in 12 audited deliveries.', 'No deliveries to audit.', 'Done.')
    >>> verdict("audit", 1, {"job": "compact", "failed": "lanes", "file": "raw/lanes/1.gz"})
    'compact failed: raw/lanes/1.gz cannot be read.'
    """
    if code == NOTHING_JUDGED:
        return "No deliveries to audit."
    if code and "violations" not in summary:
        return f"{summary['job']} failed: {summary.get('detail') or str(summary.get('file')) + ' cannot be read'}."
    if job != "audit":
        return "Done."
    found = summary.get("violations", 0)
    if found:
        return "1 violation." if found == 1 else f"{found} violations."
    return f"No violations in {summary.get('judged')} audited deliveries."


@dataclass
class GlueJobs:
    """Runs the jobs of a deployed *stack* with Glue, and downloads their HTML reports from S3 to the folder *reports*.

    *url* is the HTTP API that the console shows. If it is not the API of *stack*, jobs fail. *client* returns an AWS
    client for a service's name. The state of a job is polled every *look_s* seconds.
    """

    stack: str
    url: str
    reports: Path
    client: Callable[[str], Any]
    look_s: float = LOOK_S
    _stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def means(self) -> str:
        """Sentences for the archive page. They say where jobs run, and what a minute costs."""
        return f"Glue runs the job for the stack {self.stack}. A minute costs about {GLUE_USD_A_MINUTE:.3f} USD."

    def run(self, order: JobOrder, show: ProgressSink) -> JobResult:
        """Start the job, poll until it ends, and fetch its report. Call *show* with the progress. Raises JobError."""
        from boto3.exceptions import Boto3Error

        try:
            return self._run(order, show)
        except (Boto3Error, BotoCoreError, ClientError) as fault:
            raise JobError(f"AWS refused: {fault}") from fault

    def prepare(self) -> None:
        """Do nothing, because a Glue run costs money."""

    def _run(self, order: JobOrder, show: ProgressSink) -> JobResult:
        bucket, glue = self._bucket(), self.client("glue")
        name = f"{self.stack}-{JOBS[order.job].replace('_', '-')}"
        words = order.arguments(Archive(f"s3://{bucket}"))
        began_at = datetime.now(UTC)
        run_id = glue.start_job_run(JobName=name, Arguments=dict(zip(words[::2], words[1::2], strict=True)))["JobRunId"]
        while (run := glue.get_job_run(JobName=name, RunId=run_id)["JobRun"])["JobRunState"] in UNDER_WAY:
            show(f"Glue: {run['JobRunState'].lower()}, {run.get('ExecutionTime', 0)} s")
            if self._stopped.wait(self.look_s):
                raise JobError(f"the console stopped waiting: the run {run_id} of {name} continues in Glue")
        page = self._page(bucket, order, began_at)
        if run["JobRunState"] == ENDED_WELL:
            return JobResult(page, "Done.")
        if page is None:
            raise JobError(f"Glue: {run['JobRunState'].lower()}: {run.get('ErrorMessage', 'see its log')}")
        return JobResult(page, str(run.get("ErrorMessage", "The job failed. See its report.")), is_well=False)

    def message(self, topic: str, message_id: str) -> NewMessage | None:
        """Return a message as published, from the deployment's archive; None if it is incomplete. Raises JobError."""
        try:
            return archived_message(self.client("s3"), self._bucket(), topic, message_id)
        except (BotoCoreError, ClientError) as fault:
            raise JobError(f"AWS refused: {fault}") from fault

    def _bucket(self) -> str:
        [found] = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        outputs = {each["OutputKey"]: str(each["OutputValue"]) for each in found.get("Outputs", ())}
        if outputs.get("Url", "").rstrip("/") != self.url.rstrip("/"):
            raise JobError(f"{self.url} is not the API of the stack {self.stack}. Name your stack with --stack")
        return outputs[ARCHIVE]

    def _page(self, bucket: str, order: JobOrder, began_at: datetime) -> Path | None:
        """Download the order's HTML report, if one was written since *began_at*. Return its path, or else None."""
        s3 = self.client("s3")
        prefix = f"reports/{order.job}/{order.folder}" + ("_" if order.job == "backtest" else "/")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        listed = [each for page in pages for each in page.get("Contents", ())]
        made = [each for each in listed if each["Key"].endswith(".html") and each["LastModified"] >= began_at]
        if not made:
            return None
        key = max(made, key=lambda each: each["LastModified"])["Key"]
        target = self.reports / str(key).removeprefix("reports/")
        target.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, key, str(target))
        return target

    def stop(self) -> None:
        """Stop waiting for the job. Glue continues it."""
        self._stopped.set()


Runner = LocalJobs | GlueJobs
"""Runs jobs. Its methods are called outside the event loop."""


@dataclass
class JobBoard:
    """Starts the console's jobs, and has the state of the last job, *order*; None before the first job.

    *progress* is the last text that the job reported. *ended* is the job's result; None while the job runs, and after a
    failure. *fault* is the job's error; empty without an error.
    """

    runner: Runner
    order: JobOrder | None = None
    began_at: datetime | None = None
    progress: str = ""
    ended: JobResult | None = None
    fault: str = ""
    _task: asyncio.Task[None] | None = None
    _preparing: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether a job is running."""
        return self._task is not None and not self._task.done()

    def start(self, order: JobOrder) -> bool:
        """Start a job. Return False if another job is running."""
        if self.runs:
            return False
        self.order, self.began_at, self.progress, self.ended, self.fault = order, datetime.now(UTC), "", None, ""
        self._task = asyncio.create_task(self._carry_out(order))
        return True

    async def _carry_out(self, order: JobOrder) -> None:
        try:
            self.ended = await asyncio.to_thread(self.runner.run, order, self._hear)
        except (JobError, OSError) as fault:
            self.fault = str(fault)

    def _hear(self, progress: str) -> None:
        self.progress = progress

    def prepare(self) -> None:
        """Let the runner prepare for a job, unless a job or a preparation is running."""
        if not self.runs and (self._preparing is None or self._preparing.done()):
            self._preparing = asyncio.create_task(asyncio.to_thread(self.runner.prepare))

    async def stop(self) -> None:
        """Stop the job and the preparation. A job that Glue runs continues there."""
        tasks = [each for each in (self._task, self._preparing) if each is not None]
        await asyncio.to_thread(self.runner.stop)
        await asyncio.gather(*tasks, return_exceptions=True)
