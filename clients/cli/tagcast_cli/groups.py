"""`tagcast group list` and `show`: consumer groups and their members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text
from tagcast_client import ConflictError
from tagcast_client.operation import Json, path_of

from tagcast_cli import completion
from tagcast_cli.api_client import pages
from tagcast_cli.filters import filter_text
from tagcast_cli.push_options import protocol_of
from tagcast_cli.screen import Column, items_table
from tagcast_cli.session import Session, TopicName, session_of
from tagcast_cli.subscriptions import subscription_fields

group = typer.Typer(no_args_is_help=True, help="List and show consumer groups, whose members pull.")

GroupName = Annotated[str, typer.Argument(help="Name of the group.", autocompletion=completion.subscriptions)]


def members_of(session: Session, topic: str, name: str) -> list[Json]:
    """Return the live members of a group. A member is live for two minutes after its last heartbeat."""
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
    """Return how many messages of a group wait in its queue, are held by members, or are in the backlog.

    >>> pending_text({"state": "active", "backlog": 0, "queued": 7, "in_flight": 2}).plain
    'pending           about 7 queued, 2 with members, 0 in the backlog'
    """
    queued, in_flight, backlog = (lane.get(name, 0) for name in ("queued", "in_flight", "backlog"))
    pending = f"about {queued} queued, {in_flight} with members, {backlog} in the backlog"
    return Text.assemble(("pending".ljust(18), "bold"), pending)


GROUPS: Mapping[str, Column] = {
    "group": "name",
    "filter": lambda group: filter_text(group.get("filter")),
    "version": "version",
    "members": lambda group: members_text(group["members"]),
    "lane": "lane.state",
}
MEMBERS: Mapping[str, Column] = {
    "member": "member_id",
    "version": lambda member: member.get("member_version") or None,
    "agrees": lambda member: Text("yes", style="green") if member.get("agrees") else Text("no", style="red"),
    "joined at": "joined_at",
    "seen at": "seen_at",
}


@group.command("list")
def list_groups(ctx: typer.Context, topic: TopicName) -> None:
    """List the consumer groups of a topic: filter, version, members and lane."""
    session = session_of(ctx)
    groups: list[Json] = []
    for page in pages(session.api, path_of("topics", topic, "subscriptions")):
        for each in page.json.get("subscriptions", []):
            if protocol_of(each.get("endpoint")) == "pull":
                groups.append({**each, "members": members_of(session, topic, each["name"])})
                if session.as_json:
                    session.print_json(groups[-1])
    if not session.as_json:
        none = f"No groups yet. Create one: tagcast consume {topic} GROUP"
        session.out.print(items_table(groups, GROUPS) if groups else none)


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
    session.out.print(Group(Text(), items_table(members, MEMBERS)))
