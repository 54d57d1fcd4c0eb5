"""Formats the functions' JSON logs for people, with one line per attempt of a delivery."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TextIO

from local.functions.quick_json import decode

LOUD = ("WARNING", "ERROR", "CRITICAL")
OF_METRICS = '"_aws"'
"""A text that only EMF lines contain."""
_PLUMBING = ("START ", "END ", "REPORT ", "[INFO]")


def format_line(function: str, line: str, at: datetime) -> str | None:
    """Return a function's log line in a form for people; None for lines that people do not need, such as metrics.

    >>> from datetime import datetime
    >>> noon = datetime(2026, 1, 1, 12, 0, 1, 123000)
    >>> format_line("fan-out", '{"message": "attempted", "topic": "test1", "subscription": "A", "attempt": 1,'
    ...     ' "message_id": "00000000000000000042", "outcome": "http 200", "state": "delivered",'
    ...     ' "took_ms": 3}', noon)
    '12:00:01.123  test1 → A  00000000000000000042  attempt 1  http 200  delivered  3 ms'
    >>> format_line("fan-out", '{"level": "WARNING", "message": "the claim is stale", "topic": "t"}', noon)
    '12:00:01.123  WARNING  fan-out: the claim is stale  topic=t'
    >>> print(format_line("mine", "[ERROR] ValueError: no\\rTraceback (most recent call last):", noon))
    12:00:01.123  mine: [ERROR] ValueError: no
    Traceback (most recent call last):
    >>> format_line("fan-out", '{"_aws": {}, "service": "tagcast"}', noon)
    """
    if OF_METRICS in line:
        return None
    clock = at.isoformat(timespec="milliseconds").partition("T")[2]
    entry = _entry(line)
    if entry is None:
        plain = line.strip().replace("\r", "\n")  # The runtime writes a traceback as one line.
        return f"{clock}  {function}: {plain}" if plain and not plain.startswith(_PLUMBING) else None
    if entry.get("message") == "attempted" and "subscription" in entry:
        return f"{clock}  {_attempt(entry)}"
    if entry.get("level") in LOUD:
        return f"{clock}  {entry['level']}  {function}: {entry.get('message')}{_details(entry)}"
    if "errorType" in entry:
        return f"{clock}  ERROR  {function}: {entry['errorType']}: {entry.get('errorMessage')}"
    return None


def _entry(line: str) -> Mapping[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        return dict(decode(line))
    except ValueError:
        return None


def _attempt(entry: Mapping[str, Any]) -> str:
    took = entry.get("took_ms")
    words = [
        f"{entry.get('topic')} → {entry.get('subscription')}",
        str(entry.get("message_id")),
        f"attempt {entry.get('attempt')}",
        str(entry.get("outcome")),
        str(entry.get("state")),
        f"{took:g} ms" if isinstance(took, int | float) else "",
    ]
    return "  ".join(word for word in words if word)


_STANDARD = (
    *("level", "location", "message", "timestamp", "service", "cold_start", "xray_trace_id", "sampling_rate"),
    *("function_name", "function_memory_size", "function_arn", "function_request_id", "stack_trace"),
)


def _details(entry: Mapping[str, Any]) -> str:
    details = [f"{name}={value}" for name, value in entry.items() if name not in _STANDARD]
    return "  " + " ".join(details) if details else ""


def make_printer(names: Callable[[str], str], out: TextIO = sys.stdout) -> Callable[[str, str], None]:
    """Return a function that takes a function's name and a log line, and prints the line in a form for people.

    *names* returns the short name of a function. Control characters are made visible, because the user's functions may
    print text from publishers.
    """
    from tagcast_cli.visible import visible  # It loads rich, which takes longer than the rest of the stack's modules.

    def write(function: str, line: str) -> None:
        shown = format_line(names(function), line, datetime.now())  # noqa: DTZ005 - the reader's own clock
        if shown is not None:
            with suppress(OSError):  # The output was closed, or its disk is full. The function goes on.
                print(visible(shown), file=out, flush=True)

    return write
