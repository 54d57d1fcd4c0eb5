"""Formats help for a terminal of 80 columns: paragraphs without line breaks, short value names."""

from __future__ import annotations

import re
from enum import Enum
from inspect import isclass
from pathlib import Path
from typing import Any, get_args

SHOWN_CHOICES_MAX = 18
"""Longer lists of choices, in characters, are shortened. Their column takes its width from the help text."""
_NAMES = {bool: "", int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def unwrap(text: str) -> str:
    r"""Return paragraphs as one line each.

    >>> unwrap("One\ntwo.\n\nThree.\n")
    'One two.\n\nThree.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def make_readable(command: Any) -> None:
    """Reformat the help of a command and its subcommands."""
    if command.help:
        command.help = unwrap(command.help)
    for option in command.params:
        if option.param_type_name == "option" and option.metavar is None:
            _name_value(option)
    for inner in getattr(command, "commands", {}).values():
        make_readable(inner)


def _name_value(option: Any) -> None:
    annotation = option.type_descriptor.annotation
    kind = (get_args(annotation) or (annotation,))[0]
    if isclass(kind) and issubclass(kind, Enum):
        choices = [str(each.value) for each in kind]
        option.metavar = "|".join(choices)
        if len(option.metavar) > SHOWN_CHOICES_MAX:
            option.metavar = "NAME"
            option.help = f"{option.help or ''} One of {', '.join(choices)}.".strip()
    else:
        option.metavar = _NAMES.get(kind, "TEXT")
