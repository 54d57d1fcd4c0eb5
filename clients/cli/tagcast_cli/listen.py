"""`tagcast listen`: a receiver in the terminal, with one line per push."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text
from tagcast_client.operation import Json

from tagcast_cli.instant import duration
from tagcast_cli.receiver import FaultPlan, Push, Receiver, Reply
from tagcast_cli.session import Session, session_of
from tagcast_cli.visible import visible_line

BODY_SHOWN_MAX = 60
UNPRINTED = (OSError, SystemExit)
"""Errors while printing a line. Rich raises SystemExit when the reader of a pipe has ended."""


def tags_of(header: str) -> list[str]:
    """Return the tags in a push's `x-tagcast-tags` header. Return no tags if the header is not a JSON array.

    >>> tags_of('["apple", "imac"]'), tags_of("apple")
    (['apple', 'imac'], [])
    """
    try:
        tags = json.loads(header)
    except (ValueError, RecursionError):
        return []
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def body_text(body: bytes) -> str:
    """Return the body of a message as short text. Return its number of bytes if it is not UTF-8."""
    try:
        line = " ".join(body.decode().split())
    except UnicodeDecodeError:
        return f"{len(body)} bytes"
    return line if len(line) <= BODY_SHOWN_MAX else line[: BODY_SHOWN_MAX - 1] + "…"


def _message_body(push: Push) -> bytes:
    """Return the body of a pushed message: the body in the push's envelope, or the push's whole body without one.

    An envelope has the message id of the push. A producer does not know this id, so its JSON is not an envelope.
    """
    try:
        envelope = json.loads(push.body)
    except (ValueError, RecursionError):
        return push.body
    if not isinstance(envelope, dict) or envelope.get("message_id") != push.message_id:
        return push.body
    return str(envelope.get("body", envelope.get("body_base64", ""))).encode(errors="replace")


def push_line(push: Push, reply: Reply, name: str | None) -> Text:
    """Return a push as text: time, subscription, message, attempt and response. A batch has a further line per message.

    *name* is the receiver's name, or None.
    """
    line = begin_line(name)
    line.append(f" {visible_line(f'{push.topic}/{push.subscription}')}", style="cyan")
    line.append(f" #{push.number} {visible_line(push.message_id)} attempt {push.attempt} ")
    line.append(str(reply.status), style="green" if reply.succeeded else "red")
    if not push.batched:
        return append_content(line, tags_of(push.tags), _message_body(push))
    line.append(f" {len(push.batched)} message{'s' if len(push.batched) > 1 else ''}")
    for message in push.batched:
        append_content(line.append(f"\n    {visible_line(message.message_id)}"), message.tags or (), message.body)
    return line


def check_line(origin: str, name: str | None) -> Text:
    """Return a verification request as a line: time, *name* of the receiver if any, *origin*, and response."""
    line = begin_line(name)
    return line.append(f" verification request from {visible_line(origin)}: ").append("confirmed", style="green")


def begin_line(name: str | None = None) -> Text:
    """Return the beginning of a line: the time, and the name of the receiver, if any."""
    line = Text(datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3], style="dim")
    return line.append(f" {name}", style="bold") if name else line


def append_content(line: Text, tags: Sequence[str], body: bytes) -> Text:
    """Return *line* with the tags and the body of a message."""
    if tags:
        line.append(f" [{visible_line(', '.join(tags))}]", style="magenta")
    return line.append(f" {visible_line(body_text(body))}")


def _push_json(push: Push, reply: Reply) -> Json:
    return {
        "topic": push.topic,
        "subscription": push.subscription,
        "message_id": push.message_id,
        "attempt": push.attempt,
        "number": push.number,
        "status": reply.status,
        "tags": tags_of(push.tags),
        "body": push.body.decode("utf-8", "replace"),
    }


@dataclass
class LinePrinter:
    """Prints a line for each message, and stops the command after *stop_after* messages, or when the output fails.

    A *stop_after* of None sets no limit. *seen* counts the messages. *fault* is the error of the output, or None.
    *enough* is set when the command has to stop.
    """

    session: Session
    stop_after: int | None
    seen: int = 0
    fault: BaseException | None = None
    enough: threading.Event = field(default_factory=threading.Event)

    def print(self, line: Text, fields: Json) -> None:
        """Print a message as *line*, or as *fields* with --json.

        Raises the error of the output, also if an earlier line failed.
        """
        if self.fault is not None:
            raise self.fault
        self.seen += 1
        try:
            self.session.print_line(line, fields)
        except UNPRINTED as fault:
            self.fault = fault
            raise
        finally:
            if self.fault is not None or self.seen == self.stop_after:
                self.enough.set()

    def wait(self) -> None:
        """Wait until the command has to stop. Raises the error of the output if it failed."""
        while not self.enough.wait(0.5):
            pass
        if self.fault is not None:
            raise self.fault


def listen(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 selects a free port.")] = 9000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="Name of this receiver, printed on every line.")] = None,
    fail_from: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Fail from the Nth push of a subscription on.")
    ] = None,
    fail_until: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Fail up to the Nth push, then recover.")
    ] = None,
    status: Annotated[int, typer.Option(min=200, max=599, help="Status of a failure.")] = 500,
    delay: Annotated[int | None, duration(help="Wait before every answer, such as 2s.")] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N pushes; default: on Ctrl-C.")
    ] = None,
) -> None:
    """Receive pushes. Print a line for each push, and for each message of a batch. Options let pushes fail on purpose.

    listen counts the pushes of each subscription, retries included. It ignores signatures, and confirms every
    verification request.
    """
    session = session_of(ctx)
    out = session.out
    plan = FaultPlan(fail_from, fail_until, status, float(delay or 0))
    lines = LinePrinter(session, stop_after)

    def report_check(origin: str) -> None:
        if not session.as_json:
            out.print(check_line(origin, name), soft_wrap=True)

    try:
        receiver = Receiver(
            lambda push: plan.reply_to(push.number),
            lambda push, reply: lines.print(push_line(push, reply, name), _push_json(push, reply)),
            on_check=report_check,
            port=port,
            host=host,
        ).start()
    except OSError as error:
        raise typer.BadParameter(f"cannot listen on {host}:{port}: {error.strerror}") from None
    if not session.as_json:
        out.print(Text(f"Listening on {receiver.url} — press Ctrl-C to stop."))
    try:
        lines.wait()
    except KeyboardInterrupt:
        pass
    finally:
        receiver.stop()
    if not session.as_json:
        refused = Counter(push.subscription for push in receiver.refused)
        for each, pushes in sorted(receiver.totals().items()):
            counts = f"{pushes} pushes, {pushes - refused[each]} accepted, {refused[each]} refused"
            out.print(Text(f"{each}: {counts}"))
