"""`tagcast console`: web pages over the same API."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tagcast_cli.absent import need
from tagcast_cli.jobs import DEFAULT_DATA, DataFolder
from tagcast_cli.session import session_of

PORT = 8081


def console(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the console on 127.0.0.1.")] = PORT,
    data: DataFolder = DEFAULT_DATA,
    stack: Annotated[str, typer.Option(help="Name of the deployment whose jobs the console may start.")] = "tagcast",
) -> None:
    """Serve the console on this machine until Ctrl-C. The console signs requests to AWS with your profile."""
    need("local.console")
    root = ctx.find_root().params
    words = ["--url", session_of(ctx).api.url, "--port", str(port), "--data", str(Path(data)), "--stack", stack]
    for name in ("profile", "region"):
        if root.get(name):
            words += [f"--{name}", str(root[name])]
    environment = dict(os.environ)
    if root.get("token"):  # Not among the words, which everybody on this machine may read.
        environment["TAGCAST_TOKEN"] = str(root["token"])
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "local.console", *words], environment)
