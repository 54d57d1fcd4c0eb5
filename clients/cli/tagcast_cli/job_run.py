"""Runs one Spark job over an archive, in the local stack or in a separate process, and shows its progress."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from tagcast_client.operation import drop_none, query_of

from tagcast_cli import JOB_LINES_KEPT, JOB_PROGRESS, OTHERS, SPARK_STARTS, quote_job
from tagcast_cli.api_client import need

Link = Sequence[str]
"""A job and its arguments. An empty sequence stands for no job."""


class JobError(RuntimeError):
    """A job could not start, or failed. The error's text is the remedy, or the job's last output."""


def read_stack(folder: Path, otherwise: str) -> dict[str, Any]:
    """Return the addresses and credentials of the local stack that runs on *folder*. Raises JobError if none runs.

    The text of the error ends with *otherwise*, another remedy.
    """
    try:
        return dict(json.loads((folder / "stack.json").read_text()))
    except FileNotFoundError:
        start = f"no local stack runs on {folder}: start one with `make run`, give its folder with --data"
        raise JobError(f"{start}, or {otherwise}") from None


def client_of(owner: Mapping[str, str], service: Any, profile: str | None = None) -> Any:
    """Return a boto3 client of *service*, with the address and the credentials in *owner*.

    If *owner* is empty, the client calls AWS with the credentials of *profile*.
    """
    import boto3

    return boto3.Session(profile_name=profile).client(
        service,
        endpoint_url=owner.get("AWS_ENDPOINT_URL"),
        region_name=owner.get("AWS_DEFAULT_REGION"),
        aws_access_key_id=owner.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=owner.get("AWS_SECRET_ACCESS_KEY"),
    )


NOTHING_JUDGED = 3
"""The exit code of an audit without deliveries to check."""


@dataclass(frozen=True)
class Archive:
    """The archive at *uri*. *environment* has variables for its jobs. *reports* is the folder for downloaded reports.

    *time_scale* is the factor by which the archive's stack shortens waits. Only an archive of a local stack has *owner*
    and *session*. *owner* has the address of the local AWS and the credentials of the stack's owner. *session* has the
    port and the token for jobs in the stack.
    """

    uri: str
    environment: dict[str, str] = field(default_factory=dict)
    reports: Path = Path(".tagcast/reports")
    time_scale: float = 1.0
    owner: dict[str, str] = field(default_factory=dict, repr=False)
    session: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether jobs over the archive run in a local stack."""
        return self.session is not None

    @classmethod
    def of_stack(cls, folder: Path) -> Archive:
        """Return the archive of the stack running on *folder*. Raises JobError if no stack runs there."""
        where = read_stack(folder, "another archive with --archive s3://BUCKET")
        return cls(
            f"s3://{where['outputs']['ArchiveBucketName']}",
            reports=folder / "reports",
            time_scale=float(where["time_scale"]),
            owner=where["owner_environment"],
            session=where["jobs"],
        )

    @classmethod
    def of_deployment(cls, url: str, profile: str | None, region: str | None) -> Archive:
        """Return the archive of the deployment with the API at *url*. Raises JobError if CloudFormation finds none."""
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
        from tagcast_client.signing import region_of

        try:
            session = boto3.Session(profile_name=profile, region_name=region or region_of(url))
            stack = stack_at(session.client("cloudformation"), url)
        except (BotoCoreError, ClientError) as fault:
            raise JobError(f"cannot find the archive of {url} with CloudFormation: {fault}") from None
        if stack is None:
            raise JobError(f"no stack of this account has the API {url}; give the archive with --archive s3://BUCKET")
        uri, time_scale = f"s3://{stack['ArchiveBucketName']}", float(stack["TimeScale"])
        return cls(uri, drop_none(AWS_PROFILE=profile), time_scale=time_scale)

    def fetch(self, uri: str) -> Path:
        """Return the local path of the report at *uri*. If it is in S3, download it. Raises JobError if S3 refuses."""
        parts = urlsplit(uri)
        if parts.scheme not in ("s3", "s3a"):
            return Path(uri.removeprefix("file://"))
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        target = self.reports / parts.path.lstrip("/").removeprefix("reports/")
        known = os.umask(OTHERS)  # Other users of this machine must not read reports.
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            s3 = client_of(self.owner, "s3", self.environment.get("AWS_PROFILE"))
            s3.download_file(parts.netloc, parts.path.lstrip("/"), str(target))
        except (Boto3Error, BotoCoreError, ClientError) as fault:
            raise JobError(f"cannot download the report {uri}: {fault}") from fault
        finally:
            os.umask(known)
        return target


def stack_at(cloudformation: Any, url: str) -> dict[str, str] | None:
    """Return the parameters and outputs of the stack whose API is at *url*, or None if there is no such stack.

    *cloudformation* is a boto3 client.
    """
    for page in cloudformation.get_paginator("describe_stacks").paginate():
        for stack in page["Stacks"]:
            values = values_of(stack)
            if values.get("Url", "").rstrip("/") == url.rstrip("/"):
                return values
    return None


