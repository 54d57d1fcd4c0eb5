"""`tagcast archive`, `report`, `audit`, `backtest`, `replay`, `erase`, `retain`: the Spark jobs over the archive."""

from __future__ import annotations

import json
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text
from tagcast_client import ProblemError, SigV4
from tagcast_client.operation import path_of
from tagcast_client.signing import is_aws

from tagcast_cli.api_client import client_for, url_fault
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
    audit_arguments,
    backtest_arguments,
    compacting,
    option,
    profile_environment,
    run_job,
)
from tagcast_cli.options import with_options
from tagcast_cli.screen import console, fields_table, named_cell, rows_table
from tagcast_cli.session import SubscriptionName, TopicName, session_of

DataFolder = Annotated[
    Path, typer.Option("--data", envvar="TAGCAST_DATA", help="Folder of the local stack: the DATA of make run.")
]
AsItIs = Annotated[bool, typer.Option("--as-is", help="Skip compaction and use the archive as it is.")]
Opens = Annotated[bool, typer.Option("--open/--no-open", help="Show the report in a browser.")]
DEFAULT_DATA = Path(".tagcast")
OneTopic = Annotated[str | None, typer.Option("--topic", help="Only this topic.")]


@dataclass(frozen=True)
class ArchiveOptions:
    """The archive that a job reads, named by its URI, its API's address, or its local stack's folder."""

    data: DataFolder = DEFAULT_DATA
    uri: Annotated[
        str | None, typer.Option("--archive", metavar="URI", help="URI of the archive: s3://BUCKET, or a folder.")
    ] = None
    url: Annotated[
        str | None, typer.Option("--url", help="URL of the API that owns the archive: a local stack or a deployment.")
    ] = None

    def archive(self, ctx: typer.Context) -> Archive:
        """Return the archive that the options name; by default the archive of the local stack on `--data`."""
        session = session_of(ctx)
        if self.uri is not None:
            return Archive(self.uri, profile_environment(session.profile))
        address = self.url or (session.api.url if _is_given(ctx.find_root(), "url") else None)
        if address is None or _is_given(ctx, "data"):
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


@dataclass(frozen=True)
class DayOptions:
    """The days that a job reads."""

    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="First day (UTC); default: today.")] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="Day after the last day; default: tomorrow.")
    ] = None

    def days(self) -> Days:
        """Return the given days; the default is today."""
        try:
            return Days.of(self.first, self.end)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None


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
        try:
            return Span.of(self.first, self.end)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None


class Period(StrEnum):
    """The period by which a report groups its counts and latencies."""

    HOUR = "hour"
    DAY = "day"


PERIOD_COLUMNS = (
    "topic",
    "subscription",
    "begins at",
    "matched",
    "delivered",
    "given up",
    "pending",
    "retries",
    "p95 ms",
)
_HIDDEN = ("job", "ok", "html", "json", "rows")


@with_options
def archive(
    ctx: typer.Context,
    place: ArchiveOptions,
    period: DayOptions,
) -> None:
    """Compact the archive of the given days from raw JSON lines to deduplicated Parquet."""
    _run(ctx, "compact", place.archive(ctx), period.days().arguments())


