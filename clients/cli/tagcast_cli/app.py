"""The command line `tagcast`: global options, and the commands by name."""

from __future__ import annotations

from typing import Annotated

import typer
from tagcast_client import __version__
from tagcast_client.operation import path_of
from tagcast_client.signing import TOKEN_RULE, is_token

from tagcast_cli import bypass_proxies
from tagcast_cli.api_client import DEFAULT_URL, client_for, url_fault
from tagcast_cli.cmq_keys import cmq_keys
from tagcast_cli.console import console
from tagcast_cli.consume import consume
from tagcast_cli.dead_letters import dead_letters
from tagcast_cli.doctor import doctor
from tagcast_cli.filters import filters
from tagcast_cli.groups import group
from tagcast_cli.jobs import archive, audit, backtest, erase, replay, report, retain
from tagcast_cli.lane_acts import lanes
from tagcast_cli.lanes import hosts, lane, pause, resume, retry, skip
from tagcast_cli.listen import listen
from tagcast_cli.messages import explain, history, list_messages, message, publish
from tagcast_cli.screen import fields_table
from tagcast_cli.session import Commands, Session, SubscriptionName, TopicName, session_of, source_of
from tagcast_cli.shadows import shadow, versions
from tagcast_cli.smoke import smoke
from tagcast_cli.subscriptions import rotate_secret, subscribe, subscribe_all, subscription, unsubscribe, verify
from tagcast_cli.tail import tail
from tagcast_cli.topics import topics
from tagcast_cli.visible import escape_unprintable

app = typer.Typer(
    name="tagcast",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


UNTIL_INTERRUPTED = ("console", "consume", "tail")
"""The commands that run until Ctrl-C, and use their token all the time."""
TOKEN_IS_LISTED = (
    "While this command runs, other users of this machine see --token in the list of processes."
    " Set TAGCAST_TOKEN instead."
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
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
    profile: Annotated[
        str | None, typer.Option(help="AWS profile that signs requests to AWS, or to your own domain.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="AWS region to sign for; default: from the URL.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TAGCAST_TOKEN",
            help="Bearer token instead of a signature; TAGCAST_TOKEN keeps it out of the history and the process list.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Publish messages to topics, and follow each delivery to the subscriptions: retries, lanes, replays, audits.

    By default tagcast talks to the local stack of `make run`. It signs requests to AWS with your profile. With --json
    it prints several responses one per line: the pages of a list (--all), the parts of a batch, and the events of
    `tail`, `listen` and `consume`. Errors go to standard error.
    """
    if (fault := url_fault(url)) is not None:
        raise typer.BadParameter(fault, param_hint="--url")
    if token is not None and not is_token(token):
        raise typer.BadParameter(TOKEN_RULE, param_hint="--token")
    ctx.obj = session = Session(client_for(url, profile, region, token), as_json, profile, region)
    if ctx.invoked_subcommand in UNTIL_INTERRUPTED and source_of(ctx, "token") == "COMMANDLINE":
        session.warn(TOKEN_IS_LISTED)


def health(ctx: typer.Context) -> None:
    """Show the health and the version of the service."""
    session_of(ctx).send("GET", "/health", fields_table)


def keys(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Show a subscription's public keys. A push with a v1a signature is valid if one of these keys verifies it."""
    session = session_of(ctx)
    answer = session.api.request("GET", path_of("topics", topic, "subscriptions", name))
    found = answer.json.get("public_keys", ())
    if session.as_json or found:
        session.show(answer, "\n".join(found))
    else:
        session.warn("No public keys. To get one: tagcast subscription update TOPIC NAME --signature v1a")


for panel, groups, commands in (
    (
        "Topics and subscriptions",
        {"topic": topics, "subscription": subscription, "shadow": shadow, "group": group},
        (subscribe, subscribe_all, unsubscribe, rotate_secret, verify, versions),
    ),
    ("Messages", {"dead-letters": dead_letters}, (publish, list_messages, history, message, explain, tail)),
    ("Lanes", {"lanes": lanes}, (lane, hosts, pause, resume, retry, skip)),
    ("Archive", {}, (archive, report, audit, backtest, replay, erase, retain)),
    ("Tools", {"filter": filters, "cmq-key": cmq_keys}, (console, consume, listen, keys, health, doctor, smoke)),
):
    for name, commands_below in groups.items():
        app.add_typer(commands_below, name=name, rich_help_panel=panel)
    for command in commands:
        app.command(command.__name__.removeprefix("list_").replace("_", "-"), rich_help_panel=panel)(command)


def main() -> None:
    """Run the command line."""
    escape_unprintable()
    bypass_proxies()
    app()


if __name__ == "__main__":
    main()
