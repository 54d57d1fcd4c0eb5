"""Makes texts from producers and receivers safe to print: control characters become visible."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# C0 without tab and line feed, DEL, C1, surrogates, and characters that change the text direction or break lines.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKING = re.compile("[\t\n]")
# JSON always escapes C0. These characters occur only in its strings.
_UNESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return *text* with control characters as Python escapes. Line ends stay.

    >>> print(visible("\x1b]0;owned\x07 caf\u00e9\u202e\n\x9b2J"))
    \x1b]0;owned\x07 café\u202e
    \x9b2J
    """
    return _ACTING.sub(_notation, text)


def visible_line(text: str) -> str:
    r"""Return *text* on one line, with control characters and line ends as Python escapes.

    >>> print(visible_line("paid\nstate  deleted"))
    paid\nstate  deleted
    """
    return _BREAKING.sub(_notation, visible(text))


def visible_json(text: str) -> str:
    r"""Return equivalent JSON with control characters escaped.

    >>> print(visible_json('{"body":"\x9b2J\\u001b"}'))
    {"body":"\u009b2J\u001b"}
    """
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_unprintable() -> None:
    """Make standard output escape the characters that its encoding lacks, as JSON does. With UTF-8 nothing changes.

    If the shell closed an output (``>&-``), printing to this output does nothing.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    codecs.register_error(_escape_characters.__name__, _escape_characters)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_escape_characters.__name__)


def _escape_characters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _notation(found: re.Match[str]) -> str:
    named = {"\t": "\\t", "\n": "\\n"}
    code = ord(found[0])
    return named.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


class VisibleConsole(Console):
    """A console that makes control characters in texts visible. Only its own control codes reach the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render like rich, with control characters made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
