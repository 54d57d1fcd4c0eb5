"""Retain: erases bodies and properties earlier than their records; their hashes remain.

A part of a message is *due* when its whole day of acceptance is old enough. The job erases due parts everywhere in the
archive, and rewrites files like the job ``erase``. It stores its progress by file and by day, so a run does only the
remaining work, including late records. A killed, repeated or concurrent run has the same result.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tagcast.archive.record import RecordKind
from tagcast.instant import rfc3339

from glue_jobs.auditing import history
from glue_jobs.compact import KEPT_MS, ledger_key
from glue_jobs.erase import erase_rows, rewrite_days, rewrite_files
from glue_jobs.erasing import contents
from glue_jobs.erasing.contents import Part, compile_archived, parts_read
from glue_jobs.erasing.places import FAILED, QUARANTINE, RAW, arrival_day, certificates_of_one
from glue_jobs.io import arguments, manifests
from glue_jobs.io.manifests import AT_ONCE, Manifest
from glue_jobs.io.objects import Objects, json_of, naming
from glue_jobs.io.session import open_session
from glue_jobs.io.storage import Archive, finish, print_progress
from glue_jobs.retaining.aged import AgedErasure, Until, due

MESSAGES = RecordKind.MESSAGES
DAYS_MIN = 7
"""The minimum number of days. A message lives a day at most, and cannot be erased within five days of its expiry."""


def until_of(days: Mapping[Part, int], now: int) -> dict[Part, str]:
    """Return, for each part, the newest day whose messages lose the part. *days* are the whole days that a part stays.

    A part with 0 days is left out; it stays as long as its record.

    >>> until_of({Part.BODY: 7, Part.PROPERTIES: 0}, arguments.moment("2026-11-20T03:10:00Z"))
    {<Part.BODY: 'body'>: '2026-11-12'}
    """
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    return {part: (today - timedelta(number + 1)).isoformat() for part, number in days.items() if number}


def done_key(day: str) -> str:
    """Return the key of the object that stores the job's progress for the files that arrived on *day*.

    The object names the finished files. For each part, the object has the newest day of acceptance whose messages lost
    this part.
    """
    return f"curated/{MESSAGES}/forgotten/dt={day}.json"


@dataclass(frozen=True, slots=True)
class PendingFiles:
    """The files that arrived on *day*. The *pending* ones among them may have due parts."""

    day: str
    files: tuple[str, ...]
    pending: tuple[str, ...]


def list_pending_files(objects: Objects, day: str, aside: Collection[str], until: Until) -> PendingFiles:
    """Return the files that arrived on *day*, with those in *aside*, and name the pending ones.

    A file is pending if messages of one of its days have a part that is due and not erased yet. The days of a file are
    *day* and the days that compaction recorded for it, or *day* and the next day if compaction recorded none. *aside*
    has the quarantined files of *day*, and the files that Firehose could not convert.
    """
    days = json_of(objects.read(ledger_key(MESSAGES, day)))
    done = json_of(objects.read(done_key(day)))
    before, seen = done.get("until", {}), frozenset(done.get("files", ()))
    following = [arguments.day_beside(day, 1)]

    def is_pending(key: str) -> bool:
        last = before if key in seen else {}
        return any(last.get(part, "") < of for of in (day, *days.get(key, following)) for part in due(until, of))

    files = {*aside, *days, *seen}
    if due(until, day) and (any(map(is_pending, files)) or not seen):
        files |= {*objects.sizes(f"{RAW}dt={day}/")}
    return PendingFiles(day, tuple(sorted(files)), tuple(sorted(filter(is_pending, files))))


def to_do(archive: Archive, until: Until) -> list[PendingFiles]:
    """Return the days of arrival with files to rewrite."""
    objects = archive.objects
    aside: dict[str, list[str]] = {}
    for key in (*objects.sizes(QUARANTINE), *objects.sizes(FAILED)):
        aside.setdefault(arrival_day(key), []).append(key)
    days = sorted(filter(None, {*archive.days("raw", MESSAGES.value), *aside}))  # Spark's _SUCCESS has no day.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda day: list_pending_files(objects, day, aside.get(day, ()), until), days)
        return [each for each in found if each.pending]


def due_days(archive: Archive, until: Until) -> list[Manifest]:
    """Return the manifests of the days with due parts. Days whose parts are erased already are included."""
    days = [day for day in archive.curated_days(MESSAGES) if due(until, day)]
    return [each for each in manifests.read(archive.objects, MESSAGES, days) if each.files]


def curated_to_do(objects: Objects, days: Sequence[Manifest], until: Until) -> dict[str, list[Part]]:
    """Return the due parts of each day, without the days whose summary says that all due parts are erased.

    The summary of a newly compacted day names no erased parts, because the day's files may have every part again.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(lambda each: manifests.read_summary(objects, each), days))
    lacks = {each.day: frozenset(() if held is None else held.without) for each, held in zip(days, made, strict=True)}
    return {day: due(until, day) for day in lacks if not lacks[day].issuperset(due(until, day))}


