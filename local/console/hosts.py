"""Hosts that did not respond recently, and their circuits."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web
from tagcast_client import Host

from local.console.attention import Choice
from local.console.desk import desk_of

HOSTS_SHOWN = 50


def open_circuits_first(host: Host) -> tuple[bool, str]:
    """Return the sort key of a host. Hosts with open circuits come first."""
    return host.circuit != "open", host.host


async def hosts(request: web.Request) -> web.Response:
    """Show one page of hosts that did not respond recently."""
    desk = desk_of(request)
    found = await desk.api.list_hosts(limit=HOSTS_SHOWN).page(request.query.get("hosts"))
    return desk.page(
        "hosts.html",
        hosts=sorted(found.items, key=open_circuits_first),
        more=found.next_cursor,
        lanes_at=lambda host: Choice(host=host).path(),
        now=datetime.now(UTC),
    )


ROUTES = (web.get("/hosts", hosts),)
