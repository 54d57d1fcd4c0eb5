"""Charts of what happens: sampled from the tail on this machine, read from CloudWatch of a deployment."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from tagcast.ids import ID_SEQUENCE_BITS
from tagcast_client import AsyncClient

from local.console.archive_jobs import archived_message
from local.console.charts import charts_of
from local.console.minutes import Minute, MinuteFile
from local.console.samples import CloudWatchMinutes, Samples
from tests.clients.in_memory_api import InMemoryApi
from tests.fakes.stream import FakeStream
from tests.fakes.world import FAIL
from tests.unit.console.visitor import Visitor

NOW = datetime(2026, 11, 23, 12, 30, 20, tzinfo=UTC)


def clock_of(world: InMemoryApi) -> Callable[[], datetime]:
    return lambda: datetime.fromtimestamp(world.fakes.clock.instant / 1000, UTC)


def test_what_happens_in_a_topic_is_sampled_by_minute_and_subscription_and_kept(tmp_path: Path) -> None:
    world = InMemoryApi()
    fakes, stream, now = world.fakes, FakeStream(world.fakes), clock_of(world)

    def happens(count: int) -> None:
        fakes.publish(*map(str, range(count)), topic="orders")
        stream.pass_on()
        fakes.clock.instant += 250
        fakes.deliver()
        stream.pass_on()

    fakes.topic("orders")
    fakes.subscribe("well", topic="orders")
    fakes.subscribe("failing", topic="orders")
    fakes.pusher.behaviours["failing"] = lambda push: FAIL
    with asyncio.Runner() as loop:
        api = AsyncClient("http://api.test", transport=world)
        file = tmp_path / "minutes.sqlite"
        samples = Samples(api, MinuteFile(file, "a"), now)

        def minutes(name: str, count: int = 60, topic: str = "orders") -> Sequence[Minute]:
            return loop.run(samples.minutes(topic, name, count))

        loop.run(samples.start())
        assert samples.published_at("orders") is None
        assert not file.exists()

        assert not [each for each in minutes("") if each.delivered]
        happens(3)
        loop.run(samples.sample("orders"))
        for _ in range(3):
            fakes.clock.instant += 40_000
            loop.run(samples.sample("orders"))
        happens(2)
        loop.run(samples.sample("orders"))
        told = minutes("")
        assert [(each.published, each.delivered) for each in told if each.published] == [(3, 3), (2, 2)]
        assert told[-1].backlog == 5
        assert sum(each.failed for each in minutes("failing")) == 1
        assert [(each.delivered, each.p95_latency_ms) for each in minutes("well")] == [(3, 250.0), (2, 250.0)]
        assert [each.delivered for each in minutes("well", 1)] == [2]
        assert minutes("", topic="absent") == ()
        assert samples.published_at("orders") == told[-1].at
        loop.run(samples.stop())

        samples = Samples(api, MinuteFile(file, "a"), now)
        loop.run(samples.start())
        loop.run(samples.sample("orders"))  # What is asked first begins to count.
        happens(1)
        loop.run(samples.sample("orders"))
        assert [(each.published, each.delivered) for each in minutes("") if each.published] == [(3, 3), (3, 3)]
        loop.run(samples.stop())
        assert loop.run(Samples(api, MinuteFile(file, "b"), now).minutes("orders", "", 60))[0].published is None
        loop.run(api.aclose())


async def test_charts_of_an_absent_topic_end_no_sampling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.console.samples.ASK_S", 0.01)
    world, asked = InMemoryApi(), asyncio.Event()
    world.fakes.topic("orders")

    class LateAnswer(httpx.AsyncBaseTransport):
        """The API that answers a question about the absent topic when another one was asked."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if "absent" in request.url.path:
                self.again = getattr(self, "again", 0) + 1
                if self.again == 2:
                    asked.set()
                await asyncio.wait_for(asked.wait(), 5)
            return await world.handle_async_request(request)

    samples = Samples(AsyncClient("http://api.test", transport=LateAnswer()), MinuteFile(tmp_path / "a", "a"))
    await samples.minutes("orders", "", 60)
    assert await samples.minutes("absent", "", 60) == ()
    before = len(world.requests)
    async with asyncio.timeout(5):
        while len(world.requests) < before + 10:
            await asyncio.sleep(0.01)
    await samples.stop()


