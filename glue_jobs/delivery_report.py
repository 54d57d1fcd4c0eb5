"""Delivery report: accepted messages, the ends of deliveries, latencies and failures, by subscription and hour."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tagcast.instant import DAY_MS, rfc3339

from glue_jobs.auditing import audit_entries, history
from glue_jobs.auditing.audit_entries import HOUR_MS
from glue_jobs.auditing.history import LANE
from glue_jobs.io import arguments
from glue_jobs.io.materialised import materialise
from glue_jobs.io.session import open_session
from glue_jobs.io.storage import Archive, day_of, finish, print_progress
from glue_jobs.measuring import measures
from glue_jobs.measuring.measures import PAIR_HOUR
from glue_jobs.pages.delivery_page import delivery_page

COUNTS = ("matched", "delivered", "discarded", "expired", "cancelled", "filtered", "pending", "retries")
NUMBERS = (*COUNTS, "blocked_ms")
PERIODS = {"hour": HOUR_MS, "day": DAY_MS}
ROWS_MAX = 100
"""The summary has at most 100 rows by hour or day; the Parquet files have all."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a report.

    *hours* has a row for each subscription and hour, *subscriptions* one for each subscription. *accepted* has the
    numbers of messages by topic and hour, *failures* the most frequent outcomes of failed attempts, and *names* the
    name of each ordinal. *outcomes* is like *hours*, with all latencies instead of their quantiles.
    """

    hours: DataFrame
    subscriptions: DataFrame
    accepted: DataFrame
    failures: DataFrame
    outcomes: DataFrame
    names: DataFrame


def report(records: history.Records, as_of: int) -> Tables:
    """Return the tables of the report. If a lane still holds messages back, its closed time counts to *as_of* (ms)."""
    entries = audit_entries.entries(records.messages, records.deliveries)
    outcomes = materialise(measures.outcomes(entries))
    closed = history.closed_intervals(records.lanes, removal_ms=0)
    blocked = materialise(measures.blocked_ms(closed, records.window.first_at, min(records.window.end_at, as_of)))
    accepted = materialise(measures.count_accepted(records.messages))
    failed = materialise(measures.count_failures(records.deliveries))
    names = materialise(measures.subscription_names(records.subscriptions))
    hours = (
        measures.quantiles(outcomes).join(blocked, list(PAIR_HOUR), "full").join(accepted, ["topic", "hour"], "left")
    )
    hours = hours.join(measures.failures(failed, *PAIR_HOUR), list(PAIR_HOUR), "left")
    hours = hours.join(sql.broadcast(names), list(LANE), "left").fillna(0, [*NUMBERS, "accepted", "unmatched"])
    hours = materialise(hours)
    totals = outcomes.groupBy(*LANE).agg(*(sql.sum(name).alias(name) for name in COUNTS))
    waits = blocked.groupBy(*LANE).agg(sql.sum("blocked_ms").alias("blocked_ms"))
    whole = totals.join(waits, list(LANE), "full").join(measures.quantiles_by(outcomes, *LANE), list(LANE), "left")
    whole = whole.join(measures.failures(failed, *LANE), list(LANE), "left")
    whole = whole.join(sql.broadcast(names), list(LANE), "left").fillna(0, list(NUMBERS))
    return Tables(hours, whole, accepted, measures.failures(failed), outcomes, names)


def by_period(outcomes: DataFrame, names: DataFrame, period: str, subscription: str | None) -> DataFrame:
    """Return each subscription's counts of deliveries and exact quantiles of latencies (ms), by hour or day.

    *period* is a key of ``PERIODS``. With *subscription*, only subscriptions of this name are returned.
    """
    width = sql.lit(PERIODS[period])
    begun = outcomes.withColumn("begins_at", (sql.floor(sql.col("hour") / width) * width).cast("bigint"))
    if subscription is not None:
        wanted = names.where(sql.col("subscription") == sql.lit(subscription)).select(*LANE)
        begun = begun.join(sql.broadcast(wanted), list(LANE), "left_semi")
    keys = (*LANE, "begins_at")
    counts = begun.groupBy(*keys).agg(*(sql.sum(name).alias(name) for name in COUNTS))
    named = counts.join(measures.quantiles_by(begun, *keys), list(keys), "left")
    named = named.join(sql.broadcast(names), list(LANE), "left")
    latency = [measures.quantile_column(name, q) for name in measures.LATENCIES for q in measures.QUANTILES]
    return named.select("topic", "subscription", "ordinal", "begins_at", *COUNTS, *latency)


def summarise(tables: Tables, window: arguments.Window, as_of: int) -> dict[str, Any]:
    """Return the report as JSON values. Subscriptions with the most discarded or expired deliveries come first."""
    whole = [row.asDict(recursive=True) for row in tables.subscriptions.collect()]
    for row in whole:
        row["given_up"] = row["discarded"] + row["expired"]
    whole.sort(key=lambda row: (-row["given_up"], -row["blocked_ms"], -row["retries"], row["topic"], row["ordinal"]))
    by_hour = tables.hours.groupBy("hour").agg(*(sql.sum(name).alias(name) for name in NUMBERS)).orderBy("hour")
    sums = (sql.sum(name).alias(name) for name in ("accepted", "unmatched"))
    arrived = tables.accepted.groupBy("hour").agg(*sums).orderBy("hour").collect()
    speeds = measures.quantiles_by(tables.outcomes, "hour").orderBy("hour")
    overall = measures.quantiles_by(tables.outcomes.withColumn("all", sql.lit(1)), "all").collect()
    return {
        "window": window.label,
        "until": rfc3339(min(window.end_at, as_of)),
        "is_over": window.end_at <= as_of,
        "accepted": sum(row.accepted for row in arrived),
        "unmatched": sum(row.unmatched for row in arrived),
        **{name: sum(row[name] for row in whole) for name in NUMBERS},
        "latency": {} if not overall else {name: v for name, v in overall[0].asDict().items() if name != "all"},
        "subscriptions": whole,
        "failures": [row.asDict() for row in tables.failures.collect()],
        "hours": [row.asDict() for row in by_hour.collect()],
        "accepted_by_hour": [{"hour": row.hour, "accepted": row.accepted} for row in arrived],
        "latency_by_hour": [row.asDict() for row in speeds.collect()],
    }


def hour_rows(tables: Tables) -> DataFrame:
    """Return the rows of the table delivery_report_hours."""
    latency = [measures.quantile_column(name, q) for name in measures.LATENCIES for q in measures.QUANTILES]
    columns = ["topic", "ordinal", "subscription", "hour", "accepted", *COUNTS, *latency]
    return tables.hours.select(*columns, "blocked_ms", "top_failures", day_of("hour").alias("dt"))


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = arguments.parser("delivery_report", __doc__ or "", lookback_days=1)
    parser.add_argument("--topic", type=arguments.path_part, help="only this topic")
    parser.add_argument("--subscription", help="with --topic and --by: only this subscription")
    parser.add_argument(
        "--by", choices=PERIODS, help="list the figures of each subscription by hour or day of acceptance"
    )
    given = arguments.parse(parser, argv)
    given.window = arguments.window(parser, given)
    if given.subscription is not None and (given.topic is None or given.by is None):
        parser.error("--subscription needs --topic and --by")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report of a window. Return 0."""
    given = read_arguments(argv)
    window = given.window
    archive = Archive.at(open_session(given), given.archive)
    as_of = arguments.now_ms()
    tables = report(history.read(archive, window, given.topic), as_of)
    if given.topic is None:
        rows = hour_rows(tables)
        archive.write_days(rows.coalesce(1), "reports", "report", "hours")
        days = [row.dt for row in rows.select("dt").distinct().collect()]
        archive.keep_only(days, window.days(), "reports", "report", "hours")
    figures = summarise(tables, window, as_of)
    label = window.label if given.topic is None else f"{window.label}_{given.topic}"
    as_json = archive.write_text(
        json.dumps(figures, indent=1, ensure_ascii=False), "reports", "report", label, "report.json"
    )
    as_html = archive.write_text(delivery_page(figures, given.topic), "reports", "report", label, "index.html")
    print_progress(
        f"{figures['accepted']:,} messages, {figures['matched']:,} deliveries, {figures['delivered']:,} delivered"
    )
    numbers = {name: figures[name] for name in ("window", "until", "accepted", "unmatched", *NUMBERS)}
    listed: dict[str, object] = {}
    if given.by is not None:
        periods = materialise(by_period(tables.outcomes, tables.names, given.by, given.subscription))
        folder = ("reports", "report", label, f"by_{given.by}")
        periods.coalesce(1).write.mode("overwrite").option("compression", "zstd").parquet(archive.uri(*folder))
        first = periods.orderBy("topic", "ordinal", "begins_at").limit(ROWS_MAX).collect()
        listed = {"rows": [row.asDict() for row in first], "parquet": archive.uri(*folder)}
    finish({"job": "delivery_report", "ok": True, **numbers, **listed, "html": as_html, "json": as_json})
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
