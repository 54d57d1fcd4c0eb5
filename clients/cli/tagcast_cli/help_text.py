"""Help as a terminal of 80 columns shows it: paragraphs without the line ends of the source, short value names."""

from __future__ import annotations

import re
from enum import Enum
from inspect import isclass
from pathlib import Path
from typing import Any, get_args

SHOWN_CHOICES_MAX = 18
"""Characters: the names of values stand in a column of their own, which takes its width from the text beside it."""
_NAMES = {bool: "", int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def unwrapped(text: str) -> str:
    r"""Return paragraphs as one line each.

    >>> unwrapped("One\ntwo.\n\nThree.\n")
    'One two.\n\nThree.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def make_readable(command: Any) -> None:
    """Change the help of a command, and of those below it."""
    if command.help:
        command.help = unwrapped(command.help)
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
