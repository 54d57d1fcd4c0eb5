"""The delivery report in HTML for managers. The failures come first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tagcast import instant

from glue_jobs.pages import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDS = ("delivered", "filtered", "cancelled", "pending", "expired", "discarded")
TROUBLED_SHOWN, SUBSCRIPTIONS_SHOWN = 10, 200


def delivery_page(report: Mapping[str, Any], topic: str | None) -> str:
    """Return the delivery report in HTML. *topic* is None if the report covers all topics."""
    given_up = report["discarded"] + report["expired"]
    title, tone = _title(report, given_up)
    where = "all topics" if topic is None else f"topic {topic}"
    until = "" if report["is_over"] else f", until {page.instant(instant.parse(report['until']))} UTC"
    below = f"Deliveries of {report['window'].replace('_', ' to ')}{until}, {where}. Hours are hours of acceptance."
    latency = report["latency"]
    cards = [
        ("messages accepted", report["accepted"], ""),
        ("deliveries", report["matched"], ""),
        ("delivered", page.share(report["delivered"], report["matched"]), "good" if not given_up else ""),
        ("given up (discarded or expired)", given_up, "bad" if given_up else "good"),
        ("still pending", report["pending"], "warn" if report["pending"] else ""),
        ("retries", report["retries"], ""),
        ("p95 latency", page.duration(latency.get("end_to_end_ms_p95")), ""),
    ]
    return page.document(
        title,
        f"deliveries of {report['window'].replace('_', ' to ')}, {where}",
        page.headline(title, below, tone),
        page.cards(cards),
        page.section("Failures", _trouble(report)),
        _plots(report),
        page.section("Subscriptions", _subscriptions(report["subscriptions"], topic)),
        page.section("Words", *(page.paragraph(text) for text in _WORDS)),
    )


_WORDS = (
    "Given up: discarded (all retries failed) or expired (the message expired first). The audit proves that each was "
    "given up by the rules. Cancelled: a person skipped the delivery, or deleted its subscription. Filtered: a filter "
    "function, or the filter that replaced it, rejected the message. Still pending: in a backlog, or not yet in the "
    "archive.",
    "Attempt: from the start of the first round to the end of the attempt, for deliveries at the first attempt. End to "
    "end: from acceptance to the end of the successful attempt.",
    "Closed for: how long the lane was blocked, out of contact, paused or suspended within the window.",
)


def _title(report: Mapping[str, Any], given_up: int) -> tuple[str, str]:
    if not report["accepted"]:
        return "No message was accepted", ""
    if not report["matched"]:
        return "No message matched a subscription", "warn"
    share = page.share(report["delivered"], report["matched"])
    pending = report["pending"]
    if given_up:
        subscriptions = page.count_noun(sum(1 for row in report["subscriptions"] if row["given_up"]), "subscription")
        was = "was" if given_up == 1 else "were"
        what = page.count_noun(given_up, "delivery", "deliveries")
        return f"{what} of {subscriptions} {was} given up; {share} were delivered", "bad"
    if pending:
        are = "is" if pending == 1 else "are"
        what = page.count_noun(pending, "delivery", "deliveries")
        return f"{what} {are} still pending, {share} were delivered; none was given up", "warn"
    if report["delivered"] == report["matched"]:
        return "Every delivery was made", "good"
    return f"{share} of the deliveries were made; none was given up", ""


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['topic']} / {row['subscription'] or '#' + str(row['ordinal'])}"


def _first_failure(row: Mapping[str, Any]) -> str:
    found = row["top_failures"] or []
    return ", ".join(f"{each['outcome']} ({each['count']:,})" for each in found[:2]) or "—"


def _trouble(report: Mapping[str, Any]) -> str:
    if not report["matched"]:
        return page.paragraph("No message matched a subscription.")
    troubled = [row for row in report["subscriptions"] if row["given_up"] or row["blocked_ms"] or row["retries"]]
    if not troubled:
        return page.paragraph("Nothing: no delivery was retried or given up, and no lane was closed.", "good")
    rows = [
        (
            _name(row),
            row["given_up"],
            row["pending"],
            row["retries"],
            page.duration(row["blocked_ms"]) if row["blocked_ms"] else "—",
            _first_failure(row),
        )
        for row in troubled[:TROUBLED_SHOWN]
    ]
    made = page.table(
        ("Subscription", "Given up", "Still pending", "Retries", "Closed for", "Most frequent failures"), rows
    )
    rest = len(troubled) - len(rows)
    more = page.paragraph(
        f"{page.count_noun(rest, 'more subscription')} had retries or closed lanes; see the table below.", "soft"
    )
    return made + (more if rest else "") + _failures(report["failures"])


def _failures(failures: Sequence[Mapping[str, Any]]) -> str:
    if not failures:
        return ""
    rows = [(each["outcome"], each["count"]) for each in failures]
    return f"<h3>Failures of all subscriptions</h3>{page.table(('Outcome of an attempt', 'Times'), rows)}"


def _subscriptions(rows: Sequence[Mapping[str, Any]], topic: str | None) -> str:
    heads = (
        "Subscription", "Deliveries", "Delivered", "Share", "Discarded", "Expired", "Cancelled", "Filtered",
        "Still pending", "Retries", "Attempt p50", "End to end p50", "p95", "p99", "Closed for",
    )  # fmt: skip
    listed = sorted(rows, key=lambda row: (row["topic"], row["ordinal"]))[:SUBSCRIPTIONS_SHOWN]
    body = [
        (
            _name(row),
            row["matched"],
            row["delivered"],
            page.share(row["delivered"], row["matched"]),
            row["discarded"],
            row["expired"],
            row["cancelled"],
            row["filtered"],
            row["pending"],
            row["retries"],
            page.duration(row["attempt_ms_p50"]),
            *(page.duration(row[f"end_to_end_ms_p{each}"]) for each in (50, 95, 99)),
            page.duration(row["blocked_ms"]) if row["blocked_ms"] else "—",
        )
        for row in listed
    ]
    rest = len(rows) - len(listed)
    where = "in the table delivery_report_hours" if topic is None else "not listed"
    more = page.paragraph(f"{rest:,} more are {where}.", "soft") if rest else ""
    return page.table(heads, body) + more


def _when(hour: int) -> datetime:
    return datetime.fromtimestamp(hour / 1000, UTC).replace(tzinfo=None)


def _plots(report: Mapping[str, Any]) -> str:
    hours = report["hours"]
    if not hours or not report["matched"]:
        return ""
    parts = [page.figure("Deliveries by hour of acceptance and by end.", lambda axes: _bars(axes, hours))]
    if any(row["expired"] + row["discarded"] + row["pending"] for row in hours):
        parts.append(page.figure("Deliveries without success.", lambda axes: _bars(axes, hours, ENDS[3:])))
    if report["latency_by_hour"]:
        caption = "Latency from acceptance to delivery (logarithmic)."
        parts.append(page.figure(caption, lambda axes: _speeds(axes, report["latency_by_hour"])))
    if any(row["blocked_ms"] for row in hours):
        parts.append(
            page.figure("Hours in which lanes were closed, sum of all lanes.", lambda axes: _closed_hours(axes, hours))
        )
    return page.section("Hour by hour", *parts)


def _time_axis(axes: Axes, hours: Sequence[Mapping[str, Any]]) -> None:
    from datetime import timedelta

    from matplotlib import dates as untyped

    dates: Any = untyped

    locator = dates.AutoDateLocator(minticks=4, maxticks=12)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, show_offset=False))
    first: Any = _when(hours[0]["hour"])
    last: Any = _when(hours[-1]["hour"])
    axes.set_xlim(first - timedelta(minutes=10), last + timedelta(minutes=70))


def _whole_numbers(axes: Axes) -> None:
    from matplotlib import ticker

    axes.yaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=6, frameon=False, borderaxespad=0.2, handlelength=1)


def _bars(axes: Axes, hours: Sequence[Mapping[str, Any]], ends: Sequence[str] = ENDS) -> None:
    draw_stacked_bars(axes, hours, [(end, end.replace("pending", "still pending"), end) for end in ends])


def draw_stacked_bars(axes: Axes, hours: Sequence[Mapping[str, Any]], parts: Sequence[tuple[str, str, str]]) -> None:
    """Draw one stacked bar for each hour. *parts* are (column, label, colour); a part without values is left out."""
    at: Any = [_when(row["hour"]) for row in hours]
    below = [0] * len(hours)
    for column, label, colour in parts:
        heights = [row[column] for row in hours]
        if any(heights):
            axes.bar(at, heights, 0.036, bottom=below, color=page.COLOURS[colour], label=label, align="edge")
            below = [low + height for low, height in zip(below, heights, strict=True)]
    _time_axis(axes, hours)
    _whole_numbers(axes)
    if any(below):
        _legend(axes)


def _speeds(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    from matplotlib import ticker

    at: Any = [_when(row["hour"]) for row in rows]
    reached: list[float] = []
    for name, colour in (("p50", "line"), ("p95", "second"), ("p99", "third")):
        values = [max(1.0, row[f"end_to_end_ms_{name}"] or 1.0) for row in rows]
        axes.plot(at, values, color=page.COLOURS[colour], label=name, marker="o", markersize=4, linewidth=1.6)
        reached += values
    axes.set_yscale("log")
    # Whole decades: a shorter range might have no labelled line.
    axes.set_ylim(10 ** math.floor(math.log10(min(reached))), 10 ** math.ceil(math.log10(max(reached) * 1.01)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: page.duration(value)))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    _time_axis(axes, rows)
    _legend(axes)


def _closed_hours(axes: Axes, hours: Sequence[Mapping[str, Any]]) -> None:
    at: Any = [_when(row["hour"]) for row in hours]
    heights = [row["blocked_ms"] / 3_600_000 for row in hours]
    axes.bar(at, heights, 0.036, color=page.COLOURS["third"], align="edge")
    _time_axis(axes, hours)
