"""`tagcast subscribe-all`: creates many subscriptions of a topic from one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.batches import named_again, parts
from tagcast_client.changing import with_endpoint
from tagcast_client.operation import Json, path_of

from tagcast_cli.content import body_bytes
from tagcast_cli.screen import fault_lines, rows_table
from tagcast_cli.session import TopicName, session_of
from tagcast_cli.visible import visible_json, visible_line


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
    """Create many subscriptions of a topic from one file. Each succeeds or fails on its own.

    An existing subscription is refused: see --replace. Write each subscription as in the API, with its name. An
    endpoint may be just its URL:
    {"name": "billing", "endpoint": "https://…", "filter": …}.
    """
    session = session_of(ctx)
    results: list[Json] = []
    items = _read(source)
    for _, part in parts(items):
        path = path_of("topics", topic, "subscriptions", "batch")
        answer = session.api.request("POST", path, {"subscriptions": list(part), "replace": replace})
        if session.as_json:
            typer.echo(visible_json(answer.text.rstrip("\n")))
        results += answer.json.get("results", [])
    if not session.as_json:
        session.out.print(_summary(topic, [str(item.get("name", "—")) for item in items], results))
    if any("error" in result for result in results):
        raise typer.Exit(1)


def _read(source: str) -> list[Json]:
    try:
        items = json.loads(body_bytes(source))
    except ValueError as fault:
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
        said = f"{len(pending)} of them unverified, without pushes until they confirm: {', '.join(pending)}."
        lines.append(Text(f"{said}\nVerify one with: tagcast verify {topic} NAME", style="yellow"))
    told = [[result["name"], result["secret"]] for result in results if "secret" in result]
    if told:
        lines.append(rows_table(told, "subscription", "secret"))
    for place, problem in refused.items():
        lines.append(Text(f"{visible_line(names[place])} (at /{place}) was refused:", style="bold red"))
        lines.append(fault_lines(problem, int(problem.get("status") or 422)))
    return Group(*lines)
