"""`tagcast archive`, `report`, `audit`, `backtest`, `replay`, `erase`, `retain`: the Spark jobs over the archive."""

from __future__ import annotations

import json
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.console import RenderableType
from rich.text import Text
from tagcast_client import ProblemError, SigV4
from tagcast_client.operation import Json, drop_none, path_of
from tagcast_client.signing import is_aws

from tagcast_cli.api_client import client_for, url_fault
from tagcast_cli.content import properties_of
from tagcast_cli.filters import FilterOptions, SqlFilter, TagFilter
from tagcast_cli.instant import rfc3339
from tagcast_cli.job_run import (
    EVER,
    NOTHING_JUDGED,
    SAMPLES,
    Archive,
    Days,
    JobError,
    Result,
    Span,
    arguments_of,
    audit_arguments,
    backtest_arguments,
    compacting,
    instant_of,
    run_job,
)
from tagcast_cli.options import with_options
from tagcast_cli.screen import Column, console, fields_table, items_table
from tagcast_cli.session import SubscriptionName, TopicName, session_of, source_of

DataFolder = Annotated[
    Path, typer.Option("--data", envvar="TAGCAST_DATA", help="Folder of the local stack: the DATA of make run.")
]
AsItIs = Annotated[bool, typer.Option("--as-is", help="Skip compaction and use the archive as it is.")]
Opens = Annotated[bool, typer.Option("--open/--no-open", help="Show the report in a browser.")]
DEFAULT_DATA = Path(".tagcast")
T = TypeVar("T")
OneTopic = Annotated[str | None, typer.Option("--topic", help="Only this topic.")]


@dataclass(frozen=True)
class ArchiveOptions:
    """The options that name the archive of a job: by its URI, its API's address, or its local stack's folder."""

    data: DataFolder = DEFAULT_DATA
    uri: Annotated[
        str | None, typer.Option("--archive", metavar="URI", help="URI of the archive: s3://BUCKET, or a folder.")
    ] = None
    url: Annotated[
        str | None, typer.Option(help="URL of the API that owns the archive: a local stack or a deployment.")
    ] = None

    def archive(self, ctx: typer.Context) -> Archive:
        """Return the archive that the options name. Raises JobError if it cannot be found.

        Without options it is the archive of the API that the global ``--url`` or ``TAGCAST_URL`` names. Without these
        it is the archive of the local stack on the default folder.
        """
        session = session_of(ctx)
        if self.uri is not None:
            return Archive(self.uri, drop_none(AWS_PROFILE=session.profile))
        address = self.url or (session.api.url if source_of(ctx.find_root(), "url") != "DEFAULT" else None)
        if address is None or source_of(ctx, "data") != "DEFAULT":
            return Archive.of_stack(self.data)
        if (fault := url_fault(address)) is not None:
            raise typer.BadParameter(fault, param_hint="--url")
        if is_aws(address):
            return Archive.of_deployment(address, session.profile, session.region)
        try:
            folder = client_for(address, None, None).request("GET", "/stack").json["folder"]
        except (ProblemError, KeyError):  # It may be the own domain of a deployment.
            raise JobError(f"{address} is not a local stack; give the archive with --archive s3://BUCKET") from None
        return Archive.of_stack(Path(str(folder)))


def _check_pair(text: str) -> str:
    """Return a property as it was given. A wrong one is refused here, because a job starts slowly."""
    properties_of([text])
    return text


def _check_instant(text: str) -> str:
    try:
        instant_of(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None
    return text


@dataclass(frozen=True)
class DayOptions:
    """The days that a job reads."""

    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="First day (UTC); default: today.")] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="Day after the last day; default: tomorrow.")
    ] = None

    def days(self) -> Days:
        """Return the given days; the default is today."""
        return _read(Days.of, self.first, self.end)


@dataclass(frozen=True)
class SpanOptions:
    """The time in which a replay's messages were accepted."""

    first: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="INSTANT", help="First instant (2026-11-20T14:00Z) or day (UTC); default: today."
        ),
    ] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="End, an instant or a day (UTC); default: tomorrow.")
    ] = None

    def span(self) -> Span:
        """Return the given span; the default is today."""
        return _read(Span.of, self.first, self.end)


def _read(parse: Callable[[str | None, str | None], T], first: str | None, end: str | None) -> T:
    try:
        return parse(first, end)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None


PERIODS: Mapping[str, Column] = {
    "topic": "topic",
    "subscription": "subscription",
    "begins at": lambda row: rfc3339(row["begins_at"])[:16],
    "matched": "matched",
    "delivered": "delivered",
    "given up": lambda row: row["discarded"] + row["expired"],
    "pending": "pending",
    "retries": "retries",
    "p95 ms": lambda row: None if row["end_to_end_ms_p95"] is None else round(row["end_to_end_ms_p95"]),
}
_HIDDEN = ("job", "ok", "html", "json")


