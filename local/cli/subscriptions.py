"""`tagcast subscribe`, `unsubscribe`, `subscriptions`: who is delivered to, and how."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tagcast_client.operation import Json, path_of

from local.cli.endpoints import endpoint_of, endpoint_text, protocol_of
from local.cli.filters import (
    JsonFilter,
    RoutingKeyFilter,
    SqlDialect,
    SqlFilter,
    TagExpression,
    TagFilter,
    filter_of,
    filter_text,
)
from local.cli.push_options import batch_of, certificate_of, headers_of
from local.cli.screen import fields_table, state_text
from local.cli.session import (
    Cursor,
    EveryPage,
    Limit,
    Listing,
    Page,
    SubscriptionName,
    TopicName,
    session_of,
)
from local.cli.visible import visible_line


class Strategy(StrEnum):
    """What happens after a failed attempt."""

    BACKOFF_RETRY = "BACKOFF_RETRY"
    EXPONENTIAL_DECAY_RETRY = "EXPONENTIAL_DECAY_RETRY"


class Format(StrEnum):
    """How a message is wrapped for the endpoint."""

    JSON = "json"
    SIMPLIFIED = "simplified"
    CLOUDEVENTS = "cloudevents"
    CMQ_JSON = "cmq_json"
    CMQ_SIMPLIFIED = "cmq_simplified"


def _retry_text(retry: Any) -> str:
    if not isinstance(retry, dict):
        return "—"
    bounds = ", ".join(
        f"{retry[name]}{unit}"
        for name, unit in (
            ("max_retries", " retries"),
            ("interval_seconds", " s apart"),
            ("max_interval_seconds", " s at most"),
        )
        if retry.get(name) is not None
    )
    return f"{retry.get('strategy', '—')} ({bounds})" if bounds else str(retry.get("strategy", "—"))


def _batch_text(batch: Json) -> str:
    return f"{batch.get('max_messages')} messages, {batch.get('max_bytes')} bytes"


def _certificate_text(certificate: Json) -> str:
    return f"{certificate.get('subject')}, until {certificate.get('expires_at')}, {certificate.get('fingerprint')}"


_OF_PUSHES = ("timeout_seconds", "content_format")
"""What means nothing for a group, to which nothing is pushed."""


def subscription_fields(answer: Json) -> Table:
    """One subscription, a field a line; its lane is shown by `tagcast lane`. Of a group only what a group uses."""
    shown, retry = dict(answer), answer.get("retry")
    is_group = protocol_of(answer.get("endpoint")) == "pull"
    if is_group and isinstance(retry, dict):
        shown["retry"] = {"strategy": "pulled again", "max_retries": retry.get("max_retries")}
    readable = {"endpoint": endpoint_text, "filter": filter_text, "retry": _retry_text}
    readable |= {"batch": _batch_text, "client_certificate": _certificate_text, "public_keys": "\n".join}
    for name in readable.keys() & shown.keys():
        shown[name] = readable[name](shown[name])
    return fields_table(shown, leave_out=("lane", *(_OF_PUSHES if is_group else ())))


def pending_note(answer: Json) -> Text | None:
    """What helps a subscription whose endpoint has not agreed yet; None for any other.

    >>> pending = {"state": "pending_confirmation", "state_reason": "http 404", "topic": "fruit", "name": "shop"}
    >>> print(pending_note(pending))
    Nothing is pushed before its endpoint agrees; it answered: http 404.
    Ask it again with: tagcast verify fruit shop
    >>> pending_note({"name": "shop"}) is None
    True
    """
    if "state" not in answer:
        return None
    reason = visible_line(str(answer.get("state_reason")))
    again = f"tagcast verify {answer.get('topic')} {answer.get('name')}"
    said = f"Nothing is pushed before its endpoint agrees; it answered: {reason}.\nAsk it again with: {again}"
    return Text(said, style="yellow")


def with_note(sentence: str, answer: Json) -> Group:
    """A subscription as the answer to a change shows it: what was done, its fields, what it still needs."""
    note = pending_note(answer)
    shown: list[RenderableType] = [Text(sentence), subscription_fields(answer)]
    return Group(*shown) if note is None else Group(*shown, note)


def _backlog_text(lane: Json) -> str | None:
    if "backlog" not in lane:
        return None
    return f"more than {lane['backlog']}" if lane.get("backlog_has_more") else str(lane["backlog"])


def _row(subscription: Json) -> list[Any]:
    lane = subscription.get("lane") or {}
    return [
        subscription.get("name"),
        filter_text(subscription.get("filter")),
        endpoint_text(subscription.get("endpoint")),
        _retry_text(subscription.get("retry")),
        state_text(lane.get("state")),
        _backlog_text(lane),
    ]


LISTING = Listing(
    key="subscriptions",
    headings=("subscription", "filter", "endpoint", "retry", "lane", "backlog"),
    row=_row,
    empty="No subscriptions yet. Make one: tagcast subscribe TOPIC NAME --url http://…",
)


def subscribe(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    url: Annotated[str | None, typer.Option(help="Push to this HTTP(S) endpoint.")] = None,
    sqs: Annotated[str | None, typer.Option(metavar="URL|ARN", help="Push to this SQS queue.")] = None,
    function: Annotated[
        str | None, typer.Option("--lambda", metavar="NAME|ARN", help="Push to this Lambda function.")
    ] = None,
    tag: TagFilter = None,
    tag_expression: TagExpression = None,
    routing_key: RoutingKeyFilter = None,
    sql: SqlFilter = None,
    dialect: SqlDialect = None,
    filter_json: JsonFilter = None,
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="After a failed attempt, by default EXPONENTIAL_DECAY_RETRY."),
    ] = None,
    max_retries: Annotated[int | None, typer.Option(help="Retries before a delivery is discarded.")] = None,
    interval: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Between retries under BACKOFF_RETRY.")
    ] = None,
    max_interval: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Longest wait under EXPONENTIAL_DECAY_RETRY.")
    ] = None,
    timeout: Annotated[int | None, typer.Option(metavar="SECONDS", help="Of one attempt, 1-30, by default 15.")] = None,
    content_format: Annotated[
        Format | None, typer.Option("--format", help="How a message is wrapped, by default json.")
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(
            envvar="TAGCAST_SECRET", show_envvar=True, help="Signs the pushes: whsec_…, or generate: told once."
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME: VALUE", help="On every push over HTTP, never shown; repeatable.")
    ] = None,
    client_certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM certificates that pushes over https present, their own first."),
    ] = None,
    client_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its private key as PEM, never shown.")
    ] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="v1|v1a", help="v1a: signed with a key of the service, too: tagcast keys.")
    ] = None,
    max_per_second: Annotated[
        float | None, typer.Option(metavar="RATE", help="Attempts per second, 0.01-1,000, by default any number.")
    ] = None,
    batch_messages: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Push up to so many messages in one request, 2-100.")
    ] = None,
    batch_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="And so many bytes, by default 262,144.")
    ] = None,
    verification: Annotated[
        str | None,
        typer.Option(metavar="required|none", help="Whether the endpoint has to agree first."),
    ] = None,
    if_match: Annotated[
        str | None, typer.Option(help="Replace only this version of the subscription (its ETag).")
    ] = None,
) -> None:
    """Subscribe an endpoint to a topic, or replace a subscription as a whole.

    Without a filter option the subscription receives everything.
    """
    described = filter_of(
        tags=tag,
        tag_expression=tag_expression,
        patterns=routing_key,
        sql=sql,
        dialect=dialect,
        filter_json=filter_json,
    )
    numbers = {"max_retries": max_retries, "interval_seconds": interval, "max_interval_seconds": max_interval}
    retry = {
        **({"strategy": strategy.value} if strategy else {}),
        **{field: value for field, value in numbers.items() if value is not None},
    }
    settings = {
        "filter": described,
        "retry": retry or None,
        "timeout_seconds": timeout,
        "content_format": content_format and content_format.value,
        "secret": secret,
        "headers": headers_of(header),
        "client_certificate": certificate_of(client_certificate, client_key),
        "signature": signature,
        "max_per_second": max_per_second,
        "batch": batch_of(batch_messages, batch_bytes),
        "verification": verification,
    }
    body: Json = {"endpoint": endpoint_of(url, sqs, function)}
    body |= {field: value for field, value in settings.items() if value is not None}
    session = session_of(ctx)
    answer = session.api.request(
        "PUT",
        path_of("topics", topic, "subscriptions", name),
        body,
        headers={"if-match": if_match} if if_match else None,
    )
    done = "subscribed to" if answer.status == 201 else "updated on"

    def drawn(shown: Json) -> Group:
        pending = ", pending confirmation" if "state" in shown else ""
        return with_note(f"{name} {done} {topic}{pending}.", shown)

    session.show(answer, drawn)


def unsubscribe(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Remove a subscription; what it is still owed is cancelled."""
    session = session_of(ctx)
    answer = session.api.request("DELETE", path_of("topics", topic, "subscriptions", name))
    session.show_done(answer, f"{name} unsubscribed from {topic}.")


def list_subscriptions(
    ctx: typer.Context, topic: TopicName, limit: Limit = 50, cursor: Cursor = None, every: EveryPage = False
) -> None:
    """List the subscriptions of a topic."""
    path = path_of("topics", topic, "subscriptions")
    session_of(ctx).show_list(path, LISTING, Page(limit, cursor, every))
