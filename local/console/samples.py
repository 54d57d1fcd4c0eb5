"""What happens in a topic, minute by minute: sampled from its tail here, read from CloudWatch of a deployment."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from typing import Any, Protocol

from tagcast.ids import accepted_at_of
from tagcast_client import AsyncClient, NotFoundError, TagcastError, TailWish
from tagcast_client.tailing import Tail, TailEvent

MINUTE = timedelta(minutes=1)
KEPT = 24 * 60
TOPICS_MAX = 20
ASK_S = 20.0
"""A topic is watched for a minute after a question: with one in 20 seconds nothing is missed."""
EVENTS_MAX = 1_000
LATENCIES_MAX = 200
"""Latencies of a minute that are remembered: its percentiles come from the first ones."""
ALL = ""
"""The name under which a topic itself is sampled."""


@dataclass
class Minute:
    """One minute of a topic or a subscription; None is what was not told.

    Latencies are from acceptance to delivery, in milliseconds. The backlog of a topic is what it retains.
    """

    at: datetime
    published: int | None = None
    delivered: int = 0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)
    p95_ms: float | None = None
    backlog: int | None = None

    @property
    def slow_ms(self) -> float | None:
        """Return the latency that 95 of 100 deliveries did not exceed."""
        if self.p95_ms is not None or not self.latencies:
            return self.p95_ms
        return quantiles(self.latencies, n=20)[-1] if len(self.latencies) > 1 else self.latencies[0]


class Charted(Protocol):
    """Where minutes come from."""

    @property
    def means(self) -> str:
        """Say to people where they come from, and why there may be none."""

    async def minutes(self, topic: str, subscription: str, count: int) -> Sequence[Minute]:
        """Return those of the last *count* minutes that something is known of, oldest first. Raises ChartError."""

    async def stop(self) -> None:
        """End what is asked beside the pages."""


class ChartError(Exception):
    """Minutes cannot be read; the text says why."""


@dataclass
class _Watched:
    looked_s: float
    cursor: str | None = None
    series: dict[str, deque[Minute]] = field(default_factory=dict)

    def minute(self, name: str, at: datetime) -> Minute:
        """Return the minute of an instant, which may be a new one."""
        kept = self.series.setdefault(name, deque(maxlen=KEPT))
        start = at.replace(second=0, microsecond=0)
        for each in reversed(kept):
            if each.at == start:
                return each
            if each.at < start:
                break
        made = Minute(start)
        kept.append(made)
        return made


class Samples:
    """Minutes of the topics whose pages were looked at within a day, the last of them, as long as the console runs."""

    def __init__(self, api: AsyncClient, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._now = now
        self._topics: dict[str, _Watched] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def means(self) -> str:
        """Say since when there are samples."""
        return (
            f"Sampled by this console while it runs, from the first look at a topic on, for a day after the last one; "
            f"at most {TOPICS_MAX} topics."
        )

    async def minutes(self, topic: str, subscription: str, count: int) -> Sequence[Minute]:
        """Return what was sampled, and go on sampling."""
        if topic not in self._topics:
            self._topics[topic] = _Watched(0.0)
            await self.sample(topic)
        if topic not in self._topics:
            return ()
        watched = self._topics[topic]
        watched.looked_s = time.monotonic()
        for name, _ in sorted(self._topics.items(), key=lambda each: -each[1].looked_s)[TOPICS_MAX:]:
            del self._topics[name]
        if self._task is None:
            self._task = asyncio.create_task(self._go_on())
        since = self._now() - count * MINUTE
        return [each for each in watched.series.get(subscription, ()) if each.at > since]

    async def sample(self, topic: str) -> None:
        """Ask what happened in a topic since it was asked last."""
        watched = self._topics[topic]
        try:
            told = await self._api.tail(topic, TailWish(max_events=EVENTS_MAX), cursor=watched.cursor)
            settings = await self._api.get_topic(topic)
        except NotFoundError:
            del self._topics[topic]
            return
        except TagcastError:  # The next question is as good: what happened between them is told then.
            return
        self._take(watched, told)
        watched.minute(ALL, self._now()).backlog = settings.retained_messages

    def _take(self, watched: _Watched, told: Tail) -> None:
        if watched.cursor is not None:
            counted = watched.minute(ALL, told.counts.counted_at)
            counted.published = (counted.published or 0) + told.counts.published
            counted.delivered += told.counts.delivered
            counted.failed += told.counts.failed
            for event in told.events:
                if event.kind == "delivery" and event.subscription is not None:
                    _count(watched, event)
        watched.cursor = told.next_cursor

    async def _go_on(self) -> None:
        """Sample every topic again and again, until nobody looked at any for a day."""
        while self._topics:
            await asyncio.sleep(ASK_S)
            over_s = time.monotonic() - KEPT * 60
            for name in [name for name, each in self._topics.items() if each.looked_s < over_s]:
                del self._topics[name]
            for name in list(self._topics):
                await self.sample(name)
        self._task = None

    async def stop(self) -> None:
        """Stop sampling."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


