"""Metrics of topics by minute: for a local stack sampled from live events, for a deployment read from CloudWatch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tagcast.ids import accepted_at_of
from tagcast_client import AsyncClient, NotFoundError, TagcastError
from tagcast_client.models import Tail, TailEvent

from local.console.minutes import KEPT, MINUTE, ChartError, Minute, MinuteFile

TOPICS_MAX = 20
ASK_S = 20.0
"""A topic stays watched for a minute after a request, so a request every 20 seconds misses no event."""
EVENTS_MAX = 1_000
LATENCIES_MAX = 200
"""The maximum number of latencies stored per minute. Percentiles use the first latencies of the minute."""
ALL = ""
"""The subscription name for a topic's own samples."""


@dataclass
class _Watched:
    """A sampled topic. *present* has the minutes of the topic and its subscriptions that may still change."""

    topic: str
    file: MinuteFile
    cursor: str | None = None
    present: dict[tuple[str, datetime], Minute] = field(default_factory=dict)

    def minute(self, name: str, at: datetime) -> Minute:
        """Return the minute that contains the instant *at*, from memory or the file. A missing minute is created."""
        start = at.replace(second=0, microsecond=0)
        if (name, start) not in self.present:
            kept = self.file.minutes(self.topic, name, start - timedelta(seconds=1))
            self.present[name, start] = kept[0] if kept and kept[0].at == start else Minute(start)
        return self.present[name, start]

    def begin_at(self, created_at: datetime) -> None:
        """Drop the minutes before the topic's creation. They belong to a deleted topic of the same name."""
        start = created_at.replace(second=0, microsecond=0)
        self.present = {key: minute for key, minute in self.present.items() if minute.at >= start}
        self.file.forget_before(self.topic, start)

    def keep(self, now: datetime) -> None:
        """Write the minutes in *present* to the file, then drop those that can no longer change."""
        for (name, _), minute in self.present.items():
            self.file.keep(self.topic, name, [minute])
        self.present = {key: minute for key, minute in self.present.items() if now - minute.at < 2 * MINUTE}


