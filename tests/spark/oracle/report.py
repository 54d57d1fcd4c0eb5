"""The delivery report, counted one entry after the other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from tests.spark.oracle.facts import ENDS, Entry, Lane, closed_times, entries_of, named
from tests.spark.oracle.records import Archive, Fields

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
FAILURES_KEPT = 5
Row = dict[str, Any]


@dataclass(frozen=True)
class Window:
    """The instants that a job looks at: *first_at* is in it, *end_at* is not."""

    first_at: int
    end_at: int

    def holds(self, at: int) -> bool:
        return self.first_at <= at < self.end_at


def quantile(ordered: Sequence[int], q: float) -> float | None:
    """Return a quantile, between the two nearest values."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * q
    below, above = ordered[floor(place)], ordered[ceil(place)]
    return below + (above - below) * (place - floor(place))


def counted(entries: Iterable[Entry]) -> Row:
    """Return the columns that come of entries."""
    several = list(entries)
    row: Row = {state: sum(each.end == state for each in several) for state in ENDS}
    row["matched"] = len(several)
    row["pending"] = sum(not each.ends for each in several)
    row["retries"] = sum(max(each.made - 1, 0) for each in several)
    done = [each for each in several if each.end == "delivered" and each.last_attempt_at is not None]
    first = sorted(max(0, e.last_attempt_at - e.round_at) for e in done if e.last_attempt_at and e.round_at is not None)
    whole = sorted(max(0, each.last_attempt_at - each.accepted_at) for each in done if each.last_attempt_at)
    for name, q in QUANTILES.items():
        row[f"attempt_ms_{name}"] = quantile(first, q)
        row[f"end_to_end_ms_{name}"] = quantile(whole, q)
    return row


def failures(deliveries: Iterable[Fields]) -> list[Row]:
    """Return the most frequent outcomes of attempts that failed and of deliveries that were discarded."""
    attempts = {
        tuple(each[name] for name in ("topic", "message_id", "ordinal", "state", "attempts", "outcome"))
        for each in deliveries
        if "outcome" in each and "removed_by" not in each
        if each["state"] == "discarded" or (each["state"] == "blocked" and each["attempts"] > 0)
    }
    told = Counter(attempt[-1] for attempt in attempts)
    ranked = sorted(told.items(), key=lambda each: (-each[1], each[0]))[:FAILURES_KEPT]
    return [{"outcome": outcome, "count": count} for outcome, count in ranked]


def blocked_ms(lanes: Sequence[Fields], begin: int, end: int) -> dict[tuple[Lane, int], int]:
    """Return how long each lane was closed in each hour between two instants; a removed one is closed to nobody."""
    found: dict[tuple[Lane, int], int] = defaultdict(int)
    for lane, pieces in closed_times(lanes, ("active", "removed", "retrying")).items():
        for begins, ends in pieces:
            at, until = max(begins, begin), min(ends, end)
            while at < until:
                hour = at // HOUR_MS * HOUR_MS
                found[lane, hour] += min(until, hour + HOUR_MS) - at
                at = hour + HOUR_MS
    return found


def hours(archive: Archive, window: Window, as_of: int) -> dict[tuple[Lane, int], Row]:
    """Return the rows of delivery_report_hours, by lane and hour."""
    messages = [each for each in archive.messages if window.holds(each["accepted_at"])]
    deliveries = [each for each in named(archive) if window.holds(each["accepted_at"])]
    names = {
        (each["topic"], each["ordinal"]): each["subscription"] for each in archive.subscriptions if "ordinal" in each
    }
    accepted = Counter((each["topic"], each["accepted_at"] // HOUR_MS * HOUR_MS) for each in messages)
    of_hour = by_time(entries_of(messages, deliveries).values(), HOUR_MS)
    closed = blocked_ms(archive.lanes, window.first_at, min(window.end_at, as_of))
    told = defaultdict(list)
    for each in deliveries:
        told[(each["topic"], each["ordinal"]), each["accepted_at"] // HOUR_MS * HOUR_MS].append(each)
    rows = {}
    for lane, hour in of_hour.keys() | closed.keys():
        rows[lane, hour] = {
            **{"topic": lane[0], "ordinal": lane[1], "subscription": names.get(lane), "hour": hour},
            "accepted": accepted[lane[0], hour],
            **counted(of_hour.get((lane, hour), ())),
            "blocked_ms": closed.get((lane, hour), 0),
            "top_failures": failures(told[lane, hour]) or None,
        }
    return rows


def days(archive: Archive, window: Window) -> dict[tuple[Lane, int], Row]:
    """Return the figures by day, which ``--by day`` tells of."""
    messages = [each for each in archive.messages if window.holds(each["accepted_at"])]
    deliveries = [each for each in named(archive) if window.holds(each["accepted_at"])]
    of_day = by_time(entries_of(messages, deliveries).values(), DAY_MS)
    return {key: counted(entries) for key, entries in of_day.items()}


def by_time(entries: Iterable[Entry], width: int) -> dict[tuple[Lane, int], list[Entry]]:
    """Return what is pending, by lane and the time of acceptance."""
    found = defaultdict(list)
    for each in entries:
        if each.is_pending:
            found[each.lane, each.accepted_at // width * width].append(each)
    return found
