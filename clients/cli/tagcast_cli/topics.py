"""`tagcast topic …`: topics and their settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text
from tagcast_client.operation import Json, path_of
from tagcast_client.settings import TOPIC_SETTINGS

from tagcast_cli.filters import warning_lines
from tagcast_cli.instant import readable_duration
from tagcast_cli.options import SettingOptions, option_of, remove_settings, with_options
from tagcast_cli.screen import fields_table
from tagcast_cli.session import Listing, Page, TopicName, if_match, session_of

topics = typer.Typer(no_args_is_help=True, help="Create, list, show and delete topics.")


Settings = Annotated[Json, SettingOptions(TOPIC_SETTINGS)]


def _retention_text(seconds: object) -> str:
    return readable_duration(float(seconds)) if isinstance(seconds, int | float) else "—"


def topic_fields(answer: Json) -> Group:
    """Return a topic as fields, one per line, with its warnings."""
    shown = dict(answer)
    if "retention_seconds" in shown:
        shown["retention_seconds"] = f"{shown['retention_seconds']} ({_retention_text(shown['retention_seconds'])})"
    return Group(fields_table(shown, leave_out=("warnings",)), *warning_lines(answer))


LISTING = Listing(
    key="topics",
    columns={
        "topic": "name",
        "ordering": "ordering",
        "retention": lambda topic: _retention_text(topic.get("retention_seconds")),
        "largest body": "max_message_bytes",
        "created": "created_at",
    },
    empty="No topics yet. Create one: tagcast topic create NAME",
)


@topics.command("create")
@with_options
def create(
    ctx: typer.Context,
    topic: TopicName,
    settings: Settings,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace an existing topic as a whole; unnamed settings get their defaults."),
    ] = False,
) -> None:
    """Create a topic. If it exists, the command fails: use `topic update`, or --replace."""
    session = session_of(ctx)
    change = f"tagcast topic update {topic}"
    answer = session.put(path_of("topics", topic), settings, f"Topic {topic} exists", change, replace=replace)
    done = "created" if answer.status == 201 else "replaced"
    session.show(answer, lambda shown: Group(Text(f"Topic {topic} {done}."), topic_fields(shown)))


@topics.command("update")
@with_options
def update(
    ctx: typer.Context,
    topic: TopicName,
    settings: Settings,
    without: Annotated[
        list[str] | None, typer.Option(metavar="SETTING", help="Remove this setting, e.g. events-topic.")
    ] = None,
    if_match: Annotated[str | None, if_match("Update only this version of the topic.")] = None,
) -> None:
    """Update the named settings of a topic. All other settings stay."""
    changes = remove_settings(without, TOPIC_SETTINGS) | settings
    if not changes:
        raise typer.BadParameter(f"give a setting to update: {', '.join(map(option_of, TOPIC_SETTINGS))} or --without")
    sentence = Text(f"Topic {topic} was updated.")
    path = path_of("topics", topic)
    session_of(ctx).send("PATCH", path, lambda shown: Group(sentence, topic_fields(shown)), changes, if_match)


@topics.command("list")
@with_options
def list_topics(ctx: typer.Context, page: Page) -> None:
    """List the topics."""
    session_of(ctx).show_list("/topics", LISTING, page)


@topics.command("show")
def show(ctx: typer.Context, topic: TopicName) -> None:
    """Show a topic: its settings, and its numbers of subscriptions and retained messages."""
    session_of(ctx).send("GET", path_of("topics", topic), topic_fields)


@topics.command("delete")
def delete(ctx: typer.Context, topic: TopicName) -> None:
    """Delete a topic. It must have no subscriptions."""
    session_of(ctx).send("DELETE", path_of("topics", topic), f"Topic {topic} deleted.")
