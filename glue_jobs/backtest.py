"""Backtest: evaluates a candidate filter on archived messages, by the service's own rules."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind
from tagcast.errors import FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.function_filter import is_function
from tagcast.filters.kinds import compile_filter

from glue_jobs.auditing.filter_set import FilterSet
from glue_jobs.io import arguments
from glue_jobs.io.materialised import materialise
from glue_jobs.io.messages_read import BODIES, Seen, batch_of, body_of, filter_keys, message_of
from glue_jobs.io.session import open_session
from glue_jobs.io.storage import Archive, finish, print_progress
from glue_jobs.measuring import filter_sets
from glue_jobs.measuring.filter_sets import READ, Filter, current_filter
from glue_jobs.measuring.measures import hour_of
from glue_jobs.pages.backtest_page import backtest_page

WAYS = ("newly_matched", "newly_unmatched")
COLUMNS = ("both", *WAYS, "neither", "failed", "unjudged")
COMPARED = "hour bigint, name string, number bigint"
DIFFERENCE = "way string, message_id string, accepted_at bigint"
LISTED_MAX = 1000


@dataclass(frozen=True, slots=True)
class BacktestComparison:
    """One candidate compared with the current filter: counts by hour, and messages with different verdicts."""

    hours: list[dict[str, int]]
    samples: list[dict[str, Any]]


def evaluate(filter: CompiledFilter, seen: Seen) -> bool | None:
    """Return whether *filter* matches the message *seen*; None if the evaluation fails, which counts as no match."""
    try:
        return filter.evaluate(seen) is True
    except FilterEvaluationError:
        return None


def compare_batches(batches: Iterator[pa.RecordBatch], both: FilterSet) -> Iterator[pa.RecordBatch]:
    """Evaluate *both* filters (first the candidate, second the current filter), and yield counts by hour.

    Each row of *batches* is a distinct combination of the fields that the filters read, with its number of messages.
    """
    candidate, current = both.filters
    for batch in batches:
        counts: Counter[tuple[int, str]] = Counter()
        columns = (batch.column(name).to_pylist() for name in ("hour", *READ, "number"))
        for hour, tags, key, texts, content, gone, number in zip(*columns, strict=True):
            if both.find_unjudged(content, gone):
                counts[hour, "unjudged"] += number
                continue
            seen = both.message_of(tags, key, texts, content)
            new, old = evaluate(candidate, seen), evaluate(current, seen)
            name = "both" if new and old else WAYS[0] if new else WAYS[1] if old else "neither"
            counts[hour, name] += number
            if new is None:
                counts[hour, "failed"] += number
        rows = [(hour, name, n) for (hour, name), n in counts.items()]
        yield batch_of(rows, hour="int64", name="string", number="int64")


def differences(batches: Iterator[pa.RecordBatch], both: FilterSet, most: int) -> Iterator[pa.RecordBatch]:
    """Yield messages on which the verdicts of *both* filters differ.

    Each batch yields at most *most* messages of each kind of difference (``WAYS``), the newest ones.
    """
    new, old = both.filters
    for batch in batches:
        found: dict[str, list[tuple[str, str, int]]] = {way: [] for way in WAYS}
        columns = (batch.column(name).to_pylist() for name in ("message_id", "accepted_at", "gone"))
        for known, message_id, at, gone in zip(filter_keys(batch), *columns, strict=True):
            seen = message_of(known)
            if both.find_unjudged(seen.body, gone or ()):
                continue
            by_new, by_old = evaluate(new, seen) is True, evaluate(old, seen) is True
            if by_new is not by_old:
                found[WAYS[by_old]].append((WAYS[by_old], message_id, at))
        rows = [row for way in WAYS for row in sorted(found[way], key=lambda row: (-row[2], row[1]))[:most]]
        yield batch_of(rows, way="string", message_id="string", accepted_at="int64")


def compare(messages: DataFrame, candidate: Filter, current: Filter, samples: int) -> BacktestComparison:
    """Compare a candidate with the current filter on *messages*, which need a column ``hour``.

    The result has at most *samples* messages for each kind of difference.
    """
    both = FilterSet.of([candidate, current])
    sets = filter_sets.distinct_sets(messages, both, "hour")
    counted = sets.mapInArrow(lambda batches: compare_batches(iter(batches), both), COMPARED)
    by_hour: dict[int, dict[str, int]] = {}
    for row in counted.groupBy("hour", "name").agg(sql.sum("number").alias("number")).collect():
        by_hour.setdefault(row.hour, {"hour": row.hour, **dict.fromkeys(COLUMNS, 0)})[row.name] = int(row.number)
    bodies = BODIES if both.reading_bodies else ()
    columns = ("message_id", "accepted_at", "tags", "routing_key", "properties", *bodies)
    read = messages.select(*columns, sql.map_keys("hashes").alias("gone"))
    differing = read.mapInArrow(lambda batches: differences(iter(batches), both, samples), DIFFERENCE)
    order = Window.partitionBy("way").orderBy(sql.desc("accepted_at"), "message_id")
    newest = differing.withColumn("rank", sql.row_number().over(order)).where(sql.col("rank") <= samples)
    found = read.join(sql.broadcast(newest.select("way", "message_id")), "message_id").collect() if samples else []
    found.sort(key=lambda row: (row.way, -row.accepted_at, row.message_id))
    return BacktestComparison(
        [by_hour[hour] for hour in sorted(by_hour)], [_sample(row, candidate, current) for row in found]
    )


def _sample(row: Any, candidate: Filter, current: Filter) -> dict[str, Any]:
    text, encoded = (getattr(row, name, None) for name in BODIES)
    seen = Seen(tuple(row.tags or ()), row.routing_key, row.properties or {}, body_of(text, encoded))
    return {
        "way": row.way,
        "message_id": row.message_id,
        "accepted_at": row.accepted_at,
        "tags": list(seen.tags),
        "routing_key": seen.routing_key,
        "properties": dict(seen.properties),
        "candidate": compile_filter(candidate).explain(seen).as_json(),
        "current": compile_filter(current).explain(seen).as_json(),
    }


def count_all(messages: DataFrame, candidates: Sequence[tuple[str, Filter]]) -> tuple[list[dict[str, Any]], DataFrame]:
    """Return the counts of each candidate, and a table of the counts by hour.

    ``matched``, ``failed`` and ``unjudged`` are numbers of messages: matched, with a failed evaluation, without a
    verdict.
    """
    filters = FilterSet.of([each for _, each in candidates])
    hours = materialise(filter_sets.matches(messages, filters))
    sums = ("matched", "failed", "unjudged")
    totals = hours.groupBy("candidate").agg(*(sql.sum(each).alias(each) for each in sums))
    by_number = {row.candidate: {each: int(row[each]) for each in sums} for row in totals.collect()}
    none = dict.fromkeys(sums, 0)
    counts = [
        {"name": name, "filter": each, **by_number.get(number, none)} for number, (name, each) in enumerate(candidates)
    ]
    return counts, hours


def _candidates(parser: argparse.ArgumentParser, given: argparse.Namespace) -> list[tuple[str, Filter]]:
    if (given.filter is None) == (given.filters is None):
        parser.error("give --filter or --filters")
    if given.filter is not None:
        return _read_or_exit(parser, "--filter", lambda: [("candidate", json.loads(given.filter))])
    if "://" in given.filters:
        return []
    return _read_or_exit(parser, "--filters", lambda: filter_sets.read_filters(Path(given.filters).read_text("utf-8")))


def _read_or_exit(
    parser: argparse.ArgumentParser, option: str, read: Callable[[], list[tuple[str, Filter]]]
) -> list[tuple[str, Filter]]:
    """Return the candidates that *read* returns, or exit with an error."""
    try:
        found = read()
        for name, each in found:
            if is_function(each):
                raise ValueError(f"{name}: a filter function cannot be a candidate, because its verdicts are unknown")
            compile_filter(each)
    except (OSError, ValueError, InvalidFilterError) as fault:
        parser.error(f"{option}: {fault}")
    return found


def _with_what_is_read(messages: DataFrame, candidates: Sequence[tuple[str, Filter]]) -> DataFrame:
    """Return *messages*, without their bodies if no candidate reads bodies. Otherwise print how many lack a body."""
    if not any(compile_filter(each).reads_body for _, each in candidates):
        return messages.drop(*BODIES)
    missing = messages.where(sql.coalesce(*BODIES).isNull()).count()
    print_progress(
        f"A candidate reads bodies: {missing:,} messages of this window have none in the archive and are not judged. "
        "The deployment's parameters ArchiveBodies and ArchiveBodiesDays say of which topics bodies are archived, and "
        "how long."
    )
    return messages


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("backtest", __doc__ or "", lookback_days=7)
    parser.add_argument("--topic", type=arguments.path_part, required=True)
    parser.add_argument("--filter", metavar="JSON", help="candidate filter as JSON; null matches everything")
    parser.add_argument(
        "--filters", metavar="FILE", help='file of candidates, with {"name": ..., "filter": ...} on each line'
    )
    parser.add_argument("--subscription", help="subscription to compare with: its filter at the end of the days")
    parser.add_argument(
        "--samples", type=int, default=20, help="sample messages for each kind of difference (default: %(default)s)"
    )
    return parser


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = _parser()
    given = arguments.parse(parser, argv)
    given.window = arguments.window(parser, given)
    if given.subscription is not None and given.filter is None:
        parser.error("--subscription compares one --filter")
    given.candidates = _candidates(parser, given)
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluate candidates on a window of a topic. Return 0, or 1 if the subscription has no filter to compare."""
    given = read_arguments(argv)
    window, candidates = given.window, given.candidates
    archive = Archive.at(open_session(given), given.archive)
    if not candidates:
        rows = archive.spark.read.text(given.filters).collect()
        text = "\n".join(row.value for row in rows)
        candidates = _read_or_exit(_parser(), "--filters", lambda: filter_sets.read_filters(text))
    archive.suit(window.days(), whole=(RecordKind.SUBSCRIPTIONS,))
    # A replay was for one subscription, and no other filter saw it.
    is_seen = (sql.col("topic") == given.topic) & sql.col("replay_of").isNull()
    messages = archive.records(RecordKind.MESSAGES, window.days()).where(is_seen)
    messages = _with_what_is_read(messages.withColumn("hour", hour_of("accepted_at")), candidates)
    counts, hours = count_all(messages, candidates)
    result: dict[str, Any] = {
        "topic": given.topic,
        "window": window.label,
        "messages": messages.count(),
        "candidates": counts,
        "hours": [row.asDict() for row in hours.where("candidate = 0").orderBy("hour").collect()],
    }
    if given.subscription is not None:
        try:
            current = current_filter(archive, given.topic, given.subscription, window.end_at)
            if is_function(current):
                raise LookupError(f"{given.topic}/{given.subscription} has a filter function: its verdicts are unknown")
        except LookupError as fault:
            finish({"job": "backtest", "ok": False, "detail": str(fault.args[0]), "html": None, "json": None})
            return 1
        made = compare(messages, candidates[0][1], current, given.samples)
        result |= {"subscription": given.subscription, "current": current, "comparison": made.hours}
        result["samples"] = made.samples
    return _write(archive, given.topic, window.label, result, hours)


