"""`tagcast subscribe`, `unsubscribe`, `subscriptions`: creates, deletes and lists subscriptions."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tagcast_client.operation import Json, path_of

from tagcast_cli.endpoints import endpoint_text, protocol_of
from tagcast_cli.filters import absent_function_lines, filter_text, warning_lines
from tagcast_cli.options import with_options
from tagcast_cli.push_options import LIFE, SubscriptionOptions
from tagcast_cli.screen import fields_table, state_text
from tagcast_cli.session import (
    Cursor,
    EveryPage,
    Limit,
    Listing,
    Page,
    Session,
    SubscriptionName,
    TopicName,
    session_of,
)
from tagcast_cli.visible import visible_line


def _retry_text(retry: Any) -> str:
    """Return the retry settings as text.

    >>> _retry_text({"strategy": "BACKOFF_RETRY", "max_retries": 1, "interval_seconds": 15})
    'BACKOFF_RETRY (1 retry, 15 s apart)'
    >>> _retry_text({"strategy": "BACKOFF_RETRY", "max_retries": "life", "max_interval_seconds": 512})
    'BACKOFF_RETRY (until it expires, 512 s at most)'
    """
    if not isinstance(retry, dict):
        return "—"
    is_for_life = retry.get("max_retries") == LIFE
    retries = "retry" if retry.get("max_retries") == 1 else "retries"
    bounds = ", ".join(
        text.format(retry[name])
        for name, text in (
            ("max_retries", "until it expires" if is_for_life else f"{{}} {retries}"),
            ("interval_seconds", "{} s at first" if is_for_life else "{} s apart"),
            ("max_interval_seconds", "{} s at most"),
        )
        if retry.get(name) is not None
    )
    return f"{retry.get('strategy', '—')} ({bounds})" if bounds else str(retry.get("strategy", "—"))


def _batch_text(batch: Json) -> str:
    return f"{batch.get('max_messages')} messages, {batch.get('max_bytes')} bytes"


def _certificate_text(certificate: Json) -> str:
    return f"{certificate.get('subject')}, until {certificate.get('expires_at')}, {certificate.get('fingerprint')}"


_SIGNED = {"v1": "v1 (with the secret)", "v1a": "v1a (with a key of the service: tagcast keys)"}


def _signatures_text(schemes: list[str]) -> str:
    """Return the signatures of pushes as text.

    >>> _signatures_text([]), _signatures_text(["v1", "v1a"])
    ('no', 'v1 (with the secret), v1a (with a key of the service: tagcast keys)')
    """
    return ", ".join(_SIGNED.get(each, each) for each in schemes) or "no"


_OF_PUSHES = ("timeout_seconds", "content_format")
"""Settings without meaning for a group, because its members pull."""


def subscription_fields(answer: Json) -> Table:
    """Return a subscription as fields, one per line; for a group only the settings of groups.

    `tagcast lane` shows its lane.
    """
    shown, retry = dict(answer), answer.get("retry")
    is_group = protocol_of(answer.get("endpoint")) == "pull"
    if is_group and isinstance(retry, dict):
        shown["retry"] = {"strategy": "pulled again", "max_retries": retry.get("max_retries")}
    readable = {"endpoint": endpoint_text, "filter": filter_text, "retry": _retry_text}
    readable |= {"batch": _batch_text, "client_certificate": _certificate_text, "public_keys": "\n".join}
    readable["signatures"] = _signatures_text
    for name in readable.keys() & shown.keys():
        shown[name] = readable[name](shown[name])
    if protocol_of(answer.get("endpoint")) not in ("http", "https"):
        shown.pop("signatures", None)
    else:
        shown = {("signed" if name == "signatures" else name): value for name, value in shown.items()}
    return fields_table(shown, leave_out=("lane", "signature", "warnings", *(_OF_PUSHES if is_group else ())))


def pending_note(answer: Json) -> Text | None:
    """Return what to do about an unverified endpoint; None for a verified one.

    >>> pending = {"state": "unverified", "state_reason": "http 404", "topic": "fruit", "name": "shop"}
    >>> print(pending_note(pending))
    Unverified: the endpoint has not confirmed yet. Its response: http 404.
    Verify it with: tagcast verify fruit shop
    >>> pending_note({"name": "shop"}) is None
    True
    """
    if "state" not in answer:
        return None
    reason = visible_line(str(answer.get("state_reason")))
    again = f"tagcast verify {answer.get('topic')} {answer.get('name')}"
    said = f"Unverified: the endpoint has not confirmed yet. Its response: {reason}.\nVerify it with: {again}"
    return Text(said, style="yellow")


def with_note(session: Session, sentence: str, answer: Json) -> Group:
    """Return the result of a change: a sentence, the subscription's fields, and what it still needs."""
    note = pending_note(answer)
    shown: list[RenderableType] = [Text(sentence), subscription_fields(answer), *warning_lines(answer)]
    shown += absent_function_lines(session, answer)
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
    empty="No subscriptions yet. Create one: tagcast subscribe TOPIC NAME --url http://…",
)


@with_options
def subscribe(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    options: SubscriptionOptions,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing subscription as a whole; unnamed settings are lost.")
    ] = False,
    if_match: Annotated[
        str | None, typer.Option(help="Replace only this version of the subscription (its ETag).")
    ] = None,
) -> None:
    """Subscribe an endpoint to a topic. An existing subscription is refused: see `subscription update`, or --replace.

    Without a filter option the subscription receives everything.
    """
    body = options.body()
    if "endpoint" not in body:
        raise typer.BadParameter("give exactly one endpoint: --url, --sqs, --lambda or --pull")
    change = f"tagcast subscription update {topic} {name}"
    path = path_of("topics", topic, "subscriptions", name)
    session = session_of(ctx)
    answer = session.put(path, body, f"{name} on {topic} exists", change, replace=replace, if_match=if_match)
    done = "subscribed to" if answer.status == 201 else "replaced on"

    def drawn(shown: Json) -> Group:
        pending = ", unverified" if "state" in shown else ""
        return with_note(session, f"{name} {done} {topic}{pending}.", shown)

    session.show(answer, drawn)


def unsubscribe(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Delete a subscription. Its pending deliveries are cancelled."""
    session = session_of(ctx)
    answer = session.api.request("DELETE", path_of("topics", topic, "subscriptions", name))
    session.show_done(answer, f"{name} unsubscribed from {topic}.")


def list_subscriptions(
    ctx: typer.Context, topic: TopicName, limit: Limit = 50, cursor: Cursor = None, every: EveryPage = False
) -> None:
    """List the subscriptions of a topic."""
    path = path_of("topics", topic, "subscriptions")
    session_of(ctx).show_list(path, LISTING, Page(limit, cursor, every))
