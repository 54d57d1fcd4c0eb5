"""`tagcast lane`, `pause`, `resume`, `retry`, `skip`: one subscription's side of a topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.operation import Json, path_of

from local.cli.instant import readable_instant
from local.cli.screen import fields_table, rows_table, state_text
from local.cli.session import Cursor, EveryPage, Limit, Listing, Page, SubscriptionName, TopicName, session_of
from local.cli.subscriptions import pending_note, subscription_fields
from local.cli.visible import visible_json


def lane_fields(answer: Json) -> RenderableType:
    """The state of a lane; takes the lane itself or a subscription that holds it."""
    lane = answer.get("lane", answer)
    shown = {name: value for name, value in lane.items() if name != "head"}
    if head := lane.get("head"):
        shown["head"] = head.get("message_id")
        shown["head_attempts"] = head.get("attempts")
        shown["next_attempt_at"] = head.get("next_attempt_at")
    return fields_table(shown)


def _row(delivery: Json) -> list[Any]:
    return [
        delivery.get("message_id"),
        state_text(delivery.get("state")),
        delivery.get("attempts"),
        readable_instant(delivery.get("next_attempt_at")),
        readable_instant(delivery.get("expires_at")),
        delivery.get("last_outcome"),
    ]


HEADINGS = ("message", "state", "attempts", "next attempt", "expires", "last outcome")


def lane(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> None:
    """Show the lane of a subscription: its state, its head and its backlog in order.

    With --json: {"subscription": …, "backlog": …}, both as the API answers them.
    """
    session = session_of(ctx)
    path = path_of("topics", topic, "subscriptions", subscription)
    described = session.api.request("GET", path).json
    backlog = session.api.request("GET", path + "/backlog", query={"limit": limit, "cursor": cursor}).json
    if session.as_json:
        typer.echo(visible_json(json.dumps({"subscription": described, "backlog": backlog}, ensure_ascii=False)))
        return
    session.out.print(subscription_fields(described))
    session.out.print(Text("lane", style="bold underline"))
    session.out.print(lane_fields(described))
    if (note := pending_note(described)) is not None:
        session.out.print(note)
    deliveries = backlog.get("deliveries", [])
    if not deliveries:
        session.out.print("Nothing is owed.")
        return
    session.out.print(rows_table(map(_row, deliveries), *HEADINGS))
    session.tell_of_more(backlog)


def _urgent_row(lane: Json) -> list[Any]:
    head = lane.get("head") or {}
    return [
        state_text(lane.get("state")),
        lane.get("topic"),
        lane.get("subscription"),
        head.get("message_id"),
        head.get("attempts"),
        readable_instant(head.get("next_attempt_at")),
        readable_instant(head.get("expires_at")),
        head.get("last_outcome"),
    ]


LISTING = Listing(
    key="lanes",
    headings=("state", "topic", "subscription", *(name for name in HEADINGS if name != "state")),
    row=_urgent_row,
    empty="Every lane is active.",
)


def lanes(ctx: typer.Context, limit: Limit = 20, cursor: Cursor = None, every: EveryPage = False) -> None:
    """List the lanes of all topics that are not active, in the order in which somebody has to look at them."""
    session_of(ctx).show_list("/lanes", LISTING, Page(limit, cursor, every))


def _command(
    ctx: typer.Context,
    topic: str,
    subscription: str,
    verb: str,
    done: Callable[[Json], str],
    body: Json | None = None,
) -> None:
    session = session_of(ctx)
    answer = session.api.request("POST", path_of("topics", topic, "subscriptions", subscription, verb), body)
    session.show(answer, lambda shown: Group(Text(done(shown)), lane_fields(shown)))


def pause(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Make no more attempts until `resume`; what is owed waits, and still expires."""
    _command(ctx, topic, subscription, "pause", lambda lane: f"{subscription} on {topic} is paused.")


def resume(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """End a pause, or a suspension by 410 Gone."""
    _command(ctx, topic, subscription, "resume", lambda lane: f"{subscription} on {topic} goes on.")


def retry(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Attempt the head now, whatever the schedule says."""

    def done(lane: Json) -> str:
        if lane.get("state") == "active":
            return f"Nothing is owed to {subscription} on {topic}: nothing was retried."
        return f"{subscription} on {topic}: its head is attempted now."

    _command(ctx, topic, subscription, "retry", done)


def skip(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    reason: Annotated[str, typer.Option(help="Why; recorded with the delivery.")],
) -> None:
    """Cancel the head, so that the next delivery takes its place."""
    _command(
        ctx,
        topic,
        subscription,
        "skip",
        lambda lane: f"{subscription} on {topic}: its head was skipped.",
        {"reason": reason},
    )
