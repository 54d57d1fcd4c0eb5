"""Starts and stops the embedded engine (DynamoDB, SQS, Step Functions, S3, ...) as a child process."""

import json
import os
import random
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from local.engine.engine_calls import Credentials, EngineCalls, create_credentials
from local.engine.last_error import PIPE, read_last_error
from local.engine.permission_guard import OWN_PATH
from local.functions.frames import FrameCalls, call_head
from local.rules.permissions import Role

REGION = "us-east-1"
ACCOUNT = "123456789012"
START_S = 60.0
STOP_S = 20.0
GIVE_BACK_BYTES = 1024 * 1024
"""Larger free blocks go back to the system. By default glibc keeps up to twice the largest request, or state, forever.

Buffers of sockets (256 KiB) are smaller, because each block from the system costs time.
"""
_PORTS = iter(random.SystemRandom().sample(range(20_000, 32_768), 10_000))


class EngineError(RuntimeError):
    """The engine did not start, or did not deploy the stack. The message has the reason, or names the log to read."""


def free_port(wanted: int = 0) -> int:
    """Return a free TCP port of 127.0.0.1, or `wanted` if it is not 0. Raises OSError if `wanted` is in use.

    A port that is chosen here is below 32,768. Operating systems use higher ports for outgoing connections, so none of
    these connections takes the port before it is used.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if wanted:
            probe.bind(("127.0.0.1", wanted))
            return wanted
        for port in _PORTS:
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise OSError("no port is free")


def _is_readable(pipe: int) -> bool:
    """Return whether a pipe has data, or its other end was closed."""
    looking = select.poll()
    looking.register(pipe, select.POLLIN)
    return bool(looking.poll(0))


@dataclass
class Engine:
    """One engine. Its state is in `folder`, and remains there when its process ends.

    Calls with the credentials `owner` may do everything. `lambda_host` (host:port/key) is the address of the Lambda
    host, which runs the functions. `host` is a host name that requests may use, in addition to localhost. The engine
    appends each new permission decision to the file `uses` as a JSON line. If `uses` is None, the file is `uses.jsonl`
    in `folder`.
    """

    folder: Path
    lambda_host: str = field(repr=False)
    port: int = field(default_factory=free_port)
    uses: Path | None = None
    host: str = ""
    _frames_port: int = field(default_factory=free_port)
    owner: Credentials = field(default_factory=create_credentials, repr=False)
    _process: "subprocess.Popen[bytes] | None" = None
    _error_pipe: int = -1
    _sentence: str = ""

    @property
    def url(self) -> str:
        """The endpoint URL, which is the same for every AWS service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which AWS SDKs call the engine, except credentials."""
        return {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}

    @property
    def frames(self) -> str:
        """The address (host:port) that accepts calls in frames, see :mod:`local.functions.frames`."""
        return f"127.0.0.1:{self._frames_port}"

    def client(self, service: Any, **config: Any) -> Any:
        """Return a boto3 client for an AWS service of the engine. The client may do everything, as `owner`."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id=self.owner.access_key,
            aws_secret_access_key=self.owner.secret,
            config=Config(retries={"max_attempts": 3, "mode": "standard"}, **config),
        )

    def calls(self, credentials: Credentials) -> EngineCalls:
        """Return an object that makes calls with *credentials*. Its calls are faster than those of a boto3 client."""
        return EngineCalls(FrameCalls(self.frames), credentials, REGION)

    def start(self) -> None:
        """Start the process and wait until it responds. Raises EngineError."""
        self.positions.mkdir(parents=True, exist_ok=True)
        self._sentence = ""
        self._error_pipe, theirs = os.pipe()
        with (self.folder / "engine.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "local.engine.engine_process"],
                env=self._environment() | {PIPE: str(theirs)},
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(theirs,),
            )
        os.close(theirs)
        deadline = time.monotonic() + START_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise EngineError(self._sentence or f"the engine did not start, see {self.folder / 'engine.log'}")
            time.sleep(0.05)

    @property
    def positions(self) -> Path:
        """The folder in which readers of streams store their positions, in files named READER.TABLE."""
        return self.folder / "positions"

    def show(self, queue_arn: str) -> None:
        """Make all received messages of a queue visible again. Call this after the process that received them died."""
        self._run_act("show", queue_arn)

    def expire(self, table: str, attribute: str) -> None:
        """Delete expired rows of a table. A row's *attribute* has the time of its expiry.

        This replaces the engine's own expiry, which writes no stream record. On AWS a row may stay for two more days,
        so no code may rely on a prompt deletion.
        """
        self._run_act("expire", {"table": table, "attribute": attribute})

    def permit(self, roles: Mapping[str, Role]) -> None:
        """Replace all roles. The keys of *roles* are access keys, or names of services that assume a role."""
        self._run_act("roles", {caller: asdict(role) for caller, role in roles.items()})

    def stop(self) -> None:
        """Ask the engine to save its state and end; kill it after :data:`STOP_S` seconds."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._sentence = read_last_error(self._error_pipe)
        os.close(self._error_pipe)
        self._process = None

    @property
    def pid(self) -> int | None:
        """The process id, or None if the engine does not run."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether the process runs and has reported no fatal error."""
        if self._process is None or self._sentence:  # A reported error leaves the pipe when it is read.
            return False
        return not _is_readable(self._error_pipe) and self._process.poll() is None

    @property
    def why_ended(self) -> str:
        """The reason why the process has ended by itself; empty while it runs, and after `stop`."""
        if self._process is None or self.alive:
            return ""
        self._sentence = self._sentence or read_last_error(self._error_pipe)
        return self._sentence or f"the engine has ended by itself; its log says why: {self.folder / 'engine.log'}"

    def _ready(self) -> bool:
        try:
            with self._request("/_ministack/ready", 1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _run_act(self, act: str, what: Any) -> None:
        self._request(OWN_PATH + act, START_S, json.dumps(what).encode()).close()

    def _request(self, path: str, within_s: float, body: bytes | None = None) -> Any:
        """Send a request to a path of the engine itself, not of an AWS service. Return the response."""
        authorization = call_head(self.owner.access_key, REGION, "engine", "").decode().rstrip()
        headers = {"authorization": authorization, "content-type": "application/json"}
        return urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", body, headers), timeout=within_s)

    def _environment(self) -> dict[str, str]:
        state = self.folder.resolve()
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": os.environ.get("HOME", ""),
            "PYTHONUNBUFFERED": "1",
            "MALLOC_MMAP_THRESHOLD_": str(GIVE_BACK_BYTES),
            "MALLOC_TRIM_THRESHOLD_": str(GIVE_BACK_BYTES),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "TAGCAST_FRAMES_PORT": str(self._frames_port),
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "MINISTACK_REGION": REGION,
            "PERSIST_STATE": "1",
            "STATE_DIR": str(state / "state"),
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(state / "s3"),
            "TMPDIR": str(state),
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
            "TAGCAST_LAMBDA_HOST": self.lambda_host,
            "TAGCAST_OWNER": self.owner.access_key,
            "TAGCAST_HOST": self.host,
            "TAGCAST_USES": str((self.uses or self.folder / "uses.jsonl").resolve()),
            "TAGCAST_PARENT": str(os.getpid()),
            "TAGCAST_POSITIONS": str(self.positions.resolve()),
        }