def _count(watched: _Watched, event: TailEvent) -> None:
    """Add a delivery to the minutes of its subscription, and its latency to those of the topic, too."""
    assert event.subscription is not None
    minute = watched.minute(event.subscription, event.happened_at)
    if event.state == "delivered" and event.message_id is not None:
        took_ms = event.happened_at.timestamp() * 1000 - accepted_at_of(event.message_id)
        minute.delivered += 1
        for each in (minute, watched.minute(ALL, event.happened_at)):
            if len(each.latencies) < LATENCIES_MAX:
                each.latencies.append(max(0.0, took_ms))
    elif event.attempts:
        minute.failed += 1


@dataclass
class CloudWatchMinutes:
    """Minutes of the topics that a deployment names in ``MetricTopics``; *client* makes clients of AWS."""

    stack: str
    client: Callable[[str], Any]

    @property
    def means(self) -> str:
        """Say which topics have metrics."""
        return f"From CloudWatch: topics that MetricTopics of the stack {self.stack} names have metrics, others none."

    async def stop(self) -> None:
        """Nothing is asked beside the pages."""

    async def minutes(self, topic: str, subscription: str, count: int) -> Sequence[Minute]:
        """Ask CloudWatch for the metrics of a subscription, or for those of all of a topic together."""
        return await asyncio.to_thread(self._minutes, topic, subscription, count)

    def _minutes(self, topic: str, subscription: str, count: int) -> Sequence[Minute]:
        from botocore.exceptions import BotoCoreError, ClientError

        now = datetime.now(UTC)
        try:
            pages = self.client("cloudwatch").get_paginator("get_metric_data").paginate(
                MetricDataQueries=list(self._queries(topic, subscription)), StartTime=now - count * MINUTE, EndTime=now
            )  # fmt: skip
            return self._read(each for page in pages for each in page["MetricDataResults"])
        except (BotoCoreError, ClientError) as fault:
            raise ChartError(f"AWS refused: {fault}") from fault

    def _queries(self, topic: str, subscription: str) -> Iterable[dict[str, Any]]:
        """Yield one query for each number of a minute: of a topic the sum, or the worst, of its subscriptions."""
        of = f'service="{self.stack}" topic="{topic}"' + (f' subscription="{subscription}"' if subscription else "")
        for name, metric, stat, over in (
            ("delivered", "Delivered", "Sum", "SUM"),
            ("failed", "AttemptFailed", "Sum", "SUM"),
            ("p95_ms", "DeliveryMs", "p95", "MAX"),
            ("backlog", "Backlog", "Maximum", "SUM"),
        ):
            found = f"SEARCH('{{tagcast,service,topic,subscription}} MetricName=\"{metric}\" {of}', '{stat}', 60)"
            yield {"Id": name, "Expression": f"{over}({found})", "Period": 60}

    def _read(self, results: Iterable[dict[str, Any]]) -> list[Minute]:
        found: dict[datetime, Minute] = {}
        for result in results:
            for at, value in zip(result["Timestamps"], result["Values"], strict=True):
                minute = found.setdefault(at, Minute(at))
                setattr(minute, result["Id"], value if result["Id"] == "p95_ms" else round(value))
        return [found[at] for at in sorted(found)]
