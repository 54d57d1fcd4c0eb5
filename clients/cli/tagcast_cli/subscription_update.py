"""`tagcast subscription show` and `update`: one subscription, and changes of it that name what changes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from tagcast_client.changing import in_place_of
from tagcast_client.operation import Json, path_of

from tagcast_cli.endpoints import endpoint_of
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
from tagcast_cli.push_options import (
    AfterFailure,
    BatchBytes,
    BatchMessages,
    ClientCertificate,
    ClientKey,
    ContentFormat,
    DeadLetterExpired,
    DeadLetterTopic,
    Function,
    Headers,
    Interval,
    MaxInterval,
    MaxPerSecond,
    MaxRetries,
    Ordered,
    Queue,
    Secret,
    Signature,
    Timeout,
    Url,
    Verification,
    batch_of,
    certificate_of,
    given,
    headers_of,
    retry_of,
)
from tagcast_cli.session import SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import with_note

subscription = typer.Typer(no_args_is_help=True, help="Show or update one subscription.")


class Part(StrEnum):
    """What a subscription can be without."""

    FILTER = "filter"
    SECRET = "secret"
    HEADERS = "headers"
    CLIENT_CERTIFICATE = "client-certificate"
    MAX_PER_SECOND = "max-per-second"
    BATCH = "batch"
    DEAD_LETTER_TOPIC = "dead-letter-topic"
    DEAD_LETTER_EXPIRED = "dead-letter-expired"

    @property
    def field(self) -> str:
        """The field of the API."""
        return self.value.replace("-", "_")


@subscription.command("show")
def show(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Show a subscription: its endpoint, its filter, its retries, and how its pushes are signed."""
    session = session_of(ctx)
    answer = session.api.request("GET", path_of("topics", topic, "subscriptions", name))
    session.show(answer, lambda shown: with_note(session, f"{name} on {topic}", shown))


@subscription.command("update")
def update(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    url: Url = None,
    sqs: Queue = None,
    function: Function = None,
    tag: TagFilter = None,
    all_tags: AllTags = False,
    tag_expression: TagExpression = None,
    routing_key: RoutingKeyFilter = None,
    sql: SqlFilter = None,
    event_pattern: EventPattern = None,
    dialect: FilterDialect = None,
    scope: PatternScope = None,
    filter_json: JsonFilter = None,
    ordered: Ordered = None,
    strategy: AfterFailure = None,
    max_retries: MaxRetries = None,
    interval: Interval = None,
    max_interval: MaxInterval = None,
    timeout: Timeout = None,
    content_format: ContentFormat = None,
    secret: Secret = None,
    header: Headers = None,
    client_certificate: ClientCertificate = None,
    client_key: ClientKey = None,
    signature: Signature = None,
    max_per_second: MaxPerSecond = None,
    batch_messages: BatchMessages = None,
    batch_bytes: BatchBytes = None,
    verification: Verification = None,
    dead_letter_topic: DeadLetterTopic = None,
    dead_letter_expired: DeadLetterExpired = None,
    without: Annotated[
        list[Part] | None,
        typer.Option(
            "--without", help="Remove this setting; may be repeated. Without a filter it receives everything."
        ),
    ] = None,
    without_header: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Remove this header from the pushes; may be repeated.")
    ] = None,
    if_match: Annotated[
        str | None, typer.Option(help="Update only this version of the subscription (its ETag).")
    ] = None,
) -> None:
    """Update the named settings of a subscription. All other settings stay, secrets included."""
    session = session_of(ctx)
    removed: Json = {part.field: None for part in without or ()}
    headers: Json | None = {
        **dict.fromkeys(without_header or ()),
        **(headers_of(header) or {}),
    } or None
    changes = removed | given(
        ordered=ordered,
        retry=retry_of(None if strategy else strategy, max_retries, interval, max_interval),
        timeout_seconds=timeout,
        content_format=content_format and content_format.value,
        secret=secret,
        headers=headers,
        client_certificate=certificate_of(client_certificate, client_key),
        signature=signature,
        max_per_second=max_per_second,
        batch=batch_of(batch_messages, batch_bytes),
        verification=verification,
        dead_letter_topic=dead_letter_topic,
        dead_letter_expired=dead_letter_expired,
    )
    whole = given(
        endpoint=endpoint_of(url, sqs, function) if url or sqs or function else None,
        filter=filter_of(
            tags=tag,
            all_tags=all_tags,
            tag_expression=tag_expression,
            patterns=routing_key,
            sql=sql,
            event_pattern=event_pattern,
            dialect=dialect,
            scope=scope,
            filter_json=filter_json,
        ),
        retry=retry_of(strategy, max_retries, interval, max_interval) if strategy else None,
    )
    if not changes and not whole:
        raise typer.BadParameter("give a setting to update, e.g. --timeout 5, --url …, or --without secret")
    path = path_of("topics", topic, "subscriptions", name)
    if whole:
        present = session.api.request("GET", path)
        if_match = if_match or f'"{present.json.get("version")}"'
        changes |= {field: in_place_of(present.json.get(field), wanted) for field, wanted in whole.items()}
    answer = session.api.request("PATCH", path, changes, headers={"if-match": if_match} if if_match else None)
    session.show(answer, lambda shown: with_note(session, f"{name} on {topic} was updated.", shown))
