"""`tagcast publish`, `messages`, `message`, `explain`: messages and what became of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.operation import Json, path_of

from local.cli.content import ContentType, PropertyPairs, RoutingKey, Tags, body_bytes, message_of
from local.cli.instant import readable_instant
from local.cli.screen import fault_lines, fields_table, rows_table, state_text
from local.cli.session import (
    Cursor,
    EveryPage,
    Limit,
    Listing,
    MessageId,
    Page,
    Session,
    TopicName,
    session_of,
)
from local.cli.tree import explanation_tree
from local.cli.visible import visible_json

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 4 * 1024 * 1024
ATTEMPTED_MAX = 100


def copies_per_batch(message: Json, count: int) -> Iterator[int]:
    """How many copies of a message go into each batch, within the limits of the batch route.

    >>> list(copies_per_batch({"body": "x"}, 250))
    [100, 100, 50]
    """
    message_bytes = len(json.dumps(message, ensure_ascii=False).encode()) + 2
    largest = max(1, min(BATCH_MESSAGES_MAX, (BATCH_BYTES_MAX - 64) // message_bytes))
    while count > 0:
        yield min(largest, count)
        count -= largest


def publish(
    ctx: typer.Context,
    topic: TopicName,
    body: Annotated[
        str | None,
        typer.Argument(help="The body; - or nothing reads standard input, @FILE a file.", show_default=False),
    ] = None,
    tag: Tags = None,
    routing_key: RoutingKey = None,
    property_pairs: PropertyPairs = None,
    ordering_key: Annotated[str | None, typer.Option(help="Key of its order in a topic ordered by key.")] = None,
    content_type: ContentType = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A repetition with the same key within 5 minutes publishes nothing.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Publish N copies, in batches of up to 100.")
    ] = None,
) -> None:
    """Publish a message to a topic."""
    message = message_of(
        body_bytes(body),
        tags=tag,
        routing_key=routing_key,
        property_pairs=property_pairs,
        ordering_key=ordering_key,
        content_type=content_type,
    )
    session = session_of(ctx)
    if count is not None:
        _publish_copies(session, topic, message, count, idempotency_key)
        return
    headers = {"idempotency-key": idempotency_key} if idempotency_key else None
    answer = session.api.request("POST", path_of("topics", topic, "messages"), message, headers=headers)
    session.show(answer, _accepted)


def _accepted(answer: Json) -> RenderableType:
    matched = answer.get("matched")
    note = Text("Nobody matched: it was discarded at once.", style="yellow") if matched == 0 else Text("")
    return Group(fields_table(answer), note) if note else fields_table(answer)


def _publish_copies(session: Session, topic: str, message: Json, count: int, key: str | None) -> None:
    accepted: list[Json] = []
    refused: list[Json] = []
    for number, copies in enumerate(copies_per_batch(message, count)):
        # Each batch is a request of its own, and so is its claim on the key.
        headers = {"idempotency-key": key if number == 0 else f"{key}-{number}"} if key else None
        path = path_of("topics", topic, "messages", "batch")
        answer = session.api.request("POST", path, {"messages": [message] * copies}, headers=headers)
        if session.as_json:
            typer.echo(visible_json(answer.text.rstrip("\n")))
        for outcome in answer.json.get("results", []):
            (refused if "error" in outcome else accepted).append(outcome)
    if not session.as_json:
        session.out.print(_copies_summary(accepted, refused))
    if refused:
        raise typer.Exit(1)


def _copies_summary(accepted: list[Json], refused: list[Json]) -> RenderableType:
    lines: list[RenderableType] = []
    if accepted:
        first, last = accepted[0]["message_id"], accepted[-1]["message_id"]
        spread = Counter(outcome.get("matched") for outcome in accepted)
        matched = ", ".join(f"{number} × {subscribers}" for subscribers, number in spread.items())
        lines.append(fields_table({"accepted": len(accepted), "first": first, "last": last, "matched": matched}))
    if refused:
        error = refused[0]["error"]
        problem = error if isinstance(error, dict) else {"title": str(error)}
        lines.append(Text(f"{len(refused)} refused; the first:", style="bold red"))
        lines.append(fault_lines(problem, int(problem.get("status") or 422)))
    return Group(*lines)


def _row(message: Json) -> list[Any]:
    states = Counter(entry.get("state") for entry in (message.get("subscribers") or {}).values())
    return [
        message.get("message_id"),
        state_text(message.get("state")),
        readable_instant(message.get("accepted_at")),
        readable_instant(message.get("expires_at")),
        message.get("tags") or None,
        ", ".join(f"{number} {state}" for state, number in states.items()) or message.get("pending"),
    ]


LISTING = Listing(
    key="messages",
    headings=("message", "state", "accepted", "expires", "tags", "subscribers"),
    row=_row,
    empty="Nothing is retained.",
)


def list_messages(
    ctx: typer.Context, topic: TopicName, limit: Limit = 50, cursor: Cursor = None, every: EveryPage = False
) -> None:
    """List the retained messages of a topic, oldest first."""
    session_of(ctx).show_list(path_of("topics", topic, "messages"), LISTING, Page(limit, cursor, every))


def _state_map(answers: Sequence[Json]) -> RenderableType:
    """Return the message as its first page tells it, and the entries of all *answers*."""
    rows = [
        [
            name,
            state_text(entry.get("state")),
            entry.get("attempts"),
            readable_instant(entry.get("last_attempt_at")),
            entry.get("last_outcome"),
        ]
        for answer in answers
        for name, entry in (answer.get("subscribers") or {}).items()
    ]
    fields = fields_table(answers[0], leave_out=("subscribers", "next_cursor"))
    if not rows:
        return Group(fields, Text("No subscription matched."))
    return Group(fields, rows_table(rows, "subscription", "state", "attempts", "last attempt", "last outcome"))


def _attempt_rows(answers: Sequence[Json]) -> RenderableType:
    rows = [
        [
            delivery.get("subscription"),
            f"{attempt.get('attempt')} of {delivery.get('attempts')}",
            readable_instant(attempt.get("ended_at")),
            attempt.get("took_ms"),
            attempt.get("outcome"),
            attempt.get("response"),
        ]
        for answer in answers
        for delivery in answer.get("deliveries") or []
        for attempt in delivery.get("history") or []
    ]
    if not rows:
        return Text("No attempt is remembered: nothing failed so far.")
    return rows_table(rows, "subscription", "attempt", "ended", "ms", "outcome", "response")


def message(
    ctx: typer.Context,
    topic: TopicName,
    message_id: MessageId,
    attempts: Annotated[bool, typer.Option("--attempts", help="Show the last attempts that did not succeed.")] = False,
    cursor: Cursor = None,
    every: EveryPage = False,
) -> None:
    """Show a message, or its receipt, with the state of every subscription it was for, 1,000 a page."""
    session = session_of(ctx)
    path = path_of("topics", topic, "messages", message_id, *(["attempts"] if attempts else []))
    answers = session.read(path, Page(ATTEMPTED_MAX if attempts else None, cursor, every))
    if not session.as_json:
        session.out.print(_attempt_rows(answers) if attempts else _state_map(answers))
        session.tell_of_more(answers[-1], "--all")


def explain(
    ctx: typer.Context,
    topic: TopicName,
    message_id: MessageId,
    subscription: Annotated[str, typer.Option("--subscription", "-s", help="Name of the subscription.")],
) -> None:
    """Say why a subscription did or did not receive a message."""
    session = session_of(ctx)
    path = path_of("topics", topic, "messages", message_id, "explain")
    answer = session.api.request("GET", path, query={"subscription": subscription})
    session.show(answer, lambda shown: explanation_tree(f"{message_id} → {subscription}", shown))
