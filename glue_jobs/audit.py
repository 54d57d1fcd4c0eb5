"""Audit: prove from the archive that no delivery was lost, early, late, repeated too often, or to a wrong subscription.

The audit checks the messages that were accepted in the window, which is whole days (UTC). Deliveries without an end are
counted, and checked only if the end is overdue. The result, the *certificate*, has violations, counts and Merkle roots.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind
from tagcast.ids import ID_SEQUENCE_BITS
from tagcast.instant import rfc3339

from glue_jobs.auditing import audit_attempts, audit_entries, audit_late, audit_matching, audit_order, history, merkle
from glue_jobs.auditing.audit_entries import HOUR_MS, Terms
from glue_jobs.auditing.subject import Subject
from glue_jobs.erasing.contents import key_of
from glue_jobs.erasing.places import arrival_day, name_of_subject
from glue_jobs.io import arguments, manifests
from glue_jobs.io.materialised import materialise
from glue_jobs.io.objects import Objects, json_of
from glue_jobs.io.session import open_session
from glue_jobs.io.storage import Archive, day_of, finish, print_progress
from glue_jobs.pages.certificate import certificate_page, find_gaps

LISTED_MAX = 100
NOTHING_JUDGED = 3
"""The exit code of an audit that found nothing to check in its window, and therefore proved nothing."""
LAG_MS = 3_600_000
"""The maximum time from a change until its record is in the archive: stream, retries and Firehose's buffer included."""
KINDS = {
    "never_ended": "every delivery ends within 8 hours after its message expired",
    "ended_twice": "no delivery ends twice",
    "removed_pending": "the row of a pending delivery is never removed",
    "unmatched": "only matching subscriptions get deliveries",
    "orphan": "every delivery belongs to a message in the archive",
    "unattempted": "no delivery is delivered without an attempt",
    "before_acceptance": "no attempt ends before its message is accepted",
    "after_expiry": "no push ends later than its timeout after the expiry",
    "expired_early": "no delivery without attempts expires before its time",
    "too_many_attempts": "no delivery is attempted more often than settings and suspensions allow",
    "discarded_early": "no delivery is discarded before its last retry",
    "too_soon": "no head is attempted before its shortest delay has passed, unless a command changed its lane",
    "attempt_unrecorded": "every failed attempt is recorded",
    "cancelled_unasked": "every cancelled delivery was skipped, or its subscription was deleted",
    "filtered_unasked": "only subscriptions that had a filter function have filtered deliveries",
    "not_in_filter": "every message with a delivery matches the filter at its acceptance",
    "missed": "every message that matches the filter at its acceptance has a delivery",
    "no_filter": "every matched subscription has its filter in the archive, and was not deleted an hour before",
    "outdated": "every message is matched with the filters that have been in force for an hour",
    "late_not_in_filter": "every late entry matches the filter version that it names",
    "late_unasked": "every late entry was requested by its group, and not decided by a publish or a replay",
    "out_of_order": "under BACKOFF_RETRY no message is attempted while an earlier message of its backlog is pending",
    "overtaken": "no new message is pushed directly while its lane is closed",
}
"""Every kind of violation, with the promise that it breaks."""


def violations(records: history.Records, terms: Terms) -> tuple[DataFrame, dict[str, int]]:
    """Check *records* under the *terms* of the audit. Return the violations, and the certificate's counts by name."""
    policies = materialise(history.policies(records.subscriptions))
    delays = history.least_delays(policies, terms.time_scale)
    moved = materialise(history.interventions(records.lanes))
    closed = materialise(history.closed_intervals(records.lanes))
    hours = materialise(audit_order.closed_hours(closed, records.window))
    whole = audit_entries.entries(records.messages, records.deliveries)
    classified = materialise(audit_entries.find_unusual(whole, hours, terms))
    entries = classified.where("usual = 0")
    ordered = materialise(audit_order.ordered_lanes(policies))
    attempts = materialise(audit_attempts.attempts(records.deliveries, entries))
    gaps = materialise(audit_attempts.gaps(attempts, terms))
    soon, judged_gaps = audit_attempts.find_early(gaps, policies, delays, moved, terms)
    filters = history.filters_in_force(records.subscriptions, records.window.first_at - HOUR_MS)
    verdicts = materialise(audit_matching.judge_messages(records.messages, filters, terms))
    reasons = sql.create_map(*(sql.lit(part) for pair in audit_matching.VIOLATIONS.items() for part in pair))
    wrong = verdicts.where(sql.col("kind").isin(*audit_matching.VIOLATIONS))
    late = audit_late.late_entries(records.messages, records.deliveries)
    late = audit_late.judge_late_entries(late, records.subscriptions)
    backlog = materialise(audit_order.backlog(entries, records.deliveries, ordered, terms))
    parts = [
        audit_entries.conservation(entries, terms),
        audit_entries.find_unexpected(entries, records.messages, records.deliveries),
        audit_attempts.limits(entries, policies, moved, terms),
        audit_attempts.find_unrecorded(attempts, entries, policies),
        soon,
        audit_attempts.find_unrequested(entries, records.subscriptions, records.lanes, moved, terms),
        wrong.select("kind", "topic", "message_id", "ordinal", "at", reasons[sql.col("kind")].alias("detail")),
        audit_late.find_wrong(late, records.subscriptions),
        audit_order.find_out_of_order(backlog, closed, terms),
        audit_order.find_overtaken(entries, hours, policies, terms),
    ]
    # Each row of `late` is one late entry, with its message.
    counted = {"late_entries": late, "late_unjudged": late.where("verdict is null"), "failed_attempts": attempts}
    counted |= {"gaps": gaps, "gaps_judged": judged_gaps, "backlog_of_ordered_lanes": backlog}
    numbers = verdicts.where(sql.col("kind").isin(*audit_matching.COUNTED)).select("kind", "number")
    numbers = numbers.union(classified.select(sql.lit("usual"), "usual"))
    for name, table in counted.items():
        numbers = numbers.union(table.select(sql.lit(name), sql.lit(1)))
    sums = {row.kind: int(row.n or 0) for row in numbers.groupBy("kind").agg(sql.sum("number").alias("n")).collect()}
    counts = audit_entries.counts(entries, sums.get("usual", 0), terms)
    counts |= {name: sums.get(name, 0) for name in (*audit_matching.COUNTED, *counted)}
    counts |= audit_order.disorder(records.deliveries, ordered)
    return reduce(lambda one, other: one.unionByName(other), parts), counts


