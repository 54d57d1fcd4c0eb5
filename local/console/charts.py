"""Charts of a topic or a subscription over the last hour or day, rendered by the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aiohttp import web
from tagcast_client.operation import path_of

from local.console.desk import desk_of
from local.console.minutes import ChartError, Minute
from local.console.rendering import lane_path, span

SPANS = {"hour": (60, 1), "day": (24 * 60, 15)}
"""For each span of time: its length in minutes, and the minutes of one bar."""
HEIGHT = 46


@dataclass(frozen=True)
class Bar:
    """One bar: left edge *x* and *width* in percent, top *y* and *height* in pixels, and its value as text."""

    x: float
    width: float
    y: float
    height: float
    words: str


@dataclass(frozen=True)
class Chart:
    """A bar chart over a span of time. *most* and *last* are the texts of the highest and of the newest value."""

    title: str
    bars: tuple[Bar, ...]
    most: str
    last: str


def parts_of(minutes: Sequence[Minute], now: datetime, count: int, each: int) -> list[list[Minute]]:
    """Group the last *count* minutes into one list for each bar of a chart. Older minutes are left out.

    Each bar stands for *each* minutes. The last bar ends at *now*.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> made = parts_of([Minute(noon), Minute(noon - timedelta(minutes=3))], noon, 4, 2)
    >>> [[minute.at.minute for minute in part] for part in made]
    [[57], [0]]
    """
    present = now.replace(second=0, microsecond=0)
    parts: list[list[Minute]] = [[] for _ in range(count // each)]
    for minute in minutes:
        ago = int((present - minute.at).total_seconds() // 60)
        if 0 <= ago < count:
            parts[len(parts) - 1 - ago // each].append(minute)
    return parts


def chart(title: str, values: Sequence[float | None], shown: Callable[[float], str]) -> Chart:
    """Return a chart with a bar for each value. The values None (unknown) and 0 have no bar. *shown* formats a value.

    >>> made = chart("x", [None, 2.0, 4.0], "{:.0f}".format)
    >>> [(bar.x, bar.height) for bar in made.bars], made.most, made.last
    ([(33.33, 23.0), (66.67, 46.0)], '4', '4')
    """
    known = [each for each in values if each is not None]
    most, width = max(known, default=0.0), 100 / len(values)
    bars = []
    for place, value in enumerate(values):
        if value:
            height = max(1.0, round(HEIGHT * value / most, 1))
            bars.append(Bar(round(place * width, 2), round(width * 0.8, 2), HEIGHT - height, height, shown(value)))
    return Chart(title, tuple(bars), shown(most) if known else "—", shown(known[-1]) if known else "—")


def charts_of(minutes: Sequence[Minute], now: datetime, span_name: str) -> list[Chart]:
    """Return the charts of *minutes* over the span *span_name*, a key of :data:`SPANS`.

    The charts of published messages and of the backlog are left out if they have no values.
    """
    count, each = SPANS[span_name]
    parts = parts_of(minutes, now, count, each)

    def averages(value: Callable[[Minute], float | None]) -> list[float | None]:
        values = [[found for minute in part if (found := value(minute)) is not None] for part in parts]
        return [sum(part) / each if part else None for part in values]

    def worst(value: Callable[[Minute], float | None]) -> list[float | None]:
        return [max((found for m in part if (found := value(m)) is not None), default=None) for part in parts]

    published = averages(lambda minute: minute.published)
    made = [
        chart("Delivered/min", averages(lambda minute: minute.delivered), "{:,.4g}".format),
        chart("Failed/min", averages(lambda minute: minute.failed), "{:,.4g}".format),
        chart("p95 latency", worst(lambda minute: minute.p95_latency_ms), lambda ms: span(ms / 1000)),
        chart("Backlog", worst(lambda minute: minute.backlog), "{:,.0f}".format),
    ]
    if any(each is not None for each in published):
        made.insert(0, chart("Published/min", published, "{:,.4g}".format))
    return made if any(minute.backlog is not None for minute in minutes) else made[:-1]


async def charts(request: web.Request) -> web.Response:
    """Show the charts of a topic, or of one subscription."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info.get("subscription", "")
    span_name = request.query.get("span", "hour")
    span_name = span_name if span_name in SPANS else "hour"
    fault = ""
    minutes: Sequence[Minute] = ()
    try:
        minutes = await desk.charted.minutes(topic, name, SPANS[span_name][0])
    except ChartError as refused:
        fault = str(refused)
    now = datetime.now(UTC)
    return desk.page(
        "charts.html",
        topic=topic,
        name=name,
        here=lane_path(topic, name, "charts") if name else path_of("topics", topic, "charts"),
        charts=charts_of(minutes, now, span_name) if minutes else [],
        height=HEIGHT,
        span_name=span_name,
        spans=tuple(SPANS),
        begins=now - timedelta(minutes=SPANS[span_name][0]),
        means=desk.charted.means,
        fault=fault,
    )


ROUTES = (
    web.get("/topics/{topic}/charts", charts),
    web.get("/topics/{topic}/subscriptions/{subscription}/charts", charts),
)
