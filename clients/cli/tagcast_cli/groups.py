"""`tagcast group list` and `show`: consumer groups and their members."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text
from tagcast_client import ConflictError
from tagcast_client.operation import Json, path_of

from tagcast_cli import completion
from tagcast_cli.api_client import pages
from tagcast_cli.filters import filter_text
from tagcast_cli.instant import readable_instant
from tagcast_cli.push_options import protocol_of
from tagcast_cli.screen import rows_table, state_text
from tagcast_cli.session import Session, TopicName, session_of
from tagcast_cli.subscriptions import subscription_fields

group = typer.Typer(no_args_is_help=True, help="List and show consumer groups, whose members pull.")

GroupName = Annotated[str, typer.Argument(help="Name of the group.", autocompletion=completion.subscriptions)]


def members_of(session: Session, topic: str, name: str) -> list[Json]:
    """Return the live members of a group."""
    found = session.api.request("GET", path_of("topics", topic, "subscriptions", name, "members"))
    return list(found.json.get("members", []))


def members_text(members: list[Json]) -> Text:
    """Return the number of members, and how many disagree with the group about the filter or the order.

    >>> members_text([{"agrees": True}, {"agrees": False}]).plain
    '2, 1 disagrees'
    """
    others = sum(not member.get("agrees") for member in members)
    text = Text(str(len(members)), style="" if members else "yellow")
    if others:
        text.append(f", {others} disagree{'s' if others == 1 else ''}", style="red")
    return text


def pending_text(lane: Json) -> Text:
    """Return how many messages of a group are queued, with members, or in the backlog.

    >>> pending_text({"state": "active", "backlog": 0, "queued": 7, "in_flight": 2}).plain
    'pending           about 7 queued, 2 with members, 0 in the backlog'
    """
    queued, in_flight, backlog = (lane.get(name, 0) for name in ("queued", "in_flight", "backlog"))
    pending = f"about {queued} queued, {in_flight} with members, {backlog} in the backlog"
    return Text.assemble(("pending".ljust(18), "bold"), pending)


def _member_row(member: Json) -> list[Any]:
    agrees = member.get("agrees")
    return [
        member.get("member_id"),
        member.get("member_version") or None,
        Text("yes", style="green") if agrees else Text("no", style="red"),
        readable_instant(member.get("joined_at")),
        readable_instant(member.get("seen_at")),
    ]


@group.command("list")
def list_groups(ctx: typer.Context, topic: TopicName) -> None:
    """List the consumer groups of a topic: filter, version, members and lane."""
    session = session_of(ctx)
    rows: list[list[Any]] = []
    for page in pages(session.api, path_of("topics", topic, "subscriptions")):
        for each in page.json.get("subscriptions", []):
            if protocol_of(each.get("endpoint")) != "pull":
                continue
            members = members_of(session, topic, each["name"])
            if session.as_json:
                session.print_json({**each, "members": members})
                continue
            lane = each.get("lane") or {}
            wants = filter_text(each.get("filter"))
            rows.append(
                [each["name"], wants, each.get("version"), members_text(members), state_text(lane.get("state"))]
            )
    if session.as_json:
        return
    if not rows:
        session.out.print(f"No groups yet. Create one: tagcast consume {topic} GROUP")
        return
    session.out.print(rows_table(rows, "group", "filter", "version", "members", "lane"))


@group.command("show")
def show_group(ctx: typer.Context, topic: TopicName, name: GroupName) -> None:
    """Show a consumer group and its members. A member that disagrees about the filter or the order cannot pull."""
    session = session_of(ctx)
    answer = session.api.request("GET", path_of("topics", topic, "subscriptions", name))
    if protocol_of(answer.json.get("endpoint")) != "pull":
        detail = f"{name} is not a consumer group: tagcast subscription show {topic} {name}"
        raise ConflictError(409, {"title": "Conflict", "status": 409, "code": "conflict", "detail": detail}, "")
    members = members_of(session, topic, name)
    if session.as_json:
        session.print_json({**answer.json, "members": members})
        return
    session.out.print(subscription_fields(answer.json))
    session.out.print(pending_text(answer.json.get("lane") or {}))
    if not members:
        session.out.print(Text("No members. Pending messages wait.", style="yellow"))
        return
    headings = ("member", "version", "agrees", "joined at", "seen at")
    session.out.print(Group(Text(), rows_table(map(_member_row, members), *headings)))
