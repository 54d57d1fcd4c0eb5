"""`tagcast tail`: the events of a topic, one per line."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC
from itertools import islice
from typing import Annotated, Literal

import typer
from rich.text import Text
from tagcast_client.models import TailEvent
from tagcast_client.operation import drop_none

from tagcast_cli.screen import state_text
from tagcast_cli.session import TopicName, session_of
from tagcast_cli.visible import visible_line


def event_line(event: TailEvent) -> Text:
    """Return an event in one line: time, message, subscription, state, attempt and outcome.

    >>> from datetime import datetime
    >>> event = TailEvent(datetime(2026, 5, 1, 12, tzinfo=UTC), "delivery", "blocked", "42", "billing", 2, "http 500")
    >>> event_line(event).plain
    '12:00:00.000 42 billing blocked attempt 2 http 500'
    """
    line = Text(event.happened_at.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3], style="dim")
    if event.message_id:
        line.append(f" {visible_line(event.message_id)}")
    if event.subscription:
        line.append(f" {visible_line(event.subscription)}", style="cyan")
    line.append(" ").append_text(state_text(event.state))
    if event.attempts:
        line.append(f" attempt {event.attempts}")
    if event.outcome:
        line.append(f" {visible_line(event.outcome)}", style="dim")
    return line


def tail(
    ctx: typer.Context,
    topic: TopicName,
    subscription: Annotated[str | None, typer.Option("--subscription", "-s", help="Only this subscription.")] = None,
    state: Annotated[str | None, typer.Option(help="Only this state, such as blocked or delivered.")] = None,
    kind: Annotated[
        Literal["message", "delivery", "lane"] | None,
        typer.Option(help="Only events of messages, deliveries or lanes."),
    ] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N events; default: on Ctrl-C.")
    ] = None,
) -> None:
    """Watch the events of a topic live: messages, deliveries and lanes, without bodies."""
    session = session_of(ctx)
    is_narrow = any((kind, subscription, state))
    left = stop_after
    try:
        for page in session.api.watch(topic, kind=kind, subscription=subscription, state=state):
            if page.left_out and not is_narrow:
                session.warn(f"{page.left_out} more events are not shown")
            for event in islice(page.events, left):
                session.print_line(event_line(event), drop_none(**asdict(event)))
            left = None if left is None else left - len(page.events)
            if left is not None and left <= 0:
                return
    except KeyboardInterrupt:
        return
