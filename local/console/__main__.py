"""`python -m local.console`: serves the console until Ctrl-C; `tagcast console` runs this program."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import httpx
from botocore.exceptions import BotoCoreError
from tagcast_cli import OTHERS
from tagcast_client import AsyncClient, BearerToken, Retries, SigV4
from tagcast_client.signing import is_aws, region_of

from local.console.archive_jobs import GlueJobs, JobBoard, LocalJobs, Runner
from local.console.desk import Desk
from local.console.samples import Charted, CloudWatchMinutes
from local.console.server import ConsoleServer
from local.front.front import PortInUseError

PORT = 8081


def desk_for(
    url: str,
    data: Path,
    auth: httpx.Auth | None = None,
    time_scale: float = 1.0,
    jobs: Runner | None = None,
    metrics: Charted | None = None,
) -> Desk:
    """Return a console's desk. A console that uses credentials admits only requests with its key.

    Its credentials are the token in TAGCAST_TOKEN, or else *auth*. By default *jobs* are run by the stack on the folder
    *data*, and *metrics* are sampled.
    """
    token = os.environ.get("TAGCAST_TOKEN")
    auth = BearerToken(token) if token else auth
    api = AsyncClient(url, auth=auth, retries=Retries(seconds=0), user_agent="tagcast-console")
    key = secrets.token_urlsafe(24) if auth else None
    return Desk(api, data / "reports", JobBoard(jobs or LocalJobs(data)), time_scale, key, metrics=metrics)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m local.console", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="URL of the API")
    parser.add_argument("--profile", help="AWS profile that signs requests to *.amazonaws.com")
    parser.add_argument("--region", help="AWS region to sign for")
    parser.add_argument("--stack", default="tagcast", help="stack name of the deployment (tagcast)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port of the console on 127.0.0.1 ({PORT})")
    parser.add_argument("--data", type=Path, default=Path(".tagcast"), help="folder of the reports of jobs (.tagcast)")
    parser.add_argument("--time-scale", type=float, default=1.0, help="factor by which the stack shortens waits (1)")
    return parser.parse_args(arguments)


def of_deployment(asked: argparse.Namespace) -> tuple[GlueJobs, CloudWatchMinutes]:
    """Return the jobs and the metrics of a deployment. They use the permissions of the profile."""
    import boto3  # It takes half a second, and the console of a local stack does not need it.

    session = boto3.Session(profile_name=asked.profile, region_name=asked.region or region_of(asked.url))
    client = cast("Callable[[str], Any]", session.client)
    return GlueJobs(asked.stack, asked.url, asked.data / "reports", client), CloudWatchMinutes(asked.stack, client)


async def run(asked: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    signed = SigV4(asked.profile, asked.region) if is_aws(asked.url) else None
    try:
        jobs, metrics = of_deployment(asked) if is_aws(asked.url) else (None, None)
    except BotoCoreError as fault:
        print(f"tagcast: {fault}", file=sys.stderr)
        return 1
    desk = desk_for(asked.url, asked.data, signed, asked.time_scale, jobs, metrics)
    async with contextlib.AsyncExitStack() as ends:
        server = ConsoleServer(desk)
        ends.push_async_callback(server.stop)
        try:
            await server.start(asked.port)
        except PortInUseError:
            print(f"tagcast: port {asked.port} of 127.0.0.1 is in use: choose another with --port", file=sys.stderr)
            return 1
        print(f"The console of {asked.url} is at {server.url}\nPress Ctrl-C to stop it.", flush=True)
        await stopped.wait()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and serve. Files created here, such as reports, are private to the user."""
    os.umask(OTHERS)
    return asyncio.run(run(parse(arguments)))


if __name__ == "__main__":
    sys.exit(main())
