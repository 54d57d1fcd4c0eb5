"""Help is read in a terminal of 80 columns: it wraps at words, where a line is full, and cuts nothing."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import typer
from tagcast_cli.app import app
from typer.testing import CliRunner

COLUMNS = 80
FRAMES = re.compile("[│╭╮╰╯─]+")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


EVERY = dict(commands(typer.main.get_command(app)))


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_wraps_where_a_line_is_full_and_cuts_no_word(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"]).output
    lines = shown.splitlines()

    assert max(map(len, lines)) <= COLUMNS
    prose = shown.partition("Usage:")[2].partition("╭")[0].splitlines()[1:]
    for line, following in pairwise(prose):
        if line.strip() and following.strip():
            assert len(line.rstrip()) + 1 + len(following.split()[0]) >= COLUMNS - 1, line
    words = FRAMES.sub(" ", shown).split()
    for option in EVERY[path].params:
        if option.param_type_name == "option" and "completion" not in option.name:
            missing = [word for word in (option.help or "").split() if word not in words]
            assert missing == [], option.opts
            assert not option.metavar or option.metavar in " ".join(words)


def test_a_value_is_named_by_what_it_is_to_people() -> None:
    for path, command in EVERY.items():
        for option in command.params:
            if option.param_type_name == "option" and "completion" not in option.name:
                assert option.metavar is not None, (path, option.opts)
    strategy = next(each for each in EVERY["subscribe",].params if each.name == "strategy")
    assert strategy.help.endswith(". One of BACKOFF_RETRY, EXPONENTIAL_DECAY_RETRY, INDEPENDENT_RETRY.")


def test_a_default_duration_is_shown_as_it_is_written() -> None:
    durations = [each for command in EVERY.values() for each in command.params if each.metavar == "DURATION"]
    assert [each.opts for each in durations if each.default is not None and each.show_default] == []
    assert "default: 1d" in CliRunner().invoke(app, ["history", "--help"]).output
