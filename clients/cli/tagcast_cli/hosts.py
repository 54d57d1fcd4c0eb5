"""`tagcast hosts`: hosts that did not respond, and their circuits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import typer
from tagcast_client.operation import Json

from tagcast_cli.instant import readable_instant
from tagcast_cli.screen import state_text
from tagcast_cli.session import Cursor, EveryPage, Limit, Listing, Page, session_of


def next_probe(probe_at: str | None, now: datetime) -> str:
    """Return when a host is probed next. After that instant, the next attempt is the probe.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> next_probe("2026-05-01T11:59:59.000Z", noon), next_probe("2026-05-01T12:00:05.000Z", noon)
    ('at the next attempt', '12:00:05 UTC (in 5 s)')
    """
    if probe_at is not None and datetime.fromisoformat(probe_at) <= now:
        return "at the next attempt"
    return readable_instant(probe_at, now)


def _row(host: Json) -> list[Any]:
    return [
        state_text(host.get("circuit")),
        host.get("host"),
        readable_instant(host.get("last_failed_at")),
        readable_instant(host.get("opened_at")),
        next_probe(host.get("next_probe_at"), datetime.now(UTC)),
    ]


LISTING = Listing(
    key="hosts",
    headings=("circuit", "host", "last failed", "opened", "next probe"),
    row=_row,
    empty="All hosts responded in the last hour.",
)


def hosts(ctx: typer.Context, limit: Limit = 20, cursor: Cursor = None, every: EveryPage = False) -> None:
    """List the hosts that did not respond in the last hour. An open circuit allows one probe at a time."""
    session_of(ctx).show_list("/hosts", LISTING, Page(limit, cursor, every))
