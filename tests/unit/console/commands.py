"""Runs the commands that pages of the console show."""

import shlex

import httpx
import pytest
import tagcast_cli.app as command_line
import typer
from tagcast_client import Client

from tests.unit.console.visitor import API

APP = typer.main.get_command(command_line.app)


def exit_code(api: httpx.BaseTransport, line: str) -> int:
    """Run a command line as it stands, against an API, and return its exit code."""
    program, *words = shlex.split(line)
    assert program == "tagcast"
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("TAGCAST_SECRET", raising=False)
        patched.setattr(command_line, "client_for", lambda *_: Client(API, transport=api))
        try:
            return APP.main(words, prog_name="tagcast", standalone_mode=False) or 0
        except typer.BadParameter as wrong:
            return wrong.exit_code
