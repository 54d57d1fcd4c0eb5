"""`tagcast subscription …`, its short forms `subscribe` and `unsubscribe`, and other commands of subscriptions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tagcast_client.batches import named_again, parts
from tagcast_client.changing import needs_present, patch_of, with_endpoint
from tagcast_client.operation import Json, drop_none, path_of
from tagcast_client.settings import SUBSCRIPTION_SETTINGS

from tagcast_cli.content import body_bytes, parse_json
from tagcast_cli.filters import FilterOptions, absent_function_lines, filter_text, filters, warning_lines
from tagcast_cli.instant import duration
from tagcast_cli.options import remove_settings, with_options
from tagcast_cli.push_options import LIFE, SECRET_VARIABLE, SubscriptionOptions, endpoint_text, protocol_of
from tagcast_cli.screen import copyable, fault_lines, fields_table, items_table
from tagcast_cli.session import Listing, Page, Session, SubscriptionName, TopicName, if_match, session_of
from tagcast_cli.visible import visible_line

subscription = typer.Typer(no_args_is_help=True, help="Create, list, show, update and delete subscriptions.")


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


_SIGNED = {"v1": "v1 (with the secret)", "v1a": "v1a (with a key of the service: tagcast keys)"}


def _signatures_text(schemes: list[str]) -> str:
    """Return the signatures of pushes as text.

    >>> _signatures_text([]), _signatures_text(["v1", "v1a"])
    ('no', 'v1 (with the secret), v1a (with a key of the service: tagcast keys)')
    """
    return ", ".join(_SIGNED.get(each, each) for each in schemes) or "no"


LIST_BYTES_MAX = 100_000_000
"""The maximum bytes of a list of subscriptions: 100,000, the limit of a topic, of 1,000 bytes each."""
_OF_PUSHES = ("timeout_seconds", "content_format")
"""Settings without meaning for a group, because its members pull."""


def subscription_fields(answer: Json) -> Table:
    """Return a subscription as a table, without lane and warnings. For a group, settings of pushes are left out."""
    shown, retry = dict(answer), answer.get("retry")
    is_group = protocol_of(answer.get("endpoint")) == "pull"
    if is_group and isinstance(retry, dict):
        shown["retry"] = {"strategy": "pulled again", "max_retries": retry.get("max_retries")}
    readable = {"endpoint": endpoint_text, "filter": filter_text, "retry": _retry_text}
    readable |= {"signatures": _signatures_text, "public_keys": "\n".join}
    readable["batch"] = "{max_messages} messages, {max_bytes} bytes".format_map
    readable["client_certificate"] = "{subject}, until {expires_at}, {fingerprint}".format_map
    for name in readable.keys() & shown.keys():
        shown[name] = readable[name](shown[name])
    if protocol_of(answer.get("endpoint")) not in ("http", "https"):
        shown.pop("signatures", None)
    else:
        shown = {("signed" if name == "signatures" else name): value for name, value in shown.items()}
    return fields_table(shown, leave_out=("lane", "signature", "warnings", *(_OF_PUSHES if is_group else ())))


def pending_note(answer: Json) -> Text | None:
    """Return a note with the remedy for an unverified endpoint, or None if the endpoint is verified.

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
    note = f"Unverified: the endpoint has not confirmed yet. Its response: {reason}.\nVerify it with: {again}"
    return copyable(note, style="yellow")


def with_note(session: Session, sentence: str, answer: Json) -> Group:
    """Return *sentence*, the fields of the subscription in *answer*, its warnings, and the `pending_note` if any."""
    note = pending_note(answer)
    shown: list[RenderableType] = [Text(sentence), subscription_fields(answer), *warning_lines(answer)]
    shown += absent_function_lines(session, answer)
    return Group(*shown) if note is None else Group(*shown, note)


def _backlog_text(lane: Json) -> str | None:
    if "backlog" not in lane:
        return None
    return f"more than {lane['backlog']}" if lane.get("backlog_has_more") else str(lane["backlog"])


LISTING = Listing(
    key="subscriptions",
    columns={
        "subscription": "name",
        "filter": lambda shown: filter_text(shown.get("filter")),
        "endpoint": lambda shown: endpoint_text(shown.get("endpoint")),
        "retry": lambda shown: _retry_text(shown.get("retry")),
        "lane": "lane.state",
        "backlog": lambda shown: _backlog_text(shown.get("lane") or {}),
    },
    empty="No subscriptions yet. Create one: tagcast subscribe TOPIC NAME --url http://…",
)