def roots(archive: Archive, window: arguments.Window) -> list[tuple[str, str, int, str]]:
    """Return kind, day, number of records and Merkle root for each kind of record and each day of the window."""
    leaves = (merkle.leaves_of(archive.records(kind, window.days()), kind) for kind in RecordKind)
    return merkle.day_roots(reduce(lambda one, other: one.union(other), leaves))


def erasures(archive: Archive, messages: DataFrame) -> tuple[int, list[dict[str, object]]]:
    """Return the number of *messages*, and the erasures that erased contents of some of them.

    Each erasure has its name, the number of its messages, its requester, and the times of its request and of its end.
    The time of the end is None if the erasure did not end.
    """
    numbers = {row.erasure: row["count"] for row in messages.groupBy("erasure").count().collect()}
    found = []
    for erasure in sorted(filter(None, numbers)):
        record = json_of(archive.objects.read(f"erasures/{erasure}/record.json"))
        about = {name: record.get(name) for name in ("asked_by", "asked_at", "done_at")}
        found.append({"erasure": erasure, "messages": numbers[erasure], **about})
    return sum(numbers.values()), found


def find_set_aside(objects: Objects, days: Collection[str]) -> list[str]:
    """Return the folders of records that arrived on *days*, but cannot be audited.

    These are damaged lines, and records that Firehose could not deliver. The audit does not read them. So it may miss
    violations, or report some that did not happen.
    """
    keys = (key for prefix in ("quarantine/", "failed/") for key in objects.sizes(prefix))
    return sorted({key.rpartition("/")[0] for key in keys if arrival_day(key) in days})


def find_conflicts(objects: Objects, days: Collection[str]) -> list[str]:
    """Return a text for each kind and day of records with conflicts: the kind, the day, and the number of conflicts.

    Records of one id conflict if they differ. Compaction kept only one of them.
    """
    read = (each for kind in RecordKind for each in manifests.read(objects, kind, sorted(days)))
    held = ((each, manifests.read_summary(objects, each)) for each in read)
    return [f"{each.kind} {each.day} ({made.conflicts:,})" for each, made in held if made and made.conflicts]


