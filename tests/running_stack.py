"""A running stack for the tests: the same command as `make run`, on a free port and a folder of its own."""

import gzip
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import boto3
import pytest
from botocore.config import Config

from tests.permissions.uses import USES, recorded

ROOT = Path(__file__).resolve().parents[1]
READY_S = 90.0
STOP_S = 40.0
TIME_SCALE = 10.0
PATIENCE_S = 60.0
"""How long something may take that is waited for; only a fault, or a machine that does nothing else, takes longer."""
PAUSE_S = 0.1
FUNCTION = re.compile(r"\0AWS_LAMBDA_FUNCTION_NAME=(tagcast-[^\0]*)")


@dataclass
class RunningStack:
    """A stack as a child process; `url` is its HTTP API, `engine_url` its AWS APIs."""

    folder: Path
    process: subprocess.Popen[bytes]
    where: dict[str, Any]

    @property
    def url(self) -> str:
        return str(self.where["url"])

    @property
    def engine_url(self) -> str:
        return str(self.where["engine_url"])

    @property
    def output(self) -> str:
        return (self.folder.parent / "output.txt").read_text()

    def denied(self) -> list[tuple[str, str, str]]:
        """What a role was refused on any stack of this session: role, action, resource."""
        return [(use.role, use.action, use.resource) for use in recorded(USES) if use.grant is None]

    def owner(self, service: Any, config: Config | None = None) -> Any:
        """A client of the owner of the account."""
        return boto3.client(
            service, endpoint_url=self.engine_url, region_name="us-east-1",
            aws_access_key_id=self.where["owner_environment"]["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.where["owner_environment"]["AWS_SECRET_ACCESS_KEY"],
            config=config,
        )  # fmt: skip

    def archived(self, kind: str, topic: str) -> list[dict[str, Any]]:
        """What the archive has of a topic by now: records of `messages` or `deliveries`."""
        s3, bucket = self.owner("s3"), self.where["outputs"]["ArchiveBucketName"]
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"raw/{kind}/")
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        objects = [gzip.decompress(s3.get_object(Bucket=bucket, Key=key)["Body"].read()) for key in keys]
        records = [json.loads(line) for content in objects for line in content.splitlines()]
        return [record for record in records if record.get("topic") == topic]

    def has_archived(self, topic: str, messages: int) -> bool:
        """Whether the archive tells of so many messages of a topic, and how every delivery of them ended."""
        accepted = {record["message_id"]: record["matched"] for record in self.archived("messages", topic)}
        ended = {(record["message_id"], record["ordinal"]) for record in self.archived("deliveries", topic)}
        pending = {(message_id, ordinal) for message_id, matched in accepted.items() for ordinal in matched}
        return len(accepted) == messages and pending <= ended

    def processes(self) -> dict[int, str]:
        """Return this process and all its descendants, and what each is: a function by its name, or a module."""
        parents: dict[int, int] = {}
        names: dict[int, str] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                function = FUNCTION.search((entry / "environ").read_bytes().decode(errors="replace"))
            except OSError:  # It ended meanwhile.
                continue
            names[int(entry.name)] = function[1] if function else " ".join(words[1:3])
        mine = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
            mine |= more
        return {pid: names[pid] for pid in mine & names.keys()}

    def workers(self) -> dict[int, str]:
        """Return the functions of the running workers by their process ids."""
        return {pid: name for pid, name in self.processes().items() if name.startswith("tagcast-")}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(STOP_S)


def start_stack(folder: Path, *flags: str) -> RunningStack:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "local", "--port", "0", "--data", str(folder), "--uses", str(USES), *flags],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    announced = folder / "stack.json"
    deadline = time.monotonic() + READY_S
    while True:
        with suppress(FileNotFoundError):  # The stack removes the file of the one before it.
            where = json.loads(announced.read_text())
            if where["pid"] == process.pid:
                return RunningStack(folder, process, where)
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the stack did not start: {(folder.parent / 'output.txt').read_text()}")
        time.sleep(PAUSE_S / 2)


def heed_interrupts() -> None:
    """Let SIGINT end a started process, although a shell that runs the tests in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(found: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    """Whether something comes true in time; it is looked at ten times a second."""
    deadline = time.monotonic() + patience_s
    while not found():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True
