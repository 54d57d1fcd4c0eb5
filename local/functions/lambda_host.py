"""Runs the functions, each in a pool of workers. The engine invokes them over HTTP."""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

from local.functions.places import Places, topic_of
from local.functions.plain_server import plain_server
from local.functions.worker import SHUTDOWN_S, FunctionSpec, Invocation, LogSink, Worker, failure
from local.rules.limits import LAMBDA_PAYLOAD_BYTES_MAX

IDLE_S = 60.0
"""An idle worker ends after a minute, except one worker of each function. A worker takes some 60 MB."""
REST_LOOK_S = 10.0


def worker_environment(function: FunctionSpec, common: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's environment variables: Lambda's own, the function's, and *common*, which takes precedence."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONUNBUFFERED": "1",
        "LAMBDA_TASK_ROOT": str(function.folder),
        "_HANDLER": function.handler,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        **function.environment,
        **common,
    }


@dataclass
class Pool:
    """The workers of one function, at most `size`. They start on demand, and take events in order of arrival.

    If `fed` is True, the queue or the workflow invokes the function, and no single topic occupies all workers. See
    `Places` for `young_max`. `log` gets the function's log lines.
    """

    function: FunctionSpec
    environment: Mapping[str, str]
    log: LogSink
    size: int
    fed: bool = False
    young_max: int | None = None
    _closed: bool = False
    _idle: list[tuple[float, Worker]] = field(default_factory=list)
    """Idle workers, each with the time when it became idle. The last worker is used next."""
    _all: set[Worker] = field(default_factory=set)
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        self._places = Places(self.size, self.young_max)

    @property
    def waiting(self) -> int:
        """The number of events waiting for a worker."""
        return self._places.waiting

    async def warm(self) -> None:
        """Start one worker, before the first event arrives."""
        self._idle.append((time.monotonic(), await self._start()))

    async def rest(self, idle_s: float) -> None:
        """End the workers that were idle for *idle_s* seconds. One worker always remains."""
        while len(self._all) > 1 and self._idle and self._idle[0][0] <= time.monotonic() - idle_s:
            await self._discard(self._idle.pop(0)[1])

    async def invoke(self, payload: bytes) -> Invocation:
        """Run one event in a worker, and return its result. If the worker dies or times out, only this event fails."""
        if len(payload) > LAMBDA_PAYLOAD_BYTES_MAX:
            return failure("RequestTooLargeException", f"an event may have at most {LAMBDA_PAYLOAD_BYTES_MAX} bytes")
        topic = topic_of(payload) if self.fed else None
        place = await self._places.take(topic)
        try:
            return await self._run(payload)
        finally:
            self._places.give_back(place)

    async def _run(self, payload: bytes) -> Invocation:
        if self._closed:
            return failure("Lambda.ServiceException", "the Lambda host stops")
        while self._idle and not self._idle[-1][1].alive:
            await self._discard(self._idle.pop()[1])
        worker = self._idle.pop()[1] if self._idle else await self._start()
        try:
            return await worker.invoke(payload)
        finally:
            if worker.alive:
                self._idle.append((time.monotonic(), worker))
            else:
                await self._discard(worker)

    async def stop(self) -> None:
        """End all workers, and start no more. The events in progress and those that wait fail."""
        self._closed = True
        await asyncio.gather(*(worker.stop() for worker in self._all))
        self._all.clear()
        self._idle.clear()

    async def _start(self) -> Worker:
        worker = Worker(self.function, worker_environment(self.function, self.environment), self.log)
        self._all.add(worker)
        await worker.start()
        return worker

    async def _discard(self, worker: Worker) -> None:
        self._all.discard(worker)
        await worker.stop()


class LambdaHost:
    """The functions by physical name, each with a pool of workers."""

    def __init__(self, log: LogSink) -> None:
        self._log = log
        self._pools: dict[str, Pool] = {}
        self._runner: web.ServerRunner | None = None
        self._key = secrets.token_urlsafe()
        self._resting: asyncio.Task[None] | None = None
        self.address = ""

    async def listen(self) -> None:
        """Serve the engine, and set `address` to host:port/key. The engine posts an event to /key/FUNCTION.

        The key is random, so that web pages and other users cannot invoke functions. Status 404 means that there is no
        such function here, and 502 that the function failed.
        """
        self._runner = web.ServerRunner(plain_server(self._serve, 0), shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0]
        self.address = f"{host}:{port}/{self._key}"

    def deploy(
        self,
        function: FunctionSpec,
        environment: Mapping[str, str],
        size: int,
        *,
        fed: bool = False,
        young_max: int | None = None,
    ) -> None:
        """Add a function with at most *size* workers.

        If *fed* is True, the queue or the workflow invokes the function, and no single topic occupies all its workers.
        See `Places` for *young_max*.
        """
        self._pools[function.name] = Pool(function, environment, self._log, size, fed, young_max)

    async def warm(self, later: Collection[str] = ()) -> None:
        """Start one worker of each function. Functions in *later* start their first worker at their first event."""
        await asyncio.gather(*(pool.warm() for name, pool in self._pools.items() if name not in later))
        self._resting = asyncio.create_task(self._rest())

    async def _rest(self) -> None:
        while True:
            await asyncio.sleep(REST_LOOK_S)
            for pool in self._pools.values():
                await pool.rest(IDLE_S)

    async def invoke(self, function: str, payload: bytes) -> Invocation:
        """Invoke a function by name and wait for its result."""
        return await self._pools[function].invoke(payload)

    @property
    def waiting(self) -> int:
        """The number of events that wait for a worker, of the function with the most such events."""
        return max((pool.waiting for pool in self._pools.values()), default=0)

    async def stop(self) -> None:
        """End all workers and stop listening."""
        if self._resting is not None:
            self._resting.cancel()
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        key, _, name = request.path.lstrip("/").partition("/")
        if not secrets.compare_digest(key.encode(), self._key.encode()) or name not in self._pools:
            return web.Response(status=HTTPStatus.NOT_FOUND)
        try:
            invocation = await self.invoke(name, await request.read())
        except OSError as fault:
            print(f"cannot run {name}: {fault}", file=sys.stderr)
            invocation = failure("Lambda.ServiceException", str(fault))
        status = HTTPStatus.BAD_GATEWAY if invocation.failed else HTTPStatus.OK
        return web.Response(status=status, body=invocation.payload, content_type="application/json")
