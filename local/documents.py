"""The documents that are made from the code: `python -m local.documents` writes them, a test compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from tagcast_cli.app import app

from local.template.translated import read_template

ROOT = Path(__file__).resolve().parents[1]
CLI, DEPLOY = "docs/cli.md", "docs/deploy.md"


def documents() -> dict[str, str]:
    """Return the text of every document that is made from the code, whole or in part, by its path."""
    deploy = _with_part((ROOT / DEPLOY).read_text(), "parameters", _parameters())
    return {CLI: commands(), DEPLOY: deploy}


def commands() -> str:
    """Return the page of the command line: each command and its help's first sentence, by the panels of the help."""
    panels: dict[str, list[str]] = {}
    for panel, name, sentence in _commands(typer.main.get_command(app)):
        panels.setdefault(panel, []).append(f"| `{name}` | {sentence} |")
    tables = ["\n".join([f"## {panel}\n", "| command | |", "|---|---|", *rows]) for panel, rows in panels.items()]
    return "\n\n".join([_COMMANDS_HEAD, *tables]) + "\n"


_COMMANDS_HEAD = """# The command line

`tagcast COMMAND --help` prints the arguments and options of a command, `tagcast --help` the options of all commands.
How to install it, and what some commands need besides: [clients/cli](../clients/cli/README.md)."""


def _commands(command: Any, name: str = "tagcast", panel: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield panel, name and first sentence of each command that has none below it."""
    below = getattr(command, "commands", None)
    if below is None:
        first = " ".join(command.help.split("\n\n")[0].split())
        yield panel, name, re.split(r"(?<=\.) (?=[A-Z`])", first)[0].replace("|", "\\|")
        return
    for inner, one in below.items():
        yield from _commands(one, f"{name} {inner}", panel or one.rich_help_panel)


def _parameters() -> str:
    rows = (f"| `{name}` | {default} | {text} |" for name, default, text in _described())
    return "\n".join(["| parameter | default | |", "|---|---|---|", *rows])


def _described() -> Iterator[tuple[str, str, str]]:
    for name, parameter in read_template(ROOT / "template.yaml").parameters.items():
        text = " ".join(parameter["Description"].split())
        default = str(parameter["Default"])
        yield name, f"`{default}`" if default else "none", re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text)


def _with_part(text: str, name: str, part: str) -> str:
    """Return *text* with what stands between the marks of a part exchanged."""
    marks = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{part}\n{found[2]}", text)


if __name__ == "__main__":
    for path, text in documents().items():
        (ROOT / path).write_text(text)