def _write(archive: Archive, topic: str, label: str, result: dict[str, Any], hours: DataFrame) -> int:
    identity = json.dumps([topic, label, result["candidates"], result.get("subscription")], sort_keys=True)
    folder = ("reports", "backtest", f"{topic}_{label}_{sha256(identity.encode()).hexdigest()[:8]}")
    hours.coalesce(1).write.mode("overwrite").parquet(archive.uri(*folder, "hours"))
    shown = {**result, "candidates": result["candidates"][:LISTED_MAX]}
    as_json = archive.write_text(json.dumps(shown, indent=1, ensure_ascii=False), *folder, "backtest.json")
    as_html = archive.write_text(backtest_page(result), *folder, "index.html")
    sums = {way: sum(hour[way] for hour in result["comparison"]) for way in WAYS} if "comparison" in result else {}
    matched = sum(each["matched"] for each in result["candidates"])
    print_progress(f"{len(result['candidates'])} candidates, {result['messages']:,} messages, {matched:,} matches")
    unjudged = sum(each["unjudged"] for each in result["candidates"])
    figures = {"messages": result["messages"], "candidates": len(result["candidates"]), "matched": matched}
    figures |= {"unjudged": unjudged, **sums}
    finish({"job": "backtest", "ok": True, "window": label, **figures, "html": as_html, "json": as_json})
    return 0


if __name__ == "__main__" and (code := main()):
    sys.exit(code)