def values_of(stack: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters and outputs in CloudFormation's description of a stack."""
    parameters = {each["ParameterKey"]: each["ParameterValue"] for each in stack.get("Parameters", ())}
    return parameters | {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}


@dataclass(frozen=True)
class Result:
    """The result of a job. *summary* is its printed result.

    *code* is the exit code: 0 for success, 1 if a check failed, 3 if an audit had no deliveries to check.
    """

    summary: dict[str, Any]
    code: int


@dataclass
class JobProgram:
    """Runs one Spark job at a time in a separate process. *program* is the beginning of the command line."""

    program: Sequence[str] = (sys.executable, "-m", "glue_jobs.chain")
    _process: subprocess.Popen[str] | None = None

    def run(
        self, job: str, archive: Archive, arguments: Sequence[str], report: Callable[[str], object], *, first: Link = ()
    ) -> Result:
        """Run ``glue_jobs.<job>`` over *archive*. Raises JobError if the job ends without a result.

        *first* is another job with its arguments, which runs before in the same Spark session. If *first* is empty, no
        job runs before. *report* is called with each line of progress.
        """
        words = [job, "--archive", archive.uri, *arguments]
        if first:
            words = [first[0], "--archive", archive.uri, *first[1:], "--then", *words]
        last: deque[str] = deque(maxlen=JOB_LINES_KEPT)
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            self._process = process = subprocess.Popen(
                [*self.program, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=os.environ | archive.environment,
            )
            try:
                for line in cast("IO[str]", process.stderr):
                    last.append(line.rstrip())
                    if line.startswith(JOB_PROGRESS):
                        report(line.removeprefix(JOB_PROGRESS).strip())
                code = process.wait()
            except KeyboardInterrupt:
                self.stop()
                raise
            output.seek(0)
            summary = _summary(output.readlines())
        if summary is None or code not in (0, 1, NOTHING_JUDGED):
            raise JobError(quote_job(f"{job} ended with {code}:", code, last))
        return Result(summary, code)

    def stop(self) -> None:
        """End the running job, if any."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


@dataclass
class StackJobs:
    """Runs jobs in the local stack, over its archive, one at a time. Spark stays in the stack for the next job."""

    _connection: socket.socket | None = None

    def run(
        self, job: str, archive: Archive, arguments: Sequence[str], report: Callable[[str], object], *, first: Link = ()
    ) -> Result:
        """Run a job in the stack. The parameters are those of `JobProgram.run`. Raises JobError if the job fails."""
        assert archive.session is not None
        links = [[link[0], "--archive", archive.uri, *link[1:]] if link else [] for link in (first, (job, *arguments))]
        try:
            with socket.create_connection(("127.0.0.1", archive.session["port"])) as self._connection:
                request = {"token": archive.session["token"], "first": links[0], "job": links[1]}
                self._connection.sendall(json.dumps(request).encode() + b"\n")
                for answer in map(json.loads, self._connection.makefile()):
                    if "said" in answer:
                        report(answer["said"])
                    elif "fault" in answer:
                        raise JobError(f"{job} failed: {answer['fault']}")
                    elif answer["summary"] is None:
                        raise JobError(f"{job} ended with exit code {answer['code']} and gave no reason")
                    else:
                        return Result(answer["summary"], answer["code"])
        except ConnectionResetError:
            pass
        except OSError as fault:
            raise JobError(f"the stack does not accept {job}: {fault}") from fault
        raise JobError(f"{job} stopped: the stack closed the connection")

    def stop(self) -> None:
        """End the running job, if any."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)


Jobs = JobProgram | StackJobs


def jobs_of(archive: Archive) -> Jobs:
    """Return the runner for jobs over *archive*: its local stack if it has one, otherwise a separate process."""
    return StackJobs() if archive.is_local else JobProgram()


def check_spark() -> None:
    """Raise JobError or ModuleNotFoundError if this machine cannot run jobs."""
    need("glue_jobs.chain")
    if importlib.util.find_spec("pyspark") is None:
        raise JobError("Spark is not installed: `make spark` installs it (about 600 MB)")


def run_job(job: str, archive: Archive, arguments: Sequence[str], errors: Console, *, first: Link = ()) -> Result:
    """Run a job with the runner of its archive, and show the progress on *errors*. Raises JobError if the job fails.

    *first* is a job that runs before, as in :meth:`JobProgram.run`.
    """
    check_spark()
    stages, at = (SPARK_STARTS, *first[:1], job), 0
    stage, last_line = TextColumn("{task.description}"), TextColumn("{task.fields[line]}")
    with Progress(SpinnerColumn(), stage, TimeElapsedColumn(), last_line, console=errors) as progress:
        task = progress.add_task(stage_text(stages, at), line="")

        def show_line(line: str) -> None:
            nonlocal at
            is_stage = line in stages
            at = stages.index(line) if is_stage else at
            progress.update(task, description=stage_text(stages, at), line="" if is_stage else line)

        result = jobs_of(archive).run(job, archive, arguments, show_line, first=first)
        progress.update(task, line="done" if result.code == 0 else f"ended with {result.code}")
    return result


def stage_text(stages: Sequence[str], at: int) -> str:
    """Return a text with a job's current stage, which is ``stages[at]``, and the remaining stages.

    >>> stage_text((SPARK_STARTS, "compact", "audit"), 1), stage_text((SPARK_STARTS, "audit"), 1)
    ('compact (2 of 3, then audit)', 'audit (2 of 2)')
    """
    left = stages[at + 1 :]
    then = f", then {', '.join(left)}" if left else ""
    return f"{stages[at]} ({at + 1} of {len(stages)}{then})"


def _summary(printed: Sequence[str]) -> dict[str, Any] | None:
    for line in reversed(printed):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "job" in found:
            return found
    return None


SAMPLES = 20
"""The default number of sample messages of a backtest, for each kind of difference."""


@dataclass(frozen=True)
class Days:
    """The days of a job: the first one, and the day after the last one."""

    first: date
    end: date

    @classmethod
    def of(cls, first: str | None, end: str | None) -> Days:
        """Parse *first*, the first day, and *end*, the day after the last day.

        If *first* is None, the first day is today. If *end* is None, the last day is today, or *first* if that is
        later. Raises ValueError for a text that is not a day, and unless *end* is later than *first*.
        """
        today = datetime.now(UTC).date()
        begin = today if first is None else _day(first)
        days = cls(begin, max(begin, today) + timedelta(1) if end is None else _day(end))
        if days.first >= days.end:
            raise ValueError("--to is the day after the last day: it must be later than --from")
        return days

    def arguments(self) -> list[str]:
        """Return the two days as arguments of a job."""
        return ["--from", self.first.isoformat(), "--to", self.end.isoformat()]


def _day(text: str) -> date:
    """Return a day. Raises ValueError also for the last day of the calendar, because no day follows it."""
    try:
        found = date.fromisoformat(text)
        found + timedelta(1)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a day, e.g. 2026-11-20") from None
    return found


@dataclass(frozen=True)
class Span(Days):
    """The time in which a replay's messages were accepted, in UTC. It begins at *first* and ends before *end*."""

    first: datetime
    end: datetime

    @classmethod
    def of(cls, first: str | None, end: str | None) -> Span:
        """Parse *first* and *end*. Each is an instant, or a day, which stands for its midnight in UTC.

        If *first* is None, the span begins with the current day. If *end* is None, the span ends with the current day.
        Raises ValueError for any other text, and unless *end* is later than *first*.

        >>> Span.of("2026-11-20T14:00+02:00", "2026-11-21").arguments()
        ['--from', '2026-11-20T12:00:00+00:00', '--to', '2026-11-21T00:00:00+00:00']
        """
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        span = cls(
            today if first is None else instant_of(first), today + timedelta(1) if end is None else instant_of(end)
        )
        if span.first >= span.end:
            raise ValueError("--to must be later than --from")
        return span


def instant_of(text: str) -> datetime:
    """Parse an instant, or a day, which stands for its midnight in UTC. Return the instant in UTC.

    Raises ValueError for any other text, and for an instant without a time zone.
    """
    try:
        found = datetime.fromisoformat(text if "T" in text else f"{text}T00:00Z")
        in_utc = found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text} is neither a day nor an instant, e.g. 2026-11-20T14:00Z") from None
    if found.tzinfo is None:
        raise ValueError(f"{text} has no time zone; write {text}Z for UTC")
    return in_utc


EVER = date(2020, 1, 1)
"""A day before the first archive."""


def arguments_of(**options: str | float | None) -> list[str]:
    """Return the options of a job as arguments; options that are None are left out.

    >>> arguments_of(run_id="a", topic=None, preview=True)
    ['--run-id', 'a', '--preview', 'true']
    """
    return [word for name, text in query_of(options).items() for word in (f"--{name.replace('_', '-')}", text)]


def audit_arguments(
    place: Archive, days: Days, topic: str | None, as_of: str | None, property: str | None = None
) -> list[str]:
    """Return the command-line arguments of an audit job. They include the time scale of the archive's stack.

    The audit assumes that the archive is complete up to the instant *as_of*; None means an hour ago. *topic* and
    *property* limit the certificate to messages with this topic or property; None sets no limit.
    """
    time_scale = f"{place.time_scale:g}" if place.time_scale != 1 else None
    return days.arguments() + arguments_of(topic=topic, as_of=as_of, property=property, time_scale=time_scale)


def backtest_arguments(
    days: Days, topic: str, candidate: Mapping[str, Any] | None, samples: int = SAMPLES
) -> list[str]:
    """Return the command-line arguments of a backtest job. *candidate* is the filter to test; None matches everything.

    *samples* is the number of sample messages for each kind of difference.
    """
    return days.arguments() + arguments_of(topic=topic, filter=json.dumps(candidate), samples=samples)


def compacting(place: Archive, first: date) -> Link:
    """Return the job that compacts a local archive from the day *first* up to today.

    It includes the days after the period of interest, because deliveries may end later. A deployment compacts every
    night, so for any other archive the result is empty: no job.
    """
    return ["compact", *Days.of(first.isoformat(), None).arguments()] if place.is_local else ()
