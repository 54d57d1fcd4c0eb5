"""The hosts that gave no answer lately, as people see them."""

from __future__ import annotations

from tagcast.paging import Page
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.host import HOSTS, Host, host_rows


def list_hosts(world: World, limit: int, cursor: str | None) -> Page[Host]:
    """Return the hosts that gave no answer within the last hour, in no order that means anything, from *cursor* on."""
    rows, now = host_rows(world.store, after=cursor or "", limit=limit + 1), world.clock.now()
    hosts = (HOSTS.value_of(row) for row in rows[:limit])
    following = stored.place(rows[limit]) if len(rows) > limit else None
    return Page(tuple(host for host in hosts if now < host.kept_until), following)