class Samples:
    """Samples the live events of topics that pages showed within a day, and stores their metrics in *file*.

    At most :data:`TOPICS_MAX` topics are sampled, the most recently shown.
    """

    def __init__(
        self, api: AsyncClient, file: MinuteFile, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._api = api
        self._file = file
        self._now = now
        self._topics: dict[str, _Watched] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def means(self) -> str:
        """A sentence for the charts page. It says which topics are sampled, and how long samples are stored."""
        return (
            "Sampled every minute while a console runs here, and kept for a day. "
            f"Only the {TOPICS_MAX} topics that you opened last are sampled, from the first time you open them."
        )

    def published_at(self, topic: str) -> datetime | None:
        """Return the last minute in which the topic got a message; None if unknown."""
        with suppress(ChartError):
            return self._file.published_at(topic) if self._file.exists else None
        return None

    async def start(self) -> None:
        """Resume sampling of the topics that pages showed within a day. If the file is not readable, sample none."""
        with suppress(ChartError):
            if self._file.exists:
                for topic in self._file.viewed_topics(self._now() - KEPT, TOPICS_MAX):
                    self._topics[topic] = _Watched(topic, self._file)
        if self._topics:
            self._task = asyncio.create_task(self._go_on())

    async def minutes(self, topic: str, subscription: str, count: int) -> Sequence[Minute]:
        """Return the samples of the last *count* minutes, oldest first. From now on the topic is sampled.

        An empty *subscription* means the topic itself. Minutes without a sample are missing. Raises ChartError.
        """
        self._file.record_view(topic, self._now())
        if topic not in self._topics:
            self._topics[topic] = _Watched(topic, self._file)
            await self.sample(topic)
        if topic not in self._topics:
            return ()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go_on())
        return self._file.minutes(topic, subscription, self._now() - count * MINUTE)

    async def sample(self, topic: str) -> None:
        """Count the topic's events since the last sample, and store the changed minutes."""
        watched = self._topics.get(topic)
        if watched is None:  # A page found meanwhile that the topic does not exist.
            return
        try:
            tail = await self._api.tail(topic, max_events=EVENTS_MAX, cursor=watched.cursor)
            settings = await self._api.get_topic(topic)
        except NotFoundError:
            self._topics.pop(topic, None)
            self._file.forget(topic)
            return
        except TagcastError:  # The next request returns the events since then, too.
            return
        watched.begin_at(settings.created_at)
        self._take(watched, tail)
        watched.minute(ALL, self._now()).backlog = settings.retained_messages
        watched.keep(self._now())

    def _take(self, watched: _Watched, tail: Tail) -> None:
        if watched.cursor is not None:
            counted = watched.minute(ALL, tail.counts.counted_at)
            counted.published = (counted.published or 0) + tail.counts.published
            counted.delivered += tail.counts.delivered
            counted.failed += tail.counts.failed
            for event in tail.events:
                if event.kind == "delivery" and event.subscription is not None:
                    _count(watched, event)
        watched.cursor = tail.next_cursor

    async def _go_on(self) -> None:
        """Sample the recently viewed topics repeatedly, until no topic was viewed for a day."""
        while self._topics:
            await asyncio.sleep(ASK_S)
            with suppress(ChartError):  # For example, the disk is full. The charts page shows it.
                self._file.shrink(self._now())
                wanted = self._file.viewed_topics(self._now() - KEPT, TOPICS_MAX)
                self._topics = {name: each for name, each in self._topics.items() if name in wanted}
                for name in list(self._topics):
                    await self.sample(name)
        self._task = None

    async def stop(self) -> None:
        """Stop sampling."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._file.close()


def _count(watched: _Watched, event: TailEvent) -> None:
    """Count a delivery event in the minute of the subscription. Add its latency to the topic's minute, too."""
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
    """Reads metrics by minute from CloudWatch. Only topics in the parameter ``MetricTopics`` have metrics.

    *client* returns an AWS client for a service's name.
    """

    stack: str
    client: Callable[[str], Any]

    @property
    def means(self) -> str:
        """A sentence for the charts page. It says which topics have metrics."""
        return f"From CloudWatch. Only topics in MetricTopics of the stack {self.stack} have metrics."

    def published_at(self, topic: str) -> datetime | None:
        """Return None, because CloudWatch has no metric with this time."""

    async def start(self) -> None:
        """Do nothing, because CloudWatch needs no sampling."""

    async def stop(self) -> None:
        """Do nothing, because there is no sampling to stop."""

    async def minutes(self, topic: str, subscription: str, count: int) -> Sequence[Minute]:
        """Return the metrics of the last *count* minutes, oldest first. An empty *subscription* means the topic itself.

        Raises ChartError.
        """
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
        """Yield a query for each value of a minute. A topic's value is the sum or maximum over its subscriptions."""
        terms = f'service="{self.stack}" topic="{topic}"' + (f' subscription="{subscription}"' if subscription else "")
        for name, metric, stat, over in (
            ("delivered", "Delivered", "Sum", "SUM"),
            ("failed", "AttemptFailed", "Sum", "SUM"),
            ("p95_ms", "DeliveryMs", "p95", "MAX"),
            ("backlog", "Backlog", "Maximum", "SUM"),
        ):
            found = f"SEARCH('{{tagcast,service,topic,subscription}} MetricName=\"{metric}\" {terms}', '{stat}', 60)"
            yield {"Id": name, "Expression": f"{over}({found})", "Period": 60}

    def _read(self, results: Iterable[dict[str, Any]]) -> list[Minute]:
        found: dict[datetime, Minute] = {}
        for result in results:
            for at, value in zip(result["Timestamps"], result["Values"], strict=True):
                minute = found.setdefault(at, Minute(at))
                setattr(minute, result["Id"], value if result["Id"] == "p95_ms" else round(value))
        return [found[at] for at in sorted(found)]


Charted = Samples | CloudWatchMinutes
"""A source of minutes."""
