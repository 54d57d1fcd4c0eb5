"""The account of a cell: the template on the box, warm tables, Lambda's pollers, subscribers at a distance."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tagcast.model import Batching, Ordering, RetryPolicy, Strategy, Subscription
from tagcast.ports import World
from tagcast.registry import topics
from tagcast.registry.directory import kept_directory_of
from tagcast.rows.keys import topic_key
from tagcast.rows.subscription import subscription_put, version_put
from tagcast.rows.topic import TOPICS
from tagcast.tables import Put
from tagcast.topic_settings import TopicSettings

from tests.aws import limits
from tests.aws.administrator import administrator
from tests.aws.box import ADMINISTRATOR
from tests.aws.deployment import Deployment
from tests.aws.limits import LARGE_REGION, QUEUE_GROWTH_A_MINUTE, QuotaPlace
from tests.aws.network import Connection, Request
from tests.aws.throughput import Throughput
from tests.aws.unsaid import Unsaid
from tests.benchmarks.twinning.computing import ComputingTimeline, Reading
from tests.benchmarks.twinning.meter import Meter, own_metrics
from tests.benchmarks.twinning.pollers import Pollers
from tests.benchmarks.twinning.sdk import ComputedClient, Sdk
from tests.fakes.settings import settings_for

TOPIC = "orders"
BATCHING = Batching(100, 1024 * 1024)
SHARDS = 4
"""Of the table's stream: a new table on demand has partitions for four thousand units a second."""
BURST_S = 0.05
"""So much of its rate a key or table may take at once: what is sustained has no use of bursts."""
QUOTA_BURST_S = 0.01
"""The same of the other quotas: a play is short, and what it was given at once would count as its pace."""
_SERIAL = re.compile(rb"#(\d{9})#")


@dataclass(frozen=True)
class Cell:
    """One line of the table: who subscribes, in which order, how far away; how many messages a request publishes."""

    subscriptions: int
    ordering: Ordering
    rtt_ms: float
    at_once: int = 1
    batched: bool = False
    """Whether the subscribers take several messages by one request."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the template, as its owner chose them."""
    conditions: bool = False
    """Whether each subscription has a condition of its own over properties; else all of them want everything."""
    place: QuotaPlace = LARGE_REGION
    retry: RetryPolicy | None = None
    """How failed deliveries are retried; None: three times, in order if the topic has one."""

    def __str__(self) -> str:
        pushes = "batched pushes" if self.batched else "single pushes"
        chosen = "".join(f", `{name}={value}`" for name, value in self.parameters)
        where = "" if self.place is LARGE_REGION else f", {self.place.name}"
        return (
            f"{self.subscriptions:,} × {self.ordering.value}, {self.rtt_ms:g} ms, by {self.at_once}, {pushes}{chosen}"
            f"{where}"
        )


class Receivers:
    """All subscribers: a listener that answers every push at once; what they saw, by the number in the body."""

    def __init__(self, account: "Account") -> None:
        self._account = account
        self.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        self.requests = 0
        self.bytes = 0
        """Of the requests, their heads included, without TLS."""
        self.pushed: Counter[int] = Counter()

    def reached(self) -> str:
        return "open"

    def asked(self, request: Request, connection: Connection) -> None:
        network = self._account.deployment.network
        self.requests += 1
        head = f"{request.method} {request.path} HTTP/1.1\r\n\r\n"
        self.bytes += len(head) + sum(len(f"{name}: {value}\r\n") for name, value in request.headers.items())
        self.bytes += len(request.body)
        for found in _SERIAL.findall(request.body):
            self.pushed[int(found)] += 1
            self._account.seen(int(found))
        network.timeline.after(network.one_way_ms(), lambda: connection.send(self.answer))

    def left(self, connection: Connection) -> None:
        pass


