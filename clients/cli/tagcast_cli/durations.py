"""Durations in options, all in the same notation."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from tagcast_cli.instant import readable_duration, seconds_of


def _read(text: object, shortest_s: int, longest_s: int | None) -> int:
    try:
        seconds = seconds_of(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if seconds < shortest_s or (longest_s is not None and seconds > longest_s):
        bounds = (
            f"at least {shortest_s} s" if longest_s is None else f"{shortest_s} s to {readable_duration(longest_s)}"
        )
        raise typer.BadParameter(f"{text} is out of range: {bounds}")
    return seconds


def duration(*names: str, help: str, shortest_s: int = 0, longest_s: int | None = None) -> Any:
    """Return an option for a duration such as 90, 90s, 15m, 12h or 1d; its value is in whole seconds."""
    parser = partial(_read, shortest_s=shortest_s, longest_s=longest_s)
    return typer.Option(*names, parser=parser, metavar="DURATION", help=help)