@with_options
def report(
    ctx: typer.Context,
    place: ArchiveOptions,
    period: DayOptions,
    topic: OneTopic = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", help="With --topic and --by: only this subscription.")
    ] = None,
    by: Annotated[
        Period | None, typer.Option("--by", help="List the figures of each subscription by hour or day.")
    ] = None,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Report on deliveries: counts, latencies, blocked time and failures, as an HTML page and as Parquet."""
    if subscription is not None and (topic is None or by is None):
        raise typer.BadParameter("--subscription needs --topic and --by")
    archive, days = place.archive(ctx), period.days()
    _run(
        ctx,
        "delivery_report",
        archive,
        days.arguments()
        + option("--topic", topic)
        + option("--subscription", subscription)
        + option("--by", None if by is None else by.value),
        since=None if as_is else days.first,
        show=show,
    )


@with_options
def audit(
    ctx: typer.Context,
    place: ArchiveOptions,
    period: DayOptions,
    topic: OneTopic = None,
    property: Annotated[
        str | None,
        typer.Option("--property", metavar="NAME=VALUE", help="Certify only messages with this property; list each."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT", help="Instant up to which the archive is complete; default: an hour ago, locally now."
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
        str | None, typer.Option("--subscription", help="Compare with the newest filter of this subscription.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Sample messages for each kind of difference.")] = SAMPLES,
    as_is: AsItIs = False,
    show: Opens = True,
) -> None:
    """Run a filter over the archived messages of a topic, and count the matches."""
    candidate = filter.filter()
    archive, days = place.archive(ctx), period.days()
    _run(
        ctx,
        "backtest",
        archive,
        backtest_arguments(days, topic, candidate, samples) + option("--subscription", subscription),
        since=None if as_is else days.first,
        show=show,
    )


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
    arguments = [*span.arguments(), "--topic", topic, "--subscription", subscription, "--rate", f"{rate:g}"]
    arguments += ["--filter", json.dumps(present.get("filter")), "--preview", "false" if send else "true"]
    if only := FilterOptions(tag=tag, sql=sql).filter():
        arguments += ["--only", json.dumps(only)]
    arguments += ["--api", api.url, *option("--run-id", run_id)]
    if is_aws(api.url) or isinstance(api.auth, SigV4):
        arguments += ["--sign", "true", *option("--region", session.region)]
    _run(ctx, "replay", archive, arguments, since=None if as_is else span.first.date())


@with_options
def erase(
    ctx: typer.Context,
    place: ArchiveOptions,
    message: Annotated[list[str] | None, typer.Option("--message", help="Id of a message; may be repeated.")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only messages of this topic that have the property.")
    ] = None,
    property: Annotated[
        str | None, typer.Option("--property", metavar="NAME=VALUE", help="Only messages with this property.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DAY", help="Only messages accepted before this day.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Requester of the erasure; the audit shows it.")] = None,
    send: Annotated[bool, typer.Option("--send", help="Erase the contents; the default is a preview.")] = False,
    as_is: AsItIs = False,
) -> None:
    """Erase the contents of archived messages. Salted hashes remain, so old certificates still verify.

    You can erase a message five days after its expiry, so --before can be a day a week ago. Run the command once per
    topic. With the parameter MessagesPointInTimeRecovery, backups of the messages table keep the contents for 35 days.
    """
    by_property = (topic, property, before)
    if bool(message) == any(by_property) or (any(by_property) and None in by_property):
        raise typer.BadParameter("give --message, or all of --topic, --property and --before")
    if send and by is None:
        raise typer.BadParameter("--send requires --by, the name of the requester")
    archive = place.archive(ctx)
    arguments = option("--message", ",".join(message or ()) or None) + option("--topic", topic)
    arguments += option("--property", property) + option("--before", before) + option("--by", by)
    arguments += ["--preview", "false" if send else "true"]
    _run(ctx, "erase", archive, arguments, since=None if as_is else EVER, rewrites=True)


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
    archive = place.archive(ctx)
    arguments = ["--bodies-days", str(bodies_days), "--properties-days", str(properties_days)]
    arguments += ["--preview", "false" if send else "true"]
    _run(ctx, "retain", archive, arguments, since=None if as_is else EVER, rewrites=True)


def _owned(place: Archive) -> Archive:
    """Return *place* for a job outside the local stack, with its owner's credentials, which may rewrite raw files."""
    return replace(place, environment={**place.environment, **place.owner}, session=None)


def _is_given(ctx: Any, name: str) -> bool:
    """Return whether an option is given, on the command line or in the environment."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


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

    *rewrites*: the job rewrites raw files, so it runs as the archive's owner.
    """
    first = () if since is None else compacting(place, since)
    place = _owned(place) if rewrites else place
    result = run_job(job, place, arguments, console(to_errors=True), first=first)
    if session_of(ctx).as_json:
        typer.echo(json.dumps(result.summary))
    else:
        if result.code == NOTHING_JUDGED:
            console().print(Text("Nothing was proved: there were no deliveries to check.", style="bold yellow"))
        console().print(*_summary(result.summary), sep="\n")
        if rows := result.summary.get("rows"):
            console().print(rows_table([_period_row(row) for row in rows], *PERIOD_COLUMNS))
    _present(place, result, job, show=show and not session_of(ctx).as_json)
    if result.code:
        raise typer.Exit(result.code)


def _period_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    counts = (row["matched"], row["delivered"], row["discarded"] + row["expired"], row["pending"], row["retries"])
    p95_ms = row["end_to_end_ms_p95"]
    return (
        row["topic"],
        row["subscription"],
        rfc3339(row["begins_at"])[:16],
        *counts,
        None if p95_ms is None else round(p95_ms),
    )


def _summary(summary: Mapping[str, Any]) -> list[RenderableType]:
    """Return the summary of a job: simple values as fields, and a table for each nested value."""
    fields: dict[str, Any] = {}
    tables: list[RenderableType] = []
    for name, value in summary.items():
        match value:
            case _ if name in _HIDDEN:
                continue
            case [{}, *_]:
                tables.append(_table(value))
            case dict() if value and all(isinstance(each, dict) for each in value.values()):
                tables.append(_table([{name.removesuffix("s"): key, **inner} for key, inner in value.items()]))
            case dict():
                told = [f"{key.replace('_', ' ')} {inner}" for key, inner in value.items() if inner]
                fields[name] = ", ".join(told) or "none"
            case int() if name.endswith("_at"):
                fields[name] = rfc3339(value)
            case _:
                fields[name] = value
    return [fields_table(fields), *tables]


def _table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    headings = (name.replace("_", " ") for name in rows[0])
    return rows_table([[named_cell(*each) for each in row.items()] for row in rows], *headings)


def _present(place: Archive, result: Result, job: str, *, show: bool) -> None:
    uri = result.summary.get("html")
    if uri is None:
        return
    page = place.fetch(str(uri)).resolve()
    console(to_errors=True).print(Text(f"report  {page}"), soft_wrap=True)
    if job == "audit" and (certificate := result.summary.get("json")):
        file = place.fetch(str(certificate)).resolve()
        console(to_errors=True).print(Text(f"certificate  {file}"), soft_wrap=True)
    if show and sys.stdout.isatty():
        webbrowser.open(page.as_uri())