@subscription.command("create")
@with_options
def subscribe(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    options: SubscriptionOptions,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing subscription as a whole; unnamed settings are lost.")
    ] = False,
    if_match: Annotated[str | None, if_match("Replace only this version of the subscription.")] = None,
) -> None:
    """Create a subscription. If it exists, the command fails: use `subscription update`, or --replace.

    `subscribe` is short for `subscription create`.

    Without a filter option the subscription receives everything. The environment variable TAGCAST_SECRET is the default
    of --secret for a URL.
    """
    body = options.body()
    if "endpoint" not in body:
        raise typer.BadParameter("give exactly one endpoint: --url, --sqs, --lambda or --pull")
    if options.url and (secret := os.environ.get(SECRET_VARIABLE)):
        body.setdefault("secret", secret)
    change = f"tagcast subscription update {topic} {name}"
    path = path_of("topics", topic, "subscriptions", name)
    session = session_of(ctx)
    answer = session.put(path, body, f"{name} on {topic} exists", change, replace=replace, if_match=if_match)
    done = "subscribed to" if answer.status == 201 else "replaced on"

    pending = ", unverified" if "state" in answer.json else ""
    session.show(answer, lambda shown: with_note(session, f"{name} {done} {topic}{pending}.", shown))


@subscription.command("delete")
def unsubscribe(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Delete a subscription. Its pending deliveries are cancelled.

    `unsubscribe` is short for `subscription delete`.
    """
    path = path_of("topics", topic, "subscriptions", name)
    session_of(ctx).send("DELETE", path, f"{name} unsubscribed from {topic}.")


@subscription.command("list")
@with_options
def list_subscriptions(ctx: typer.Context, topic: TopicName, page: Page) -> None:
    """List the subscriptions of a topic."""
    session_of(ctx).show_list(path_of("topics", topic, "subscriptions"), LISTING, page)


def subscribe_all(
    ctx: typer.Context,
    topic: TopicName,
    source: Annotated[
        str, typer.Argument(metavar="@FILE|-", help="A JSON array of subscriptions, each with its name.")
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace existing subscriptions as a whole; unnamed settings are lost.")
    ] = False,
) -> None:
    """Create many subscriptions of a topic from one file. Some can fail while all others succeed.

    Without --replace, a subscription that exists already fails. Write each subscription as in the API, with its name.
    An endpoint may be just its URL: {"name": "billing", "endpoint": "https://…", "filter": …}.
    """
    session = session_of(ctx)
    results: list[Json] = []
    items = _read(source)
    path = path_of("topics", topic, "subscriptions", "batch")
    try:
        for _, part in parts(items):
            answer = session.api.request("POST", path, {"subscriptions": list(part), "replace": replace})
            results += session.read_answer(answer).get("results", [])
    finally:  # Also after a failed part: generated secrets are shown only once.
        if not session.as_json and (results or not items):
            session.out.print(_summary(topic, [str(item.get("name", "—")) for item in items], results))
    if any("error" in result for result in results):
        raise typer.Exit(1)


def _read(source: str) -> list[Json]:
    try:
        items = parse_json(body_bytes(source, LIST_BYTES_MAX))
    except (ValueError, RecursionError) as fault:
        hint = "" if source[:1] in ("@", "-") else "; to read a file, write @FILE"
        raise typer.BadParameter(f"is not JSON: {fault}{hint}", param_hint="@FILE") from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise typer.BadParameter("must be a JSON array of objects", param_hint="@FILE")
    if again := named_again(items):
        places = ", ".join(f"{visible_line(str(items[place]['name']))} at /{place}" for place in again)
        raise typer.BadParameter(f"named twice: {places}; nothing was sent", param_hint="@FILE")
    return [with_endpoint(item) for item in items]


def _summary(topic: str, names: Sequence[str], results: list[Json]) -> RenderableType:
    """Return the number of created subscriptions, generated secrets, and each refusal with its place in the file."""
    refused = {place: result["error"] for place, result in enumerate(results) if "error" in result}
    lines: list[RenderableType] = [Text(f"{len(results) - len(refused)} subscribed to {topic}.")]
    pending = [visible_line(str(result["name"])) for result in results if "state" in result]
    if pending:
        sentence = f"{len(pending)} of them unverified, without pushes until they confirm: {', '.join(pending)}."
        lines.append(Text(f"{sentence}\nVerify one with: tagcast verify {topic} NAME", style="yellow"))
    if secrets := [result for result in results if "secret" in result]:
        lines.append(items_table(secrets, {"subscription": "name", "secret": "secret"}))
    for place, problem in refused.items():
        lines.append(Text(f"{visible_line(names[place])} (at /{place}) was refused:", style="bold red"))
        lines.append(fault_lines(problem, int(problem.get("status") or 422)))
    if any(problem.get("status") == HTTPStatus.PRECONDITION_FAILED for problem in refused.values()):
        lines.append(Text("Replace existing subscriptions with --replace.", style="yellow"))
    return Group(*lines)


@subscription.command("show")
def show(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Show a subscription: its endpoint, its filter, its retries, and how its pushes are signed."""
    session, path = session_of(ctx), path_of("topics", topic, "subscriptions", name)
    session.send("GET", path, lambda shown: with_note(session, f"{name} on {topic}", shown))


@subscription.command("update")
@with_options
def update(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    options: SubscriptionOptions,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SETTING",
            help="Remove this setting; may be repeated. A subscription without a filter receives everything.",
        ),
    ] = None,
    without_header: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Remove this header from the pushes; may be repeated.")
    ] = None,
    if_match: Annotated[str | None, if_match("Update only this version of the subscription.")] = None,
) -> None:
    """Update the named settings of a subscription. All other settings stay, secrets included."""
    session = session_of(ctx)
    removed, changes = remove_settings(without, SUBSCRIPTION_SETTINGS), options.body()
    if without_header:
        changes["headers"] = {**dict.fromkeys(without_header), **changes.get("headers", {})}
    if twice := sorted(removed.keys() & changes.keys()):
        raise typer.BadParameter(f"{', '.join(twice)}: another option updates it, too", param_hint="--without")
    if not (changes := removed | changes):
        raise typer.BadParameter("give a setting to update, e.g. --timeout 5, --url …, or --without secret")
    if needs_present(changes):
        present = session.api.get_subscription(topic, name)
        if_match = if_match or f'"{present.version}"'
        try:
            changes = patch_of(present, changes)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None
    path = path_of("topics", topic, "subscriptions", name)
    sentence = f"{name} on {topic} was updated."
    session.send("PATCH", path, lambda shown: with_note(session, sentence, shown), changes, if_match)