@with_options
def archive(ctx: typer.Context, place: ArchiveOptions, period: DayOptions) -> None:
    """Compact the archive: convert the JSON files of the given days to Parquet files with each record once."""
    _run(ctx, "compact", place.archive(ctx), period.days().arguments())


@with_options
def report(
    ctx: typer.Context,
    place: ArchiveOptions,
    period: DayOptions,
    topic: OneTopic = None,
    subscription: Annotated[str | None, typer.Option(help="With --topic and --by: only this subscription.")] = None,
    by: Annotated[
        Literal["hour", "day"] | None, typer.Option(help="List the figures of each subscription by hour or day.")
    ] = None,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Report on deliveries: counts, latencies, blocked time and failures, as an HTML page and as Parquet."""
    if subscription is not None and (topic is None or by is None):
        raise typer.BadParameter("--subscription needs --topic and --by")
    archive, days = place.archive(ctx), period.days()
    arguments = days.arguments() + arguments_of(topic=topic, subscription=subscription, by=by)
    _run(ctx, "delivery_report", archive, arguments, since=None if as_is else days.first, show=show)


@with_options
def audit(
    ctx: typer.Context,
    place: ArchiveOptions,
    period: DayOptions,
    topic: OneTopic = None,
    property: Annotated[
        str | None,
        typer.Option(
            parser=_check_pair,
            metavar="NAME=VALUE",
            help="Certify only messages with this property; list each.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            parser=_check_instant,
            metavar="INSTANT",
            help="Instant up to which the archive is complete; default: an hour ago, locally now.",
        ),
    ] = None,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Prove that every delivery ended in exactly one state, in order and in time.

    The exit code is 1 if a promise was broken, and 3 if there were no deliveries to check.
    """
    now = rfc3339(round(time.time() * 1000))
    archive, days = place.archive(ctx), period.days()
    arguments = audit_arguments(archive, days, topic, as_of or (now if archive.is_local else None), property)
    _run(ctx, "audit", archive, arguments, since=None if as_is else days.first, show=show)


@with_options
def backtest(
    ctx: typer.Context,
    topic: TopicName,
    filter: FilterOptions,
    place: ArchiveOptions,
    period: DayOptions,
    subscription: Annotated[
        str | None, typer.Option(help="Compare with the newest filter of this subscription.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Sample messages for each kind of difference.")] = SAMPLES,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Run a filter over the archived messages of a topic, and count the matches."""
    candidate = filter.filter()
    archive, days = place.archive(ctx), period.days()
    arguments = backtest_arguments(days, topic, candidate, samples) + arguments_of(subscription=subscription)
    _run(ctx, "backtest", archive, arguments, since=None if as_is else days.first, show=show)


@with_options
def replay(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    place: ArchiveOptions,
    period: SpanOptions,
    tag: TagFilter = None,
    sql: SqlFilter = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Messages per second.")] = 10.0,
    send: Annotated[bool, typer.Option("--send", help="Send the messages; the default is a preview.")] = False,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the run. A run sends no message twice; a new name sends all messages again."
        ),
    ] = None,
    as_is: AsItIs = False,
) -> None:
    """Replay archived messages to one subscription, as new messages. Messages without a body are left out.

    The current filter of the subscription applies. With --tag or --sql, messages must match that filter, too.
    Other messages are counted as filtered out, and not sent.
    """
    archive, span, session = place.archive(ctx), period.span(), session_of(ctx)
    api = session.api
    present = api.request("GET", path_of("topics", topic, "subscriptions", subscription)).json
    only = FilterOptions(tag=tag, sql=sql).filter()
    arguments = span.arguments() + arguments_of(
        topic=topic,
        subscription=subscription,
        rate=f"{rate:g}",
        filter=json.dumps(present.get("filter")),
        preview=not send,
        only=json.dumps(only) if only else None,
        api=api.url,
        run_id=run_id,
    )
    if is_aws(api.url) or isinstance(api.auth, SigV4):
        arguments += arguments_of(sign=True, region=session.region)
    _run(ctx, "replay", archive, arguments, since=None if as_is else span.first.date())


@with_options
def erase(
    ctx: typer.Context,
    place: ArchiveOptions,
    message: Annotated[list[str] | None, typer.Option(help="Id of a message; may be repeated.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only messages of this topic that have the property.")] = None,
    property: Annotated[
        str | None,
        typer.Option(parser=_check_pair, metavar="NAME=VALUE", help="Only messages with this property."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(parser=_check_instant, metavar="DAY", help="Only messages accepted before this day."),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Requester of the erasure; the audit shows it.")] = None,
    send: Annotated[bool, typer.Option("--send", help="Erase the contents; the default is a preview.")] = False,
    as_is: AsItIs = False,
) -> None:
    """Erase the contents of archived messages. Salted hashes remain, so old certificates still verify.

    Name the messages by --message, or by --topic, --property and --before together. A message can be erased from five
    days after its expiry on, so --before can always be the day a week ago. With the parameter
    MessagesPointInTimeRecovery, backups of the messages table keep the contents for 35 days.
    """
    by_property = (topic, property, before)
    if bool(message) == any(by_property) or (any(by_property) and None in by_property):
        raise typer.BadParameter("give --message, or all of --topic, --property and --before")
    if send and by is None:
        raise typer.BadParameter("--send requires --by, the name of the requester")
    ids = ",".join(message or ()) or None
    arguments = arguments_of(message=ids, topic=topic, property=property, before=before, by=by, preview=not send)
    _run(ctx, "erase", place.archive(ctx), arguments, since=None if as_is else EVER, rewrites=True)


@with_options
def retain(
    ctx: typer.Context,
    place: ArchiveOptions,
    bodies_days: Annotated[
        int, typer.Option(min=0, help="Delete bodies after N days; 0 keeps them as long as their records.")
    ] = 0,
    properties_days: Annotated[
        int, typer.Option(min=0, help="Delete properties after N days; 0 keeps them as long as their records.")
    ] = 0,
    send: Annotated[
        bool, typer.Option("--send", help="Delete the bodies and properties; the default is a preview.")
    ] = False,
    as_is: AsItIs = False,
) -> None:
    """Delete the bodies and properties of older archived messages. Salted hashes remain.

    A deployment deletes them every night, by its parameters ArchiveBodiesDays and ArchivePropertiesDays.
    """
    arguments = arguments_of(bodies_days=bodies_days, properties_days=properties_days, preview=not send)
    _run(ctx, "retain", place.archive(ctx), arguments, since=None if as_is else EVER, rewrites=True)


def _run(
    ctx: typer.Context,
    job: str,
    place: Archive,
    arguments: list[str],
    *,
    since: date | None = None,
    rewrites: bool = False,
    show: bool = False,
) -> None:
    """Run a job and print its result. Unless *since* is None, first compact a local archive from that day on.

    *rewrites*: the job rewrites raw files, so it runs outside the local stack, with its owner's credentials.
    """
    first = () if since is None else compacting(place, since)
    if rewrites:
        place = replace(place, environment={**place.environment, **place.owner}, session=None)
    result = run_job(job, place, arguments, console(to_errors=True), first=first)
    session = session_of(ctx)
    if session.as_json:
        session.print_json(result.summary)
    else:
        if result.code == NOTHING_JUDGED:
            session.out.print(Text("Nothing was proved: there were no deliveries to check.", style="bold yellow"))
        if result.summary.get("messages") == 0:
            session.out.print(
                Text("No archived messages were found. Check the names and the days.", style="bold yellow")
            )
        session.out.print(*_summary(result.summary), sep="\n")
    _present(place, result, job, show=show and not session.as_json)
    if result.code:
        raise typer.Exit(result.code)


def _summary(summary: Mapping[str, Any]) -> list[RenderableType]:
    """Return the summary of a job: simple values as fields, and a table for each nested value."""
    fields: dict[str, Any] = {}
    tables: list[RenderableType] = []
    for name, value in summary.items():
        match value:
            case _ if name in _HIDDEN:
                continue
            case [*rows] if name == "rows":
                tables += [items_table(rows, PERIODS)] if rows else []
            case [{}, *_]:
                tables.append(_table(value))
            case dict() if value and all(isinstance(each, dict) for each in value.values()):
                tables.append(_table([{name.removesuffix("s"): key, **inner} for key, inner in value.items()]))
            case dict():
                parts = [f"{key.replace('_', ' ')} {inner}" for key, inner in value.items() if inner]
                fields[name] = ", ".join(parts) or "none"
            case int() if name.endswith("_at"):
                fields[name] = rfc3339(value)
            case _:
                fields[name] = value
    return [fields_table(fields), *tables]


def _table(rows: Sequence[Json]) -> RenderableType:
    return items_table(rows, {name.replace("_", " "): name for name in rows[0]})


def _present(place: Archive, result: Result, job: str, *, show: bool) -> None:
    names = {"report": "html", "certificate": "json"} if job == "audit" else {"report": "html"}
    for what, name in names.items():
        if uri := result.summary.get(name):
            file = place.fetch(str(uri)).resolve()
            console(to_errors=True).print(Text(f"{what}  {file}"), soft_wrap=True)
            if show and what == "report" and sys.stdout.isatty():
                webbrowser.open(file.as_uri())
