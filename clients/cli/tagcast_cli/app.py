"""The command line `tagcast`: global options, and the commands by name."""

from __future__ import annotations

from typing import Annotated

import typer
from tagcast_client import __version__
from tagcast_client.operation import path_of

from tagcast_cli.api_client import DEFAULT_URL, client_for, url_fault
from tagcast_cli.cmq_keys import cmq_keys
from tagcast_cli.console import console
from tagcast_cli.consume import consume
from tagcast_cli.dead_letters import dead_letters
from tagcast_cli.doctor import doctor
from tagcast_cli.filters import filters
from tagcast_cli.groups import group
from tagcast_cli.hosts import hosts
from tagcast_cli.jobs import archive, audit, backtest, erase, replay, report, retain
from tagcast_cli.lane_acts import lanes
from tagcast_cli.lanes import lane, pause, resume, retry, skip
from tagcast_cli.listen import listen
from tagcast_cli.messages import explain, history, list_messages, message, publish
from tagcast_cli.screen import fields_table
from tagcast_cli.session import Commands, Session, SubscriptionName, TopicName, session_of
from tagcast_cli.shadows import shadow, versions
from tagcast_cli.smoke import smoke
from tagcast_cli.subscriptions import (
    list_subscriptions,
    rotate_secret,
    subscribe,
    subscribe_all,
    subscription,
    unsubscribe,
    verify,
)
from tagcast_cli.tail import tail
from tagcast_cli.topics import topics

app = typer.Typer(
    name="tagcast",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tagcast {__version__}")
        raise typer.Exit


@app.callback()
def tagcast(
    ctx: typer.Context,
    url: Annotated[str, typer.Option(envvar="TAGCAST_URL", help="URL of the API.")] = DEFAULT_URL,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the API's responses as JSON; several documents are printed one per line."),
    ] = False,
    profile: Annotated[str | None, typer.Option(help="AWS profile that signs requests to AWS.")] = None,
    region: Annotated[str | None, typer.Option(help="AWS region to sign for; default: from the URL.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TAGCAST_TOKEN",
            help="Bearer token instead of a signature; TAGCAST_TOKEN keeps it out of the history.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Publish and subscribe: topics, tag-matched fan-out, blocking lanes, retries.

    By default tagcast talks to the local stack of `make run`. It signs requests to AWS with your profile. With --json
    it prints several responses one per line: the pages of a list (--all), the parts of a batch, and the events of
    `tail`, `listen` and `consume`. Errors go to standard error.
    """
    if (fault := url_fault(url)) is not None:
        raise typer.BadParameter(fault, param_hint="--url")
    if token is not None and any(not "!" <= character <= "~" for character in token):
        raise typer.BadParameter("a token must not contain spaces or line breaks", param_hint="--token")
    ctx.obj = Session(client_for(url, profile, region, token), as_json, profile, region)


def health(ctx: typer.Context) -> None:
    """Show the health and the version of the service."""
    session = session_of(ctx)
    session.show(session.api.request("GET", "/health"), fields_table)


def keys(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Show the public keys of a subscription with the signature v1a. Each of them may sign a push."""
    session = session_of(ctx)
    answer = session.api.request("GET", path_of("topics", topic, "subscriptions", name))
    session.show(answer, lambda shown: "\n".join(shown.get("public_keys", ())))


_TOPICS, _MESSAGES, _LANES, _TOOLS = "Topics and subscriptions", "Messages", "Lanes", "Tools"
_ARCHIVE = "Archive"
app.add_typer(topics, name="topic", rich_help_panel=_TOPICS)
app.command("subscribe", rich_help_panel=_TOPICS)(subscribe)
app.command("subscribe-all", rich_help_panel=_TOPICS)(subscribe_all)
app.command("unsubscribe", rich_help_panel=_TOPICS)(unsubscribe)
app.add_typer(subscription, name="subscription", rich_help_panel=_TOPICS)
app.command("rotate-secret", rich_help_panel=_TOPICS)(rotate_secret)
app.command("verify", rich_help_panel=_TOPICS)(verify)
app.command("subscriptions", rich_help_panel=_TOPICS)(list_subscriptions)
app.command("versions", rich_help_panel=_TOPICS)(versions)
app.add_typer(shadow, name="shadow", rich_help_panel=_TOPICS)
app.add_typer(group, name="group", rich_help_panel=_TOPICS)
app.command("publish", rich_help_panel=_MESSAGES)(publish)
app.command("messages", rich_help_panel=_MESSAGES)(list_messages)
app.command("history", rich_help_panel=_MESSAGES)(history)
app.command("message", rich_help_panel=_MESSAGES)(message)
app.command("explain", rich_help_panel=_MESSAGES)(explain)
app.command("tail", rich_help_panel=_MESSAGES)(tail)
app.add_typer(dead_letters, name="dead-letters", rich_help_panel=_MESSAGES)
app.command("lane", rich_help_panel=_LANES)(lane)
app.add_typer(lanes, name="lanes", rich_help_panel=_LANES)
app.command("hosts", rich_help_panel=_LANES)(hosts)
app.command("pause", rich_help_panel=_LANES)(pause)
app.command("resume", rich_help_panel=_LANES)(resume)
app.command("retry", rich_help_panel=_LANES)(retry)
app.command("skip", rich_help_panel=_LANES)(skip)
app.command("archive", rich_help_panel=_ARCHIVE)(archive)
app.command("report", rich_help_panel=_ARCHIVE)(report)
app.command("audit", rich_help_panel=_ARCHIVE)(audit)
app.command("backtest", rich_help_panel=_ARCHIVE)(backtest)
app.command("replay", rich_help_panel=_ARCHIVE)(replay)
app.command("erase", rich_help_panel=_ARCHIVE)(erase)
app.command("retain", rich_help_panel=_ARCHIVE)(retain)
app.add_typer(filters, name="filter", rich_help_panel=_TOOLS)
app.add_typer(cmq_keys, name="cmq-key", rich_help_panel=_TOOLS)
app.command("console", rich_help_panel=_TOOLS)(console)
app.command("consume", rich_help_panel=_TOOLS)(consume)
app.command("listen", rich_help_panel=_TOOLS)(listen)
app.command("keys", rich_help_panel=_TOOLS)(keys)
app.command("health", rich_help_panel=_TOOLS)(health)
app.command("doctor", rich_help_panel=_TOOLS)(doctor)
app.command("smoke", rich_help_panel=_TOOLS)(smoke)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