def certify(
    archive: Archive, window: arguments.Window, terms: Terms, topic: str | None, subject: Subject | None = None
) -> dict[str, object]:
    """Audit the window, and return the certificate. Without *topic* and *subject*, write the table of violations.

    With a *topic*, only the topic's records are audited. With a *subject*, the certificate has only violations that
    concern the subject's messages. All messages are still checked, because a violation of order may involve others.
    """
    records = history.read(archive, window, topic)
    found, counts = violations(records, terms)
    number, erased = erasures(archive, records.messages)
    counts = {"messages": number, **counts}
    found = materialise(found if subject is None else subject.only(found, records.messages))
    counted = _with_days(found, window).groupBy("kind", "dt").count().collect()
    by_kind: Counter[str] = Counter()
    for row in counted:
        by_kind[row.kind] += row["count"]
    order = ("kind", "topic", "message_id", "ordinal")
    listed = [row.asDict() for row in found.orderBy(*order).limit(LISTED_MAX).collect()] if counted else []
    if subject is None and topic is None:
        place = ("reports", "audit", "violations")
        if counted:
            archive.write_days(_with_days(found, window).coalesce(1), *place)
        archive.keep_only({row.dt for row in counted}, window.days(), *place)
    partitions = roots(archive, window)
    seen = {day for kind, day, *_ in partitions if kind == RecordKind.MESSAGES}
    certificate: dict[str, object] = {
        "window": window.label,
        "days_without_messages": [day for day in window.days() if day not in seen],
        "set_aside": find_set_aside(archive.objects, window.days()),
        "conflicts": find_conflicts(archive.objects, window.days()),
        "topic": topic,
        "as_of": rfc3339(terms.as_of),
        "skew_ms": terms.skew_ms,
        "time_scale": terms.time_scale,
        "judged": counts["entries"] - counts["within_life"] + counts["evaluated"],
        "violations": sum(by_kind.values()),
        "by_kind": {kind: by_kind.get(kind, 0) for kind in KINDS},
        "counts": counts,
        "listed": listed,
        "erasures": erased,
        "merkle_root": merkle.root_of([root for _, _, _, root in partitions]),
        "partitions": [dict(zip(("kind", "dt", "records", "root"), each, strict=True)) for each in partitions],
    }
    if subject is not None:
        summary = subject.summarise(records.messages, records.deliveries, records.subscriptions, terms)
        certificate |= {"subject": summary, "judged": summary["judged"]}
    return certificate


def _with_days(found: DataFrame, window: arguments.Window) -> DataFrame:
    """Return violations with a column ``dt``: the day on which their message was accepted, which names their folder.

    The day of the violation itself would be wrong: an audit of that day checks other messages, and replaces the folder.
    """
    first, last = sql.lit(window.days()[0]), sql.lit(window.days()[-1])
    accepted_at = sql.shiftright(sql.expr("try_cast(message_id AS bigint)"), ID_SEQUENCE_BITS)
    accepted = found.withColumn("accepted_at", accepted_at)
    days = sql.coalesce(day_of("accepted_at"), first)
    return accepted.withColumn("dt", sql.greatest(sql.least(days, last), first)).drop("accepted_at")


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = arguments.parser("audit", (__doc__ or "").partition("\n\n")[0], lookback_days=3)
    parser.add_argument("--topic", type=arguments.path_part, help="only this topic")
    parser.add_argument(
        "--property", metavar="NAME=VALUE", help="certify only messages with this property, and list each"
    )
    text = "instant up to which the archive is complete (RFC 3339; default: an hour ago)"
    parser.add_argument("--as-of", type=arguments.moment, metavar="INSTANT", help=text)
    parser.add_argument(
        "--skew-ms",
        type=arguments.milliseconds,
        default=1000,
        help="maximum difference between clocks in ms (default: %(default)s)",
    )
    parser.add_argument(
        "--time-scale",
        type=arguments.positive,
        default=1.0,
        help="time scale of the audited deployment (default: %(default)s)",
    )
    text = "exit code of an audit without deliveries to check: 3 (fail), or 0 (pass) (default: %(default)s)"
    parser.add_argument("--nothing-judged", choices=("fail", "pass"), default="fail", help=text)
    given = arguments.parse(parser, argv)
    given.window = arguments.window(parser, given)
    given.subject = None if given.property is None else Subject(*arguments.property_of(parser, given.property))
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Audit a window. Return 1 if a promise was broken, 3 if nothing was checked, else 0.

    With ``--nothing-judged pass``, return 0 instead of 3.
    """
    given = read_arguments(argv)
    window, subject = given.window, given.subject
    now = arguments.now_ms()
    as_of = now - LAG_MS if given.as_of is None else min(given.as_of, now)  # No archive is complete for the future.
    terms = Terms(as_of, given.skew_ms, given.time_scale)
    archive = Archive.at(open_session(given), given.archive)
    certificate = certify(archive, window, terms, given.topic, subject)
    label = window.label if given.topic is None else f"{window.label}_{given.topic}"
    label += "" if subject is None else name_of_subject(key_of(archive.objects), given.property)
    content = json.dumps(certificate, indent=1, ensure_ascii=False)
    as_json = archive.write_text(content, "reports", "audit", label, "certificate.json")
    as_html = archive.write_text(certificate_page(certificate, KINDS), "reports", "audit", label, "index.html")
    count, judged = certificate["violations"], certificate["judged"]
    result = f"{count} violations" if count else "no violation"
    print_progress(result if count or judged else "nothing was proved: there was nothing to judge")
    for sentence in find_gaps(certificate):
        print_progress(sentence)
    names = ("window", "as_of", "judged", "violations", "by_kind", "erasures", "merkle_root")
    summary = {name: certificate[name] for name in names}
    finish({"job": "audit", "ok": not count and bool(judged), **summary, "html": as_html, "json": as_json})
    if count:
        return 1
    return 0 if judged or given.nothing_judged == "pass" else NOTHING_JUDGED


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
