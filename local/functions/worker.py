"""An execution environment of a function: a process that runs Lambda's runtime client, and its Runtime API.

As on AWS, the process requests `/runtime/invocation/next`, handles one event at a time and posts its result. If the
process dies, only its current event fails. If the process exceeds the function's timeout or memory, it is killed. The
paths of the Runtime API begin with a random key, so that web pages and other users cannot take events.
"""

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from local.functions.plain_server import plain_server
from local.rules.limits import LAMBDA_PAYLOAD_BYTES_MAX

# 0 would wait for the open request of the dead process.
SHUTDOWN_S = 0.1
RUNTIME_API = "/2018-06-01/runtime"
RUNTIME = Path(__file__).with_name("runtime.py")
LINE_MAX = 4 * 1024 * 1024
MEMORY_CHECK_S = 0.2
MIB = 1024 * 1024

LogSink = Callable[[str, str], None]


@dataclass(frozen=True)
class FunctionSpec:
    """A deployed function, as the Lambda host needs it."""

    name: str
    arn: str
    handler: str
    folder: Path
    timeout_s: float
    memory_mb: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Invocation:
    """The result of an invocation as JSON. If *failed*, it is an error with `errorType` and `errorMessage`."""

    payload: bytes
    failed: bool = False


@dataclass
class _Event:
    request_id: str
    payload: bytes
    deadline_ms: int
    answer: "asyncio.Future[Invocation]"


def failure(error_type: str, message: str) -> Invocation:
    """Return the result of a failed invocation, in Lambda's error format."""
    return Invocation(json.dumps({"errorType": error_type, "errorMessage": message}).encode(), failed=True)


def _accept() -> web.Response:
    return web.Response(status=HTTPStatus.ACCEPTED, body=b'{"status": "OK"}', content_type="application/json")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended, and on systems other than Linux.

    >>> resident_bytes(os.getpid()) >= 0, resident_bytes(0)
    (True, 0)
    """
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class Worker:
    """A process and its Runtime API. Call `start` first. Wait for the end of each `invoke` before the next."""

    def __init__(self, function: FunctionSpec, environment: Mapping[str, str], log: LogSink) -> None:
        self._function = function
        self._environment = environment
        self._log = log
        self._key = secrets.token_urlsafe()
        self._events: asyncio.Queue[_Event | None] = asyncio.Queue()
        self._held: _Event | None = None
        self._killed = False
        self._init_error: Invocation | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._runner: web.ServerRunner | None = None
        self._watching: list[asyncio.Task[None]] = []

    @property
    def alive(self) -> bool:
        """Whether the process can take another event."""
        return not self._killed and self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Open the Runtime API and start the process."""
        self._runner = web.ServerRunner(
            plain_server(self._serve, LAMBDA_PAYLOAD_BYTES_MAX), shutdown_timeout=SHUTDOWN_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(RUNTIME),
            self._function.handler,
            cwd=self._function.folder,
            env={**self._environment, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}/{self._key}"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LINE_MAX,
            start_new_session=True,
        )
        self._watching = [asyncio.create_task(self._read_lines()), asyncio.create_task(self._watch_exit())]

    async def invoke(self, payload: bytes) -> Invocation:
        """Run one event, and return its result. It is a failure if the process dies, or exceeds its time or memory."""
        if self._init_error:
            return self._init_error
        if not self.alive:
            return failure("Runtime.ExitError", "the process ended before the event came")
        event = _Event(
            request_id=str(uuid.uuid4()),
            payload=payload,
            deadline_ms=int((time.time() + self._function.timeout_s) * 1000),
            answer=asyncio.get_running_loop().create_future(),
        )
        self._held = event
        self._events.put_nowait(event)
        try:
            return await self._answer(event)
        finally:
            self._held = None

    async def _answer(self, event: _Event) -> Invocation:
        """Wait for the result of the event. If the process exceeds its time or memory, kill it and return a failure."""
        ends_at = time.monotonic() + self._function.timeout_s
        while not event.answer.done():
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                self.kill()
                limit = f"{self._function.timeout_s:.2f}"
                return failure("Sandbox.Timedout", f"{event.request_id} Task timed out after {limit} seconds")
            resident = 0 if self._process is None else resident_bytes(self._process.pid)
            if resident > self._function.memory_mb * MIB:
                self.kill()
                return failure(
                    "Runtime.OutOfMemory",
                    f"{event.request_id} used {resident // MIB} MB of {self._function.memory_mb} MB and was killed",
                )
            await asyncio.wait([event.answer], timeout=min(left_s, MEMORY_CHECK_S))
        return event.answer.result()

    def kill(self) -> None:
        """End the process at once."""
        running = self.alive
        self._killed = True
        if running and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def stop(self) -> None:
        """End the process and close the Runtime API."""
        self.kill()
        self._events.put_nowait(None)
        if self._process is not None:
            await self._process.wait()
        runner, self._runner = self._runner, None
        if runner is not None:  # The pool may stop a worker twice: when its event fails, and when the stack ends.
            await runner.cleanup()
        for task in self._watching:
            task.cancel()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        match request.method, *request.path.removeprefix(f"/{self._key}{RUNTIME_API}/").split("/"):
            case "GET", "invocation", "next":
                return await self._next()
            case "POST", "invocation", request_id, "response":
                return self._settle(request_id, await self._read_response(request))
            case "POST", "invocation", request_id, "error":
                return self._settle(request_id, Invocation(await request.read(), failed=True))
            case "POST", "init", "error":
                return await self._store_init_error(request)
        return web.Response(status=HTTPStatus.NOT_FOUND)

    async def _next(self) -> web.Response:
        event = await self._events.get()
        if event is None:
            return web.Response(status=410)
        return web.Response(
            body=event.payload,
            content_type="application/json",
            headers={
                "Lambda-Runtime-Aws-Request-Id": event.request_id,
                "Lambda-Runtime-Deadline-Ms": str(event.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": self._function.arn,
            },
        )

    async def _read_response(self, request: web.BaseRequest) -> Invocation:
        try:
            return Invocation(await request.read())
        except web.HTTPRequestEntityTooLarge:
            message = f"Response payload size exceeded maximum allowed payload size ({LAMBDA_PAYLOAD_BYTES_MAX} bytes)."
            return failure("Function.ResponseSizeTooLarge", message)

    def _settle(self, request_id: str, invocation: Invocation) -> web.Response:
        held = self._held
        if held and held.request_id == request_id and not held.answer.done():
            held.answer.set_result(invocation)
        return _accept()

    async def _store_init_error(self, request: web.BaseRequest) -> web.Response:
        self._init_error = Invocation(await request.read(), failed=True)
        self._log(self._function.name, self._init_error.payload.decode(errors="replace"))
        return _accept()

    async def _watch_exit(self) -> None:
        assert self._process is not None
        status = await self._process.wait()
        held = self._held
        if held and not held.answer.done():
            held.answer.set_result(
                self._init_error or failure("Runtime.ExitError", f"Runtime exited with status {status}")
            )

    async def _read_lines(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                continue  # The line is longer than LINE_MAX, and the reader dropped it.
            if not line:
                return
            self._log(self._function.name, line.decode(errors="replace").rstrip("\n"))
