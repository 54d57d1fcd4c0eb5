"""Runs one Spark job over an archive as a program of its own, and shows how far it is."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

LINES_KEPT = 30
"""What a job that broke is quoted with."""
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A local archive is small: Java that starts quickly beats Java that is quick in the end."""
STARTING = "starting Spark"
PROGRESS = "progress: "
"""How a job's lines begin that say, on standard error, what it is doing."""


Link = Sequence[str]
"""A job and its arguments, or nothing."""


class JobError(RuntimeError):
    """A job could not be run, or broke; the text says what to do or what it said last."""


NOTHING_JUDGED = 3
"""The exit code of an audit that had nothing to judge."""


@dataclass(frozen=True)
class Archive:
    """Where an archive is, and how S3 is reached there."""

    uri: str
    environment: dict[str, str] = field(default_factory=dict)
    reports: Path = Path(".tagcast/reports")
    time_scale: float = 1.0
    is_local: bool = False
    owner: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of_stack(cls, folder: Path) -> Archive:
        """Return the archive of the stack that runs on *folder*; JobError if none does."""
        from local.engine.engine import REGION  # Not above: it loads boto3, which most commands do without.

        try:
            where = json.loads((folder / "stack.json").read_text())
        except FileNotFoundError:
            raise JobError(
                f"no stack runs on {folder}: start one with `make run`, name its folder with --data, "
                "or another archive with --archive s3://BUCKET"
            ) from None
        environment = {
            "AWS_ENDPOINT_URL": where["engine_url"],
            **where["job_environment"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "JDK_JAVA_OPTIONS": QUICK_START,
        }
        uri = f"s3://{where['outputs']['ArchiveBucketName']}"
        return cls(
            uri,
            environment,
            folder / "reports",
            float(where["time_scale"]),
            is_local=True,
            owner=where["owner_environment"],
        )

    def fetch(self, uri: str) -> Path:
        """Copy a report into the folder of reports, unless it is a file already; return where it is."""
        parts = urlsplit(uri)
        if parts.scheme not in ("s3", "s3a"):
            return Path(uri.removeprefix("file://"))
        import boto3

        target = self.reports / parts.path.lstrip("/").removeprefix("reports/")
        target.parent.mkdir(parents=True, exist_ok=True)
        s3 = boto3.client(
            "s3",
            endpoint_url=self.owner.get("AWS_ENDPOINT_URL"),
            region_name=self.owner.get("AWS_DEFAULT_REGION"),
            aws_access_key_id=self.owner.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=self.owner.get("AWS_SECRET_ACCESS_KEY"),
        )
        s3.download_file(parts.netloc, parts.path.lstrip("/"), str(target))
        return target


@dataclass(frozen=True)
class Result:
    """What a job said last: its summary, and its exit code when what it checks does not hold (else 0)."""

    summary: dict[str, Any]
    code: int


@dataclass
class JobProgram:
    """Runs one Spark job at a time as a program of its own; `stop` ends the one that runs."""

    program: Sequence[str] = (sys.executable, "-m", "glue_jobs.chain")
    _process: subprocess.Popen[str] | None = None

    def run(
        self, job: str, archive: Archive, arguments: Sequence[str], said: Callable[[str], object], *, first: Link = ()
    ) -> Result:
        """Run ``glue_jobs.<job>`` and tell *said* how far it is; *first* is a job with its arguments before it.

        Both run in one Spark session. Raises JobError.
        """
        words = [job, "--archive", archive.uri, *arguments]
        if first:
            words = [first[0], "--archive", archive.uri, *first[1:], "--then", *words]
        self._process = process = subprocess.Popen(
            [*self.program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | archive.environment,
        )
        last: deque[str] = deque(maxlen=LINES_KEPT)

        def listen() -> None:
            for line in cast("IO[str]", process.stderr):
                last.append(line.rstrip())
                if line.startswith(PROGRESS):
                    said(line.removeprefix(PROGRESS).strip())

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            printed = cast("IO[str]", process.stdout).read().splitlines()
            code = process.wait()
        except KeyboardInterrupt:
            self.stop()
            raise
        listener.join()
        summary = _summary(printed)
        if summary is None or code not in (0, 1, NOTHING_JUDGED):
            raise JobError(f"{job} ended with {code}:\n" + "\n".join(last))
        return Result(summary, code)

    def stop(self) -> None:
        """End the job that runs, if one does."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def check_spark() -> None:
    """Raise JobError where no job can run on this machine."""
    if importlib.util.find_spec("pyspark") is None:
        raise JobError("Spark is not installed here: `make spark` installs it (about 600 MB)")


def run_job(job: str, archive: Archive, arguments: Sequence[str], errors: Console, *, first: Link = ()) -> Result:
    """Run a job as `JobProgram` does, and show its progress on *errors*. Raises JobError."""
    check_spark()
    with _progress(errors) as progress:
        task = progress.add_task(job, said=STARTING)
        result = JobProgram().run(job, archive, arguments, lambda said: progress.update(task, said=said), first=first)
        progress.update(task, said="done" if result.code == 0 else f"ended with {result.code}")
    return result


def _progress(errors: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<16}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[said]}"),
    )
    return Progress(*columns, console=errors)


def _summary(printed: Sequence[str]) -> dict[str, Any] | None:
    for line in reversed(printed):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "job" in found:
            return found
    return None