def test_a_topic_that_is_created_again_has_no_minutes_of_the_deleted_one(tmp_path: Path) -> None:
    world = InMemoryApi()
    fakes, stream = world.fakes, FakeStream(world.fakes)

    with asyncio.Runner() as loop:
        api = AsyncClient("http://api.test", transport=world)
        samples = Samples(api, MinuteFile(tmp_path / "minutes.sqlite", "a"), clock_of(world))

        def published() -> list[int | None]:
            loop.run(samples.sample("orders"))
            return [minute.published for minute in loop.run(samples.minutes("orders", "", 60))]

        loop.run(api.create_topic("orders"))
        loop.run(samples.minutes("orders", "", 60))
        fakes.publish("one", topic="orders")
        stream.pass_on()
        assert published() == [1]
        loop.run(api.delete_topic("orders"))
        fakes.clock.instant += 90_000
        loop.run(api.create_topic("orders"))
        assert published() == [0]
        assert samples.published_at("orders") is None
        loop.run(samples.stop())


def test_minutes_are_kept_for_a_day_and_the_oldest_of_too_many_go(tmp_path: Path) -> None:
    file = MinuteFile(tmp_path / "minutes.sqlite", "a")
    file.keep("orders", "", [Minute(NOW - timedelta(hours=each), published=1) for each in (25, 3, 2, 1)])

    def left() -> list[int]:
        return [(NOW - each.at).seconds // 3600 for each in file.minutes("orders", "", NOW - timedelta(days=3))]

    file.shrink(NOW)
    assert left() == [3, 2, 1]
    file.shrink(NOW, rows_max=2)
    assert left() == [2, 1]
    file.forget("orders")
    assert (left(), file.published_at("orders")) == ([], None)
    file.close()


def test_a_damaged_file_of_minutes_stops_no_console_and_is_begun_anew(tmp_path: Path) -> None:
    damaged = tmp_path / "minutes.sqlite"
    damaged.write_bytes(b"\x7f" * 4_096)
    with closing(Visitor(tmp_path / "reports")) as visitor:
        visitor.api.create_topic("orders")
        assert not damaged.exists()
        assert "No metrics yet" not in visitor.get("/topics/orders/charts").text
        damaged.write_bytes(b"\x7f" * 8_192)
        assert "is deleted: sampling starts again" in visitor.get("/topics/orders/charts").text
        assert "sampling starts again" not in visitor.get("/topics/orders/charts").text


def test_a_file_of_minutes_that_cannot_be_written_is_told_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with closing(Visitor(tmp_path / "taken/reports")) as visitor:
        visitor.api.create_topic("orders")
        seen = visitor.get("/topics/orders/charts")
        assert (seen.status, "minutes.sqlite cannot be opened: " in seen.text) == (200, True)
        assert visitor.get("/topics/orders/rates").status == 200


def test_an_hour_has_a_bar_a_minute_and_a_day_one_for_a_quarter_of_an_hour() -> None:
    present = NOW.replace(second=0)
    minutes = [Minute(present - timedelta(minutes=ago), 6, 12, 0, backlog=ago) for ago in (100, 1, 0)]

    hour, day = (charts_of(minutes, NOW, name) for name in ("hour", "day"))

    assert [chart.title for chart in hour] == [
        "Published/min", "Delivered/min", "Failed/min", "p95 latency", "Backlog",
    ]  # fmt: skip
    assert (len(hour[1].bars), hour[1].most, hour[1].last) == (2, "12", "12")
    assert [bar.words for bar in day[1].bars] == ["0.8", "1.6"]
    assert (hour[4].most, day[4].most) == ("1", "100")


def test_the_pages_of_a_topic_and_a_subscription_have_charts(visitor: Visitor) -> None:
    for path in ("/topics/orders", "/topics/orders/subscriptions/billing"):
        assert f'hx-get="{path}/charts"' in visitor.get(path).text
        charts = visitor.get(f"{path}/charts?span=day")
        assert (charts.status, "Sampled every minute" in charts.text) == (200, True)


class CloudWatch:
    """Answers what is asked with one value each, on a page of its own."""

    def __init__(self) -> None:
        self.queries: list[dict[str, Any]] = []

    def get_paginator(self, name: str) -> Self:
        assert name == "get_metric_data"
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        self.queries = asked["MetricDataQueries"]
        for each in self.queries:
            yield {"MetricDataResults": [{"Id": each["Id"], "Timestamps": [NOW], "Values": [7.0]}]}


def test_a_deployments_minutes_are_the_metrics_of_its_subscriptions() -> None:
    cloudwatch = CloudWatch()
    minutes = CloudWatchMinutes("shop", lambda service: cloudwatch)

    [minute] = asyncio.run(minutes.minutes("orders", "billing", 60))

    assert (minute.at, minute.delivered, minute.failed, minute.p95_latency_ms, minute.backlog) == (NOW, 7, 7, 7.0, 7)
    first = cloudwatch.queries[0]["Expression"]
    assert 'MetricName="Delivered" service="shop" topic="orders" subscription="billing"' in first
    asyncio.run(minutes.minutes("orders", "", 60))
    assert "subscription=" not in cloudwatch.queries[0]["Expression"]


def id_of(instant: datetime) -> str:
    """The id of a message that was accepted then."""
    return f"{int(instant.timestamp() * 1000) << ID_SEQUENCE_BITS:020d}"


class Bucket:
    """Has one object of records in *hour*, on the second page of its list."""

    def __init__(self, *records: dict[str, Any], hour: int = 13) -> None:
        self.content = "\n".join(map(json.dumps, records)).encode()
        self.hour = hour
        self.prefixes: list[str] = []

    def get_paginator(self, name: str) -> Self:
        return self

    def paginate(self, **asked: str) -> list[dict[str, Any]]:
        self.prefixes.append(asked["Prefix"])
        return [{}, {"Contents": [{"Key": "x"}]}] if asked["Prefix"].endswith(f"hour={self.hour}/") else [{}]

    def get_object(self, **asked: str) -> dict[str, Any]:
        return {"Body": self}

    def read(self) -> bytes:
        return self.content


@pytest.mark.parametrize(
    ("kept", "body"),
    [({"body": "hi"}, "hi"), ({"body_base64": "aGk="}, b"hi"), ({"body_base64": "aGk=", "body_is_text": True}, "hi")],
)
def test_a_message_is_read_from_the_archive_of_the_hour_that_its_id_says_or_the_next(
    kept: dict[str, Any], body: str | bytes
) -> None:
    message_id = id_of(NOW)
    other = {"topic": "others", "message_id": message_id, "body": "another topic's"}
    bucket = Bucket(other, {"topic": "orders", "message_id": message_id, "tags": ["a"], **kept})

    found = archived_message(bucket, "archive", "orders", message_id)

    assert found is not None
    assert (found.body, found.tags) == (body, ("a",))
    assert bucket.prefixes == [f"raw/messages/dt=2026-11-23/hour={hour}/" for hour in (12, 13)]
    assert archived_message(bucket, "archive", "orders", str(int(message_id) + 1)) is None
    assert archived_message(Bucket({**other, "body": None}), "archive", "others", message_id) is None


def test_a_message_that_lost_its_properties_is_not_shown_as_published() -> None:
    message_id = id_of(NOW)
    left = {"topic": "orders", "message_id": message_id, "body": "hi", "hashes": {"properties": "0f"}}
    assert archived_message(Bucket(left), "archive", "orders", message_id) is None


def test_a_message_of_the_first_minutes_of_an_hour_is_read_from_the_object_of_the_hour_before() -> None:
    # Firehose names an object by its oldest record.
    accepted_at = NOW.replace(hour=12, minute=0, second=30)
    message_id = id_of(accepted_at)
    bucket = Bucket({"topic": "orders", "message_id": message_id, "tags": [], "body": "hi"}, hour=11)

    found = archived_message(bucket, "archive", "orders", message_id)

    assert found is not None
    assert found.body == "hi"


def test_what_is_older_than_a_chart_is_in_none_of_its_bars() -> None:
    present = NOW.replace(second=0)
    for name, minutes in (("hour", 60), ("day", 24 * 60)):
        old, oldest = (
            Minute(present - timedelta(minutes=minutes), 7),
            Minute(present - timedelta(minutes=minutes - 1), 7),
        )
        assert charts_of([old], NOW, name)[0].most == "—"
        [bar] = charts_of([oldest], NOW, name)[0].bars
        assert bar.x == 0


def test_minutes_and_looks_are_those_of_one_api_and_go_with_their_topic(tmp_path: Path) -> None:
    file, other = (MinuteFile(tmp_path / "minutes.sqlite", api) for api in "ab")
    other.keep("orders", "", [Minute(NOW, published=1)])
    other.record_view("orders", NOW)
    assert (file.published_at("orders"), file.viewed_topics(NOW - timedelta(hours=1), 9)) == (None, [])

    file.keep("orders", "", [Minute(NOW, published=1)])
    for number, topic in enumerate(("orders", "bills")):
        file.record_view(topic, NOW + timedelta(seconds=number))
    assert file.viewed_topics(NOW - timedelta(hours=1), 9) == ["bills", "orders"]
    file.forget("orders")
    assert (file.published_at("orders"), file.viewed_topics(NOW - timedelta(hours=1), 9)) == (None, ["bills"])
    assert (other.published_at("orders"), other.viewed_topics(NOW - timedelta(hours=1), 9)) == (
        NOW.replace(microsecond=0),
        ["orders"],
    )
    file.close()
    other.close()
