"""Every option that takes a duration takes it in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from tagcast_cli.app import app

from tests.unit.cli.conftest import Run


def options(command: Any, path: str = "tagcast") -> Iterator[tuple[str, Any]]:
    """Yield every option of every command, with the words that lead to it."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, f"{path} {name}")
    for parameter in command.params:
        yield f"{path} {parameter.opts[-1]}", parameter


def test_every_duration_is_written_in_the_same_way() -> None:
    every = dict(options(typer.main.get_command(app)))
    durations = {where for where, option in every.items() if option.metavar == "DURATION"}

    assert [where for where, option in every.items() if option.metavar == "SECONDS"] == []
    named = re.compile(r"--(retention|interval|max-interval|timeout|grace|later|delay|since)$")
    assert durations == {where for where in every if named.search(where)}
    for where in durations:
        assert every[where].type_descriptor.parameter_info.parser("30s") == 30, where


def test_what_is_no_duration_is_told_with_examples(run: Run) -> None:
    for words in (["rotate-secret", "t", "A", "--grace"], ["consume", "t", "g", "--later"], ["listen", "--delay"]):
        refused = run(*words, "soon")
        assert (refused.exit_code, "90, 90s, 15m" in refused.stderr) == (2, True), refused.stderr

    assert "0 s to 12 h" in run("consume", "t", "g", "--later", "1d").stderr
