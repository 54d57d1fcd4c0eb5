"""Hosts that recently failed to respond, and the state of their circuits."""

from __future__ import annotations

from typing import Literal

from tagcast.instant import rfc3339_or_none
from tagcast.operating.urgent_lanes import list_hosts
from tagcast.ports import World
from tagcast.rows.host import Host
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.paging import PAGING, encode_cursor, page
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route


class HostAnswer(TypedDict):
    """A host that recently failed to respond. While its circuit is open, the host gets only one probe at a time.

    ``opened_at`` and ``closed_at`` are null if the circuit never opened or closed. ``next_probe_at`` is null while the
    circuit is closed.
    """

    host: str
    circuit: Literal["open", "closed"]
    last_failed_at: Instant | None
    opened_at: Instant | None
    closed_at: Instant | None
    next_probe_at: Instant | None


class HostsAnswer(TypedDict):
    """One page of hosts. ``next_cursor`` is null on the last page."""

    hosts: list[HostAnswer]
    next_cursor: str | None


def answer_hosts(world: World, request: Request[None]) -> Answer:
    """List the hosts that recently failed to respond."""
    found, now = list_hosts(world, *request.page("[0-9a-f]{32}")), world.clock.now()
    return Answer(200, page("hosts", [_show_host(host, now) for host in found.items], encode_cursor(found.cursor)))


def _show_host(value: Host, now: int) -> HostAnswer:
    is_open = value.is_open(now)
    return {
        "host": value.name,
        "circuit": "open" if is_open else "closed",
        "last_failed_at": rfc3339_or_none(max(value.failures.values(), default=None)),
        "opened_at": rfc3339_or_none(value.opened_at),
        "closed_at": rfc3339_or_none(value.closed_at),
        "next_probe_at": rfc3339_or_none(value.probe_at if is_open else None),
    }


ROUTES = (Route("list_hosts", "lanes", "GET", "/hosts", answer_hosts, {200: HostsAnswer}, query=PAGING),)
