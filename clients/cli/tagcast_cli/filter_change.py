"""`tagcast filter set`: replaces the filter of a subscription."""

from __future__ import annotations

from typing import Annotated

import typer
from tagcast_client.operation import path_of

from tagcast_cli.filters import FilterOptions
from tagcast_cli.options import with_options
from tagcast_cli.session import SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import with_note


@with_options
def set_filter(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    filter: FilterOptions,
    if_match: Annotated[
        str | None, typer.Option(help="Only if the subscription still has this version (its ETag).")
    ] = None,
) -> None:
    """Replace the filter of a subscription; without a filter it receives everything. All other settings stay."""
    described = filter.filter()
    session = session_of(ctx)
    answer = session.api.request(
        "PUT",
        path_of("topics", topic, "subscriptions", name, "filter"),
        {"filter": described},
        headers={"if-match": if_match} if if_match else None,
    )
    session.show(answer, lambda shown: with_note(session, f"The filter of {name} was replaced.", shown))
