"""The pages that the archive's jobs made on this machine: certificates, reports, backtests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from local.console.desk import desk_of

PAGES_SHOWN = 100
INERT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What such a page may do: look as it does. It was made from what strangers published."""


@dataclass(frozen=True)
class Report:
    """One page of a job; *name* is its path below the folder of reports."""

    name: str
    made_at: datetime
    size: int


def reports_in(folder: Path) -> list[Report]:
    """Return the pages below a folder, newest first."""
    found = [(each, each.stat()) for each in folder.rglob("*.html") if each.is_file()]
    reports = [
        Report(each.relative_to(folder).as_posix(), datetime.fromtimestamp(told.st_mtime, UTC), told.st_size)
        for each, told in found
    ]
    return sorted(reports, key=lambda report: report.made_at, reverse=True)[:PAGES_SHOWN]


async def archive(request: web.Request) -> web.Response:
    """List the pages."""
    desk = desk_of(request)
    return desk.page("archive.html", reports=reports_in(desk.reports), folder=str(desk.reports))


async def report(request: web.Request) -> web.StreamResponse:
    """Serve one of the pages that are listed; it can do nothing."""
    desk, name = desk_of(request), request.match_info["name"]
    if name not in {each.name for each in reports_in(desk.reports)}:
        raise web.HTTPNotFound
    return web.FileResponse(desk.reports / name, headers={"Content-Security-Policy": INERT})


ROUTES = (web.get("/archive", archive), web.get("/archive/{name:.+}", report))
