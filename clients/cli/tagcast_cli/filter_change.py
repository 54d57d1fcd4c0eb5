"""`tagcast filter set`: another filter for a subscription, and all else as it is."""

from __future__ import annotations

from typing import Annotated

import typer
from tagcast_client.operation import path_of

from tagcast_cli.filters import (
    AllTags,
    EventPattern,
    FilterDialect,
    JsonFilter,
    PatternScope,
    RoutingKeyFilter,
    SqlFilter,
    TagExpression,
    TagFilter,
    filter_of,
)
from tagcast_cli.session import SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import with_note


def set_filter(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    tag: TagFilter = None,
    all_tags: AllTags = False,
    tag_expression: TagExpression = None,
    routing_key: RoutingKeyFilter = None,
    sql: SqlFilter = None,
    event_pattern: EventPattern = None,
    dialect: FilterDialect = None,
    scope: PatternScope = None,
    filter_json: JsonFilter = None,
    if_match: Annotated[
        str | None, typer.Option(help="Only if the subscription still has this version (its ETag).")
    ] = None,
) -> None:
    """Replace the filter of a subscription; without a filter it receives everything. All other settings stay."""
    described = filter_of(
        tags=tag,
        all_tags=all_tags,
        tag_expression=tag_expression,
        patterns=routing_key,
        sql=sql,
        event_pattern=event_pattern,
        dialect=dialect,
        scope=scope,
        filter_json=filter_json,
    )
    session = session_of(ctx)
    answer = session.api.request(
        "PUT",
        path_of("topics", topic, "subscriptions", name, "filter"),
        {"filter": described},
        headers={"if-match": if_match} if if_match else None,
    )
    session.show(answer, lambda shown: with_note(session, f"The filter of {name} was replaced.", shown))
