"""`tagcast archive`, `report`, `audit`, `backtest`, `replay`: the Spark jobs over what happened."""

from __future__ import annotations

import json
import sys
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from tagcast.instant import rfc3339

from local.cli.filters import (
    JsonFilter,
    RoutingKeyFilter,
    SqlDialect,
    SqlFilter,
    TagExpression,
    TagFilter,
    filter_of,
)
from local.cli.job_run import NOTHING_JUDGED, Archive, Link, Result, run_job
from local.cli.screen import console, fields_table
from local.cli.session import SubscriptionName, TopicName, session_of

ArchiveUri = Annotated[
    str | None, typer.Option("--archive", metavar="URI", help="Another archive: s3://BUCKET, or a folder.")
]
DataFolder = Annotated[
    Path, typer.Option("--data", envvar="TAGCAST_DATA", help="Folder of the local stack whose archive it is.")
]
FirstDay = Annotated[str | None, typer.Option("--from", metavar="DAY", help="First day (UTC); default: today.")]
EndDay = Annotated[str | None, typer.Option("--to", metavar="DAY", help="Day after the last; default: tomorrow.")]
AsItIs = Annotated[bool, typer.Option("--as-is", help="Use the archive as it was compacted last; do not do it now.")]
Opens = Annotated[bool, typer.Option("--open/--no-open", help="Show the report in a browser.")]
OneTopic = Annotated[str | None, typer.Option("--topic", help="Only this topic.")]

DEFAULT_DATA = Path(".tagcast")
_HIDDEN = ("job", "ok", "html", "json")


@dataclass(frozen=True)
class Days:
    """The days that a job looks at: the first, and the day after the last."""

    first: date
    end: date

    @classmethod
    def of(cls, first: str | None, end: str | None) -> Days:
        """Read both; without them it is today, which is what a local stack has."""
        today = datetime.now(UTC).date()
        try:
            begin = today if first is None else date.fromisoformat(first)
            days = cls(begin, max(begin, today) + timedelta(1) if end is None else date.fromisoformat(end))
        except ValueError as fault:
            raise typer.BadParameter(f"a day is written as 2026-11-20: {fault}") from None
        if days.first >= days.end:
            raise typer.BadParameter("--to is the day after the last: it must be later than --from")
        return days

    def arguments(self) -> list[str]:
        """Return them as jobs take them."""
        return ["--from", self.first.isoformat(), "--to", self.end.isoformat()]


def archive(
    ctx: typer.Context,
    data: DataFolder = DEFAULT_DATA,
    uri: ArchiveUri = None,
    first: FirstDay = None,
    end: EndDay = None,
) -> None:
    """Compact what arrived on these days: raw JSON lines to deduplicated Parquet by day."""
    days = Days.of(first, end)
    _run(ctx, "compact", _archive(data, uri), days.arguments())


def report(
    ctx: typer.Context,
    data: DataFolder = DEFAULT_DATA,
    uri: ArchiveUri = None,
    first: FirstDay = None,
    end: EndDay = None,
    topic: OneTopic = None,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Say how deliveries are doing: counts, latencies, blocked time and failures, as a page and as Parquet."""
    place, days = _archive(data, uri), Days.of(first, end)
    _run(
        ctx,
        "delivery_report",
        place,
        days.arguments() + _option("--topic", topic),
        first=_compacting(place, days, as_is),
        show=show,
    )


def audit(
    ctx: typer.Context,
    data: DataFolder = DEFAULT_DATA,
    uri: ArchiveUri = None,
    first: FirstDay = None,
    end: EndDay = None,
    topic: OneTopic = None,
    as_of: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Until when the archive is complete; default: an hour ago, locally now."),
    ] = None,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Prove that every matched pair ended in exactly one state, in order and in time.

    The exit code is 1 if a promise was broken, and 3 if nothing was there to judge, so that nothing was proved.
    """
    now = rfc3339(round(time.time() * 1000))
    place, days = _archive(data, uri), Days.of(first, end)
    arguments = days.arguments() + _option("--topic", topic)
    arguments += _option("--as-of", as_of or (now if place.is_local else None))
    if place.is_local:
        arguments += ["--time-scale", f"{place.time_scale:g}"]
    _run(ctx, "audit", place, arguments, first=_compacting(place, days, as_is), show=show)


def backtest(
    ctx: typer.Context,
    topic: TopicName,
    data: DataFolder = DEFAULT_DATA,
    uri: ArchiveUri = None,
    first: FirstDay = None,
    end: EndDay = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", help="Compare with the present filter of this subscription.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Messages shown of each way in which both differ.")] = 20,
    tag: TagFilter = None,
    tag_expression: TagExpression = None,
    routing_key: RoutingKeyFilter = None,
    sql: SqlFilter = None,
    dialect: SqlDialect = None,
    filter_json: JsonFilter = None,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Say what a filter would have done to the archived messages of a topic."""
    candidate = filter_of(
        tags=tag,
        tag_expression=tag_expression,
        patterns=routing_key,
        sql=sql,
        dialect=dialect,
        filter_json=filter_json,
    )
    place, days = _archive(data, uri), Days.of(first, end)
    arguments = [*days.arguments(), "--topic", topic, "--filter", json.dumps(candidate), "--samples", str(samples)]
    _run(
        ctx,
        "backtest",
        place,
        arguments + _option("--subscription", subscription),
        first=_compacting(place, days, as_is),
        show=show,
    )


def replay(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    data: DataFolder = DEFAULT_DATA,
    uri: ArchiveUri = None,
    first: FirstDay = None,
    end: EndDay = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Messages per second.")] = 10.0,
    send: Annotated[
        bool, typer.Option("--send", help="Send them; without it only what would be sent is told.")
    ] = False,
    as_is: AsItIs = False,
) -> None:
    """Send archived messages (those with their bodies) again to one subscription, as new messages."""
    place, days = _archive(data, uri), Days.of(first, end)
    arguments = [*days.arguments(), "--topic", topic, "--subscription", subscription, "--rate", f"{rate:g}"]
    arguments += ["--preview", "false" if send else "true", "--api", session_of(ctx).api.url]
    _run(ctx, "replay", place, arguments, first=_compacting(place, days, as_is))


def _archive(folder: Path, uri: str | None) -> Archive:
    return Archive.of_stack(folder) if uri is None else Archive(uri)


def _option(name: str, value: str | None) -> list[str]:
    return [] if value is None else [name, value]


def _run(
    ctx: typer.Context, job: str, place: Archive, arguments: list[str], *, first: Link = (), show: bool = False
) -> None:
    result = run_job(job, place, arguments, console(to_errors=True), first=first)
    if session_of(ctx).as_json:
        typer.echo(json.dumps(result.summary))
    else:
        if result.code == NOTHING_JUDGED:
            console().print(Text("Nothing was proved: there was nothing to judge.", style="bold yellow"))
        console().print(fields_table(_shown(result.summary)))
    _present(place, result, show=show and not session_of(ctx).as_json)
    if result.code:
        raise typer.Exit(result.code)


def _compacting(place: Archive, days: Days, as_is: bool) -> Link:
    """Return the job that compacts first what a local stack archived since: elsewhere a schedule does it."""
    return ["compact", *days.arguments()] if place.is_local and not as_is else ()


def _shown(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name not in _HIDDEN}


def _present(place: Archive, result: Result, *, show: bool) -> None:
    uri = result.summary.get("html")
    if uri is None:
        return
    page = place.fetch(str(uri)).resolve()
    console(to_errors=True).print(Text(f"report  {page}"))
    if show and sys.stdout.isatty():
        webbrowser.open(page.as_uri())
