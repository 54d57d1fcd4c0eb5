"""The HTML reports of the archive's jobs (certificates, reports, backtests), and the form that starts a job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

from aiohttp import web
from tagcast_cli.job_run import Days

from local.console.acts import Preview
from local.console.archive_jobs import JOBS, JobOrder
from local.console.desk import Desk, desk_of
from local.console.filter_form import FilterForm, UnreadableFilterError, filter_of

PAGES_SHOWN = 100
TITLE, TITLE_BYTES = re.compile("<title>(.*?)</title>", re.DOTALL), 4_096
SANDBOX_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The content security policy of a report: styles only, because a report contains content from publishers."""
FIELDS = ("job", "from", "to", "topic", "subscription", "kind", "text", "dialect", "scope")


@dataclass(frozen=True)
class Report:
    """One HTML report of a job. *name* is its path below the folder of reports. *title* begins with the verdict."""

    name: str
    made_at: datetime
    size: int
    title: str


def reports_in(folder: Path) -> list[Report]:
    """Return at most :data:`PAGES_SHOWN` HTML reports below a folder, newest first."""
    found = [(each.stat(), each) for each in folder.rglob("*.html") if each.is_file()]
    newest = sorted(found, key=lambda each: each[0].st_mtime, reverse=True)[:PAGES_SHOWN]
    return [
        Report(page.relative_to(folder).as_posix(), datetime.fromtimestamp(s.st_mtime, UTC), s.st_size, title_of(page))
        for s, page in newest
    ]


def title_of(page: Path) -> str:
    """Return the title at the beginning of an HTML report; empty if it has none."""
    with page.open("rb") as content:
        found = TITLE.search(content.read(TITLE_BYTES).decode("utf-8", "replace"))
    return unescape(found.group(1)).strip() if found else ""


def order_of(fields: Mapping[str, str]) -> JobOrder:
    """Return the job that the form fields *fields* describe.

    Raises ValueError for an invalid job, day or topic, and UnreadableFilterError for an invalid filter.
    """
    job, topic = fields.get("job", ""), fields.get("topic", "").strip() or None
    if job not in JOBS:
        raise ValueError(f"Unknown job {job!r}. Allowed: {', '.join(JOBS)}")
    days = Days.of(fields.get("from", "").strip() or None, fields.get("to", "").strip() or None)
    if job != "backtest":
        return JobOrder(job, days, topic)
    if topic is None:
        raise ValueError("A backtest needs a topic")
    return JobOrder(job, days, topic, filter_of(FilterForm.of(fields)), fields.get("subscription", "").strip() or None)


def preview_of(fields: Mapping[str, str], desk: Desk) -> Preview:
    """Return the preview of the job that *fields* describe. If the job cannot start, its *stop* says why."""
    title, back = f"Start {fields.get('job', '')}", "/archive"
    try:
        order = order_of(fields)
    except (ValueError, UnreadableFilterError) as fault:
        return Preview(title, (), "Start", back, stop=f"{fault}.")
    if desk.jobs.runs and desk.jobs.order is not None:
        return Preview(title, (), "Start", back, stop=f"Another job is in progress: {desk.jobs.order.text}.")
    sentences = (
        f"Job: {order.text}.",
        desk.jobs.runner.means,
        "The job reads the archive and writes a report. It publishes nothing and changes no delivery.",
    )
    kept = {name: fields.get(name, "") for name in FIELDS}
    return Preview(title, sentences, "Start", back, kept, action="/archive/job")


async def archive(request: web.Request) -> web.Response:
    """List the HTML reports, with the result of the last job."""
    desk, today = desk_of(request), datetime.now(UTC).date()
    reports = reports_in(desk.reports)
    return desk.page(
        "archive.html",
        reports=reports,
        folder=str(desk.reports),
        board=desk.jobs,
        page=page_of(desk, reports),
        filter=FilterForm(),
        today=today.isoformat(),
        tomorrow=(today + timedelta(1)).isoformat(),
    )


def page_of(desk: Desk, reports: list[Report]) -> str | None:
    """Return the name of the last job's HTML report; None if it is not among *reports*."""
    ended = desk.jobs.ended
    if ended is None or ended.page is None:
        return None
    made = ended.page.resolve()
    return next((each.name for each in reports if (desk.reports / each.name).resolve() == made), None)


async def ready(request: web.Request) -> web.Response:
    """Let the stack prepare for a job. A page of the archive sends this request after it was open for a moment."""
    desk_of(request).jobs.prepare()
    return web.Response(status=204)


async def preview(request: web.Request) -> web.Response:
    """Show the preview of a job."""
    desk = desk_of(request)
    return desk.page("confirm.html", preview=preview_of(request.query, desk))


async def start(request: web.Request) -> web.Response:
    """Start a job and show the archive page. If another job runs or a field is invalid, show the preview again."""
    desk, form = desk_of(request), await request.post()
    job_preview = preview_of({name: str(form.get(name, "")) for name in FIELDS}, desk)
    if job_preview.stop is not None:
        return desk.page("confirm.html", 409, preview=job_preview)
    desk.jobs.start(order_of(job_preview.fields))
    raise web.HTTPSeeOther("/archive")


async def report(request: web.Request) -> web.StreamResponse:
    """Serve one of the listed HTML reports. The browser shows it in a sandbox, in which no script runs."""
    desk, name = desk_of(request), request.match_info["name"]
    if name not in {each.name for each in reports_in(desk.reports)}:
        raise web.HTTPNotFound
    return web.FileResponse(desk.reports / name, headers={"Content-Security-Policy": SANDBOX_POLICY})


ROUTES = (
    web.get("/archive", archive),
    web.post("/archive/ready", ready),
    web.get("/archive/job", preview),
    web.post("/archive/job", start),
    web.get("/archive/{name:.+}", report),
)
