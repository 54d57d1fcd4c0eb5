"""`tagcast hosts`: which hosts gave no answer, and where only one probe at a time is made."""

from __future__ import annotations

from typing import Any

import typer
from tagcast_client.operation import Json

from local.cli.instant import readable_instant
from local.cli.screen import state_text
from local.cli.session import Cursor, EveryPage, Limit, Listing, Page, session_of


def _row(host: Json) -> list[Any]:
    return [
        state_text(host.get("circuit")),
        host.get("host"),
        readable_instant(host.get("last_failed_at")),
        readable_instant(host.get("opened_at")),
        readable_instant(host.get("next_probe_at")),
    ]


LISTING = Listing(
    key="hosts",
    headings=("circuit", "host", "last failed", "opened", "next probe"),
    row=_row,
    empty="Every host gave answers in the last hour.",
)


def hosts(ctx: typer.Context, limit: Limit = 20, cursor: Cursor = None, every: EveryPage = False) -> None:
    """List the hosts that gave no answer in the last hour; at an open circuit one probe at a time is made."""
    session_of(ctx).show_list("/hosts", LISTING, Page(limit, cursor, every))
