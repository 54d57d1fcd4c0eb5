"""Every option that takes a duration takes it in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tagcast_cli.app import app

from tests.unit.cli.conftest import FakeApi, Run

SUBSCRIPTION = {"topic": "t", "name": "A", "endpoint": {"protocol": "http", "url": "http://x/"}}


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


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300), ("90", 90), ("1h", 3600)])
def test_an_interval_is_taken_as_a_retention_is(api: FakeApi, run: Run, text: str, seconds: int) -> None:
    api.teach("PUT /topics/t/subscriptions/A", SUBSCRIPTION, 201)

    result = run("subscribe", "t", "A", "--url", "http://x/", "--strategy", "BACKOFF_RETRY", "--interval", text)

    assert result.exit_code == 0, result.output
    assert api.requests[0].body["retry"] == {"strategy": "BACKOFF_RETRY", "interval_seconds": seconds}


def test_what_is_no_duration_is_told_with_examples(run: Run) -> None:
    for words in (["rotate-secret", "t", "A", "--grace"], ["consume", "t", "g", "--later"], ["listen", "--delay"]):
        refused = run(*words, "soon")
        assert (refused.exit_code, "90, 90s, 15m" in refused.stderr) == (2, True), refused.stderr

    assert "0 s to 12 h" in run("consume", "t", "g", "--later", "1d").stderr
