"""The console's HTTP server on a local port. `tagcast console` runs it, too."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
from aiohttp import web
from botocore.exceptions import BotoCoreError
from tagcast_cli.session import Session
from tagcast_client import AsyncClient, BearerToken, Retries
from tagcast_client.signing import is_aws, region_of

from local.console import (
    acts,
    archive,
    bulk,
    charts,
    costs,
    editing,
    filters,
    groups,
    hosts,
    lanes,
    messages,
    overview,
    replay,
    search,
    shadows,
    tail,
    topics,
)
from local.console.archive_jobs import GlueJobs, JobBoard, LocalJobs, Runner
from local.console.bulk import BULKS, Bulks
from local.console.desk import DESK, Desk
from local.console.guard import guard_request, restrict_response
from local.console.samples import Charted, CloudWatchMinutes
from local.front.front import PortInUseError
from local.functions.plain_server import LOGGER

STATIC = Path(__file__).parent / "static"
FORM_BYTES_MAX = 1_048_576
ROOMS = (
    *(overview, topics, lanes, messages, replay, filters, shadows, search, tail),
    *(groups, hosts, archive, costs, charts, acts, bulk, editing),
)


def application(desk: Desk) -> web.Application:
    """Return the web application with all pages of the console."""
    app = web.Application(middlewares=[guard_request], client_max_size=FORM_BYTES_MAX)
    app.on_response_prepare.append(restrict_response)
    app[DESK] = desk
    app[BULKS] = Bulks()
    for room in ROOMS:
        app.add_routes(room.ROUTES)
    app.router.add_static("/static", STATIC)
    return app


class ConsoleServer:
    """Serves a console on 127.0.0.1. Call `start` first, and `stop` at the end. `url` leads to the first page."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._application = application(desk)
        self._runner = web.AppRunner(self._application, access_log=None, logger=LOGGER, shutdown_timeout=1)
        self.url = ""

    async def start(self, port: int) -> None:
        """Listen on *port*; 0 selects a free port. Raises PortInUseError."""
        await self._desk.charted.start()
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", port).start()
        except OSError as fault:
            raise PortInUseError(port, "--console-port", "CONSOLE_PORT") from fault
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        if self._desk.key is not None:
            self.url += f"?key={self._desk.key}"

    async def stop(self) -> None:
        """Stop the running job, stop listening, and close the connections to the API."""
        await self._desk.jobs.stop()
        await self._application[BULKS].stop()
        await self._desk.stop()
        await self._runner.cleanup()
        await self._desk.api.aclose()


def desk_for(
    url: str,
    data: Path,
    auth: httpx.Auth | None = None,
    time_scale: float = 1.0,
    jobs: Runner | None = None,
    metrics: Charted | None = None,
) -> Desk:
    """Return the desk of a console that shows the API at *url*.

    Requests to the API are authorized by *auth*, or else by the token in the environment variable TAGCAST_TOKEN. In
    both cases the console admits only requests with its key. The stack makes waits *time_scale* times shorter. If
    *jobs* is None, the stack with the state folder *data* runs the jobs. If *metrics* is None, the console samples the
    topics.
    """
    token = os.environ.get("TAGCAST_TOKEN")
    auth = auth or (BearerToken(token) if token else None)
    api = AsyncClient(url, auth=auth, retries=Retries(seconds=0), user_agent="tagcast-console")
    key = secrets.token_urlsafe(24) if auth else None
    return Desk(api, data / "reports", JobBoard(jobs or LocalJobs(data)), time_scale, key, metrics=metrics)


async def serve(session: Session, port: int, data: Path, stack: str) -> int:
    """Serve a console for the API of *session* until SIGINT or SIGTERM. Return the exit code.

    If the API is on AWS, jobs and metrics are those of the deployed *stack*. They use the session's AWS profile.
    """
    url, stopped = session.api.url, asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    jobs: Runner | None = None
    metrics: Charted | None = None
    if is_aws(url):
        import boto3  # It takes half a second, and the console of a local stack does not need it.

        try:
            own = boto3.Session(profile_name=session.profile, region_name=session.region or region_of(url))
        except BotoCoreError as fault:
            print(f"tagcast: {fault}", file=sys.stderr)
            return 1
        client = cast("Callable[[str], Any]", own.client)
        jobs, metrics = GlueJobs(stack, url, data / "reports", client), CloudWatchMinutes(stack, client)
    async with contextlib.AsyncExitStack() as ends:
        server = ConsoleServer(desk_for(url, data, session.api.auth, jobs=jobs, metrics=metrics))
        ends.push_async_callback(server.stop)
        try:
            await server.start(port)
        except PortInUseError:
            print(f"tagcast: port {port} of 127.0.0.1 is in use: choose another with --port", file=sys.stderr)
            return 1
        print(f"The console of {url} is at {server.url}\nPress Ctrl-C to stop it.", flush=True)
        await stopped.wait()
    return 0
