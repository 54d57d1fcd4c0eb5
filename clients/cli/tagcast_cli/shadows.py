"""`tagcast versions` and `tagcast shadow …`: the history of a filter, and candidate filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.operation import Json, drop_none, path_of

from tagcast_cli.filters import FilterOptions, filter_text, warning_lines
from tagcast_cli.instant import readable_instant
from tagcast_cli.options import with_options
from tagcast_cli.screen import Column, fields_table, items_table
from tagcast_cli.session import Listing, ShortPage, SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import subscription_fields

shadow = typer.Typer(no_args_is_help=True, help="Run a candidate filter alongside the active one, without deliveries.")

_WAYS = {"only_active": "only the active filter", "only_shadow": "only the shadow"}
SAMPLES: Mapping[str, Column] = {
    "message": "message_id",
    "matched by": lambda sample: _WAYS.get(sample["way"], sample["way"]),
}


VERSIONS = Listing(
    key="versions",
    columns={"version": "version", "filter": lambda kept: filter_text(kept.get("filter")), "since": "changed_at"},
    empty="No version is kept.",
)


@with_options
def versions(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName, page: ShortPage) -> None:
    """List the kept versions of a subscription's filter, newest first."""
    path = path_of("topics", topic, "subscriptions", subscription, "versions")
    session_of(ctx).show_list(path, VERSIONS, page)


def _path(topic: str, subscription: str, *rest: str) -> str:
    return path_of("topics", topic, "subscriptions", subscription, "shadow", *rest)


def shadow_report(answer: Json) -> RenderableType:
    """Return a shadow: its filter, its counts, and sample messages. Only one of the two filters matches a sample."""
    shown = dict(answer)
    counts = shown.pop("counts", {})
    samples = shown.pop("samples", [])
    shown["filter"] = filter_text(shown.get("filter"))
    shown["since"] = readable_instant(shown.get("since"))
    parts: list[Any] = [
        fields_table(shown, leave_out=("warnings",)),
        *warning_lines(answer),
        Text("counts", style="bold underline"),
        fields_table(counts),
    ]
    if samples:
        parts.append(items_table(samples, SAMPLES))
    else:
        parts.append(Text("No differences seen.", style="dim"))
    return Group(*parts)


@shadow.command("set")
@with_options
def set_shadow(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName, filter: FilterOptions) -> None:
    """Run a candidate filter as the shadow of a subscription. It replaces an earlier shadow.

    Without a filter option the shadow matches everything. Setting the same filter again keeps the counts.
    """
    session_of(ctx).send("PUT", _path(topic, subscription), shadow_report, {"filter": filter.filter()})


@shadow.command("show")
def show_shadow(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Show the shadow, with its counts and samples, and the active filter."""
    session_of(ctx).send("GET", _path(topic, subscription), shadow_report)


@shadow.command("promote")
def promote_shadow(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    version: Annotated[
        int | None,
        typer.Option("--shadow-version", help="Promote only if this is the current shadow (see `shadow show`)."),
    ] = None,
) -> None:
    """Make the shadow the active filter, and delete the shadow."""
    path, sentence = _path(topic, subscription, "promote"), f"The shadow of {subscription} is now its filter."
    body = drop_none(shadow_version=version)
    session_of(ctx).send("POST", path, lambda shown: Group(Text(sentence), subscription_fields(shown)), body)


@shadow.command("delete")
def delete_shadow(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Delete the shadow; the active filter stays."""
    session_of(ctx).send("DELETE", _path(topic, subscription), f"The shadow of {subscription} was deleted.")
