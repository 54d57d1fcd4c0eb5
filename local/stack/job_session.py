"""Runs the jobs over the stack's archive in one Spark process, one after another. Clients send the jobs by a socket.

A job over a small archive spends most of its time on the start of Spark. So the process starts with the first job,
waits for other jobs, and ends after an idle time or with the stack.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tagcast_cli import JOB_LINES_KEPT, JOB_PROGRESS, SPARK_STARTS, quote_job

PROGRAM = (sys.executable, "-m", "glue_jobs.chain", "--serve")
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a small local archive, a fast start of Java matters more than its peak speed."""
IDLE_S = 300.0
"""The process ends after five minutes without a job, because Spark holds some hundred megabytes."""
SILENT_S_MAX = 1_800.0
"""A job without output for half an hour counts as hung."""
END_S = 5.0
LINE_BYTES_MAX = 16 * 1024 * 1024
WAITING = "waiting for another job"
ProgressSink = Callable[[str], object]


class JobSessionError(Exception):
    """A job failed unexpectedly. The message is the reason."""


@dataclass
class Lines:
    """A running program, and its output lines in *queue*.

    An item of the queue has two values: whether the line is from standard output (else it is from standard error), and
    the line. The last item is None.
    """

    process: asyncio.subprocess.Process
    queue: asyncio.Queue[tuple[bool, str] | None]
    reading: asyncio.Task[None] = field(init=False)

    @classmethod
    async def of(cls, program: Sequence[str], environment: Mapping[str, str]) -> Lines:
        """Start a program. It leads a process group, so that `end` can end its children, too."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *program, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **environment},
            limit=LINE_BYTES_MAX, start_new_session=True,
        )  # fmt: skip
        lines = cls(process, asyncio.Queue())
        lines.reading = asyncio.create_task(lines._read())
        return lines

    async def _read(self) -> None:
        async def pump(stream: asyncio.StreamReader | None, is_printed: bool) -> None:
            assert stream is not None
            async for line in stream:
                self.queue.put_nowait((is_printed, line.decode("utf-8", "replace").rstrip()))

        await asyncio.gather(pump(self.process.stdout, True), pump(self.process.stderr, False))
        self.queue.put_nowait(None)

    async def end(self) -> None:
        """End the program and its children: first by SIGTERM, so that Java can delete its files, then by SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            await asyncio.wait({self.reading}, timeout=END_S)  # Their pipes close when all have ended.
        await self.process.wait()


class JobSession:
    """Accepts jobs on a port of 127.0.0.1 from clients that know `token`. Call `listen` first, and `stop` at the end.

    A client writes one line ``{"token": …, "first": […], "job": […]}``. *job* is the name of a job and its arguments.
    *first* is another job to run before *job*, or empty. The client reads lines ``{"said": …}`` with the progress, then
    one line ``{"code": …, "summary": …}`` or ``{"fault": …}``. If the client disconnects, its job is ended.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        program: Sequence[str] = PROGRAM,
        idle_s: float = IDLE_S,
        silent_s_max: float = SILENT_S_MAX,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._environment, self._program = environment, program
        self._idle_s, self._silent_s_max = idle_s, silent_s_max
        self._turn = asyncio.Lock()
        self._lines: Lines | None = None
        self._idle: asyncio.Task[None] | None = None
        self._jobs: set[asyncio.Task[Any]] = set()

    async def listen(self) -> int:
        """Accept jobs on a free port. Return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LINE_BYTES_MAX)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Accept no more jobs. End the running job, the waiting jobs, and the Spark process."""
        self._server.close()
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        if self._idle is not None:
            self._idle.cancel()
        await self._end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def write(**what: object) -> None:
            writer.write(json.dumps(what).encode() + b"\n")

        with suppress(ConnectionError):
            order = _object(await reader.readline())
            if secrets.compare_digest(str(order.get("token")).encode("utf-8", "replace"), self.token.encode()):
                job = asyncio.create_task(self._carry_out(order["first"], order["job"], lambda text: write(said=text)))
                gone = asyncio.create_task(reader.read())
                self._jobs.add(job)
                await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                job.cancel()
                await asyncio.wait({job})
                self._jobs.discard(job)
                fault = None if job.cancelled() else job.exception()
                write(**({"fault": str(fault or "it was ended")} if job.cancelled() or fault else job.result()))
            await writer.drain()
        writer.close()

    async def _carry_out(self, first: Sequence[str], job: Sequence[str], show: ProgressSink) -> dict[str, Any]:
        """Run a job and return its result. After an unexpected failure the next job gets a new program."""
        if self._turn.locked():
            show(WAITING)
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                code, printed = await self._run([*first, "--then", *job] if first else job, show)
            except BaseException:
                await self._end()
                raise
            self._idle = asyncio.create_task(self._end_later())
        return {"code": code, "summary": printed[-1] if printed else None}

    async def _run(self, words: Sequence[str], show: ProgressSink) -> tuple[int, list[dict[str, Any]]]:
        """Run the command *words*; return its exit code and the summaries of its jobs. Raises JobSessionError."""
        if self._lines is None:
            show(SPARK_STARTS)
            self._lines = await Lines.of(self._program, self._environment)
        lines, last, printed = self._lines, deque[str](maxlen=JOB_LINES_KEPT), list[dict[str, Any]]()
        assert lines.process.stdin is not None
        lines.process.stdin.write(json.dumps(words).encode() + b"\n")
        while True:
            try:
                line = await asyncio.wait_for(lines.queue.get(), self._silent_s_max)
            except TimeoutError:
                raise JobSessionError(f"it printed nothing for {self._silent_s_max:,.0f} s and was stopped") from None
            match line:
                case None:
                    code = await lines.process.wait()
                    raise JobSessionError(quote_job(f"{words[0]} broke off:", code, last))
                case (True, text):
                    found = _object(text)
                    if "ended" in found:
                        return int(found["ended"]), printed
                    printed += [found] if "job" in found else []
                case (False, text):
                    last.append(text)
                    if text.startswith(JOB_PROGRESS):
                        show(text.removeprefix(JOB_PROGRESS))

    async def _end_later(self) -> None:
        await asyncio.sleep(self._idle_s)
        async with self._turn:
            await self._end()

    async def _end(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            await lines.end()


def _object(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a line, or an empty object for any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
