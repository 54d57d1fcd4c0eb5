"""`tagcast console`: web pages over the same API."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from tagcast_cli import OTHERS
from tagcast_cli.jobs import DEFAULT_DATA, DataFolder
from tagcast_cli.session import session_of


def console(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the console on 127.0.0.1.")] = 8081,
    data: DataFolder = DEFAULT_DATA,
    stack: Annotated[str, typer.Option(help="Name of the deployment whose jobs the console may start.")] = "tagcast",
) -> None:
    """Serve the console on this machine until Ctrl-C. The console signs requests to AWS with your profile."""
    from local.console.server import serve

    os.umask(OTHERS)  # Reports are private, for example.
    raise typer.Exit(asyncio.run(serve(session_of(ctx), port, data, stack)))
