"""Whatever the documents write as a command is one: its name, its options, as many arguments."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tagcast_cli.app import app
from typer.exceptions import TyperException

COMMANDS: Any = typer.main.get_command(app)
ROOT = Path(__file__).parents[3]
PAGES = [f"docs/{each.name}" for each in ROOT.glob("docs/*.md")]
DOCUMENTS = ("README.md", "clients/python/README.md", "clients/cli/README.md", *PAGES)
COMMAND = re.compile(r"(?:`|^(?:\$ .*?)?\b)tagcast (?:--json |--(?:url|profile) [^\s`]+ )*(?!is )([a-z][^`\n]*)", re.M)


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of each command that stands in *text* as code, or on a line of a shell."""
    for found in COMMAND.findall(text):
        yield shlex.split(re.split(r" \| |  # | &$|\)$", found)[0])


def parse(words: list[str]) -> None:
    """Read *words* as the command line does, and do nothing; what only names a command may leave all else out."""
    command = COMMANDS
    while words and hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    if words:
        command.make_context("tagcast", list(words))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_that_a_document_writes_can_be_given(name: str) -> None:
    for words in commands_in((ROOT / name).read_text()):
        parse(words)


@pytest.mark.parametrize("line", ["explain a b c", "subscribe a b --no-such-option", "topic forget a", "forget"])
def test_what_is_no_command_is_told(line: str) -> None:
    with pytest.raises((TyperException, KeyError)):
        parse(line.split())
