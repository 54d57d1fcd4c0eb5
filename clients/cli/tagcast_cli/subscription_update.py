"""`tagcast subscription show` and `update`: shows one subscription, and updates named settings."""

from __future__ import annotations

from typing import Annotated

import typer
from tagcast_client.changing import in_place_of
from tagcast_client.operation import Json, path_of
from tagcast_client.settings import SUBSCRIPTION_SETTINGS

from tagcast_cli.options import remove_settings, with_options
from tagcast_cli.push_options import SubscriptionOptions
from tagcast_cli.session import SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import with_note

subscription = typer.Typer(no_args_is_help=True, help="Show or update one subscription.")


@subscription.command("show")
def show(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Show a subscription: its endpoint, its filter, its retries, and how its pushes are signed."""
    session = session_of(ctx)
    answer = session.api.request("GET", path_of("topics", topic, "subscriptions", name))
    session.show(answer, lambda shown: with_note(session, f"{name} on {topic}", shown))


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
            "--without",
            metavar="SETTING",
            help="Remove this setting; may be repeated. Without a filter it receives everything.",
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
    changes: Json = remove_settings(without, SUBSCRIPTION_SETTINGS) | options.body()
    if without_header:
        changes["headers"] = {**dict.fromkeys(without_header), **changes.get("headers", {})}
    if not changes:
        raise typer.BadParameter("give a setting to update, e.g. --timeout 5, --url …, or --without secret")
    path = path_of("topics", topic, "subscriptions", name)
    whole = [each for each in ("endpoint", "filter", "retry") if _replaces(each, changes)]
    if whole:
        present = session.api.request("GET", path)
        if_match = if_match or f'"{present.json.get("version")}"'
        changes |= {each: in_place_of(present.json.get(each), changes[each]) for each in whole}
    answer = session.api.request("PATCH", path, changes, headers={"if-match": if_match} if if_match else None)
    session.show(answer, lambda shown: with_note(session, f"{name} on {topic} was updated.", shown))


def _replaces(setting: str, changes: Json) -> bool:
    """Return whether a change replaces an object as a whole. Retries without a strategy are merged."""
    value = changes.get(setting)
    return isinstance(value, dict) and (setting != "retry" or "strategy" in value)