def quoting(objects: Objects, until: Until) -> list[str]:
    """Return the keys of the reports to delete, because they quote due parts.

    Only backtests and certificates about one customer quote parts of messages. Raises DamagedObjectError.
    """
    keys = objects.sizes("reports/backtest/")
    folders = set()
    for key in keys:
        if key.endswith("/backtest.json"):
            report = json_of(objects.read(key))
            with naming(key):
                filters = [*(each["filter"] for each in report.get("candidates", ())[:1]), report.get("current")]
                days = {rfc3339(each["accepted_at"])[:10] for each in report.get("samples", ())}
            shown = {Part.PROPERTIES}.union(*(parts_read(compile_archived(each)) for each in filters))
            if any(not shown.isdisjoint(due(until, day)) for day in days):
                folders.add(key.rpartition("/")[0] + "/")
    certificates = certificates_of_one(objects)
    for key in certificates:
        if key.endswith("/certificate.json"):
            report = json_of(objects.read(key))
            with naming(key):
                listed = report.get("subject", {}).get("listed", ())
                days = {report["window"][:10], *(rfc3339(each["accepted_at"])[:10] for each in listed)}
            if any(Part.PROPERTIES in due(until, day) for day in days):
                folders.add(key.rpartition("/")[0] + "/")
    return [key for key in (*keys, *certificates) if key.startswith(tuple(folders))]


def retain(archive: Archive, eraser: AgedErasure) -> dict[str, Any]:
    """Erase due parts everywhere in the archive. Return the numbers of changed objects. A repeated call continues."""
    objects, until = archive.objects, eraser.until
    lines = 0
    for each in to_do(archive, until):
        lines += rewrite_files(archive, each.pending, eraser).total()
        done = {"until": until, "files": each.files}
        objects.replace(done_key(each.day), json.dumps(done).encode())
        print_progress(f"{len(each.pending)} files that arrived on {each.day} are done")
    found = due_days(archive, until)
    # A killed run left the files that it replaced; those of the last 20 hours may still be in use.
    objects.remove(manifests.former(objects, MESSAGES, [each.day for each in found], arguments.now_ms() - KEPT_MS))
    days, files = curated_to_do(objects, found, until), 0
    for day, parts in days.items():
        files += rewrite_days(archive, [day], lambda rows: erase_rows(rows, eraser), parts)
        print_progress(f"{day} is without {' and '.join(parts)}")
    reports = quoting(objects, until)
    objects.remove(reports)
    # Spark writes its files elsewhere and moves them, so everything below these prefixes is purged.
    for prefix in (QUARANTINE, manifests.data_prefix(MESSAGES), "reports/"):
        objects.purge(prefix)
    return {"files_of_lines": lines, "days": sorted(days), "curated_files": files, "reports": len(reports)}


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = arguments.parser("retain", (__doc__ or "").partition("\n\n")[0], lookback_days=1)
    for name, part in {"--bodies-days": Part.BODY, "--properties-days": Part.PROPERTIES}.items():
        text = f"delete them after N days, at least {DAYS_MIN}; 0 (default) keeps them as long as their records"
        parser.add_argument(name, type=arguments.whole_days, default=0, dest=part.value, metavar="N", help=text)
    parser.add_argument(
        "--kept-days",
        type=arguments.whole_days,
        metavar="N",
        help="days for which the archive keeps records; N cannot be longer",
    )
    parser.add_argument(
        "--preview", type=arguments.truth, default=True, help="true (default): show a preview and change nothing"
    )
    given = arguments.parse(parser, argv)
    given.days = days = {Part.BODY: given.body, Part.PROPERTIES: given.properties}
    if any(number and number < DAYS_MIN for number in days.values()):
        parser.error(
            f"bodies and properties are kept for at least {DAYS_MIN} days, because earlier erasures are refused"
        )
    if given.kept_days is not None and max(days.values()) > given.kept_days:
        parser.error(f"the archive deletes whole records after {given.kept_days} days: give at most this number")
    if not any(days.values()):
        parser.error("give --bodies-days or --properties-days")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Report the due parts, or erase them. Return 0."""
    given = read_arguments(argv)
    archive = Archive.at(open_session(given), given.archive)
    until = until_of(given.days, arguments.now_ms())
    summary: dict[str, Any] = {"job": "retain", "ok": True, "preview": given.preview, "until": until}
    if given.preview:
        pending = sum(len(each.pending) for each in to_do(archive, until))
        late = sorted(curated_to_do(archive.objects, due_days(archive, until), until))
        print_progress(f"{pending} files and {len(late)} days are due; nothing is changed")
        counts = {"files_of_lines": pending, "days": late, "reports": len(quoting(archive.objects, until))}
        finish({**summary, **counts, "html": None})
        return 0
    filters = history.filters_in_force(archive.records(RecordKind.SUBSCRIPTIONS))
    counts = retain(archive, AgedErasure(contents.key_of(archive.objects), until, filters))
    finish({**summary, **counts, "html": None})
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