class Account:
    """A deployment with one topic and a cell's subscriptions, in which computing takes time."""

    def __init__(self, cell: Cell, reading: Reading, sdk: Sdk, shards: int = SHARDS, *, cold: bool = False) -> None:
        """Make it; the queue's source has been busy before, or is *cold* and gains connections as slowly as it may."""
        self.cell = cell
        self.timeline = ComputingTimeline(reading)
        self.timeline.entering = own_metrics
        unsaid = Unsaid(growth_a_minute=QUEUE_GROWTH_A_MINUTE[not cold])
        self.deployment = deployment = Deployment(self.timeline, None, 1, shards, cell.parameters, cell.place, unsaid)
        deployment.box.quotas.burst_s_max = QUOTA_BURST_S
        deployment.box.client_type = _Metered
        _Metered.sdk, _Metered.meter = sdk, (meter := Meter(self.timeline))
        self.meter = deployment.functions.weather = meter
        self.receivers = Receivers(self)
        deployment.network.round_trip_ms = (cell.rtt_ms, cell.rtt_ms)
        self.seen: Callable[[int], None] = lambda serial: None
        """Is told of each message that a subscriber gets."""
        (spec,) = (spec for spec in deployment.stack.template.sources() if not spec.of_stream)
        queue = deployment.queues["DeliveryQueue"]
        around = (deployment.box, self.timeline, deployment.stack, deployment.functions, spec, queue)
        self.pollers = Pollers(*around)
        deployment.queue_sources = [self.pollers]
        self._subscribe()
        deployment.connect()

    @property
    def is_idle(self) -> bool:
        deployment = self.deployment
        return (
            not deployment.functions.running
            and not deployment.queues["DeliveryQueue"].lines
            and all(source.is_idle for source in deployment.stream_sources)
        )

    def units(self) -> tuple[float, float]:
        """Return the units that were read and written of all tables so far, their indexes included."""
        found = [self.deployment.tables[name].throughput for name in self.deployment.tables]
        found += [table.throughput_of(index) for table in self.deployment.tables.values() for index in table.indexes]
        return sum(each.units_read for each in found), sum(each.units_written for each in found)

    def forget(self) -> None:
        """Count anew what is taken of quotas, and what is refused."""
        for table in self.deployment.tables.values():
            table.throughput.forget()
        self.deployment.box.quotas.forget()

    def _subscribe(self) -> None:
        world, cell = administrator(self.deployment), self.cell
        for table in self.deployment.tables.values():
            table.throughput = Throughput(*4 * (math.inf,))
        subscribe(
            world,
            TOPIC,
            cell.ordering,
            cell.subscriptions,
            batched=cell.batched,
            conditions=cell.conditions,
            retry=cell.retry,
        )
        for number in range(cell.subscriptions):
            self.deployment.network.listen(host_of(number), self.receivers)
        for table in self.deployment.tables.values():
            table.throughput = Throughput(limits.TABLE_UNITS_MAX, limits.TABLE_UNITS_MAX, burst_s=BURST_S)


class _Metered(ComputedClient):
    """A client whose calls are counted."""

    meter: Meter

    def _call(self, operation: Any, parameters: dict[str, Any]) -> dict[str, Any]:
        answer = super()._call(operation, parameters)
        if self._kind != ADMINISTRATOR:
            self.meter.called(self._kind, operation.name, parameters)
        return answer


def host_of(number: int) -> str:
    return f"s{number}.example"


def subscribe(
    world: World,
    topic: str,
    ordering: Ordering,
    count: int,
    *,
    batched: bool,
    conditions: bool = False,
    retry: RetryPolicy | None = None,
) -> None:
    """Store *topic* with *count* subscriptions, in order if the topic has one.

    They want everything, or each has a condition of its own.
    """
    made, _ = topics.put_topic(world, topic, TopicSettings(ordering=ordering))
    now = world.clock.now()
    for number in range(count):
        settings = settings_for(
            f"http://{host_of(number)}/", retry or _retry(ordering), batching=BATCHING if batched else None
        )
        if conditions:
            settings = replace(settings, filter={"kind": "sql92", "expression": _condition(number)})
        one = Subscription(topic, f"s{number}", made.topic_id, number, settings, 1, now, now)
        world.store.write(subscription_put(one, None))
        world.store.write(version_put(one, since=number + 1))
    subscribed = replace(made, subscriptions_version=count, subscription_count=count, next_ordinal=count)
    world.store.write(Put(topic_key(topic), TOPICS.row_of(subscribed)))
    kept_directory_of(world, topic).index.get()  # An earlier publish would have left it so, if it is large.


def _condition(number: int) -> str:
    """Return what a subscriber of its own kind asks of an order, in some 120 characters."""
    return (
        f"(total > {number} AND city = 'c{number % 50}') "
        f"OR customer IN ('c{number}', 'd{number}') AND NOT (product LIKE 'table {number % 97}%') AND total < 90000"
    )


def _retry(ordering: Ordering) -> RetryPolicy:
    strategy = Strategy.EXPONENTIAL_DECAY_RETRY if ordering is Ordering.NONE else Strategy.BACKOFF_RETRY
    return RetryPolicy(strategy, 3)