@filters.command("set")
@with_options
def set_filter(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    filter: FilterOptions,
    if_match: Annotated[str | None, if_match("Update only this version of the subscription.")] = None,
) -> None:
    """Replace the filter of a subscription. All other settings stay.

    Without a filter option the subscription receives everything.
    """
    session, path = session_of(ctx), path_of("topics", topic, "subscriptions", name, "filter")
    sentence, body = f"The filter of {name} was replaced.", {"filter": filter.filter()}
    session.send("PUT", path, lambda shown: with_note(session, sentence, shown), body, if_match)


def rotate_secret(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    secret: Annotated[
        str | None,
        typer.Option(
            envvar=SECRET_VARIABLE, show_envvar=True, help="New secret (whsec_…); default: a generated secret."
        ),
    ] = None,
    grace: Annotated[int | None, duration(help="Time in which the old secret also signs; default: 1d.")] = None,
) -> None:
    """Rotate the signing secret. A generated secret is shown once."""
    path = path_of("topics", topic, "subscriptions", name, "secret", "rotate")
    sentence = Text(f"Secret of {name} rotated.")
    body = drop_none(secret=secret, grace_seconds=grace)
    session_of(ctx).send("POST", path, lambda shown: Group(sentence, subscription_fields(shown)), body)


def verify(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Verify the endpoint of a subscription again. When the endpoint confirms, pushes to it start.

    Exits 1 if the endpoint does not confirm.
    """
    session = session_of(ctx)
    answer = session.api.request("POST", path_of("topics", topic, "subscriptions", name, "verify"), {})
    if "state" in answer.json:
        session.show(answer, lambda shown: with_note(session, f"The endpoint of {name} did not confirm.", shown))
        raise typer.Exit(1)
    sentence = Text(f"The endpoint of {name} is verified.")
    session.show(answer, lambda shown: Group(sentence, subscription_fields(shown)))
