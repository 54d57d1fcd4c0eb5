"""How long the first page of the console takes beside a large stack: ``python -m tests.benchmarks.console [TOPICS]``.

The rows of the topics, subscriptions and blocked lanes are written to the tables of a local stack as the service writes
them; then the page is asked for again and again. It is meant for a machine of two cores that does nothing else.
"""

import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tagcast.ids import ID_SEQUENCE_BITS
from tagcast.model import (
    LaneState,
    Subscription,
    Topic,
)
from tagcast.rows.due import PendingDelivery, due_put, position
from tagcast.rows.lane import Lane
from tagcast.rows.lane_transitions import lane_put
from tagcast.rows.subscription import subscription_put, version_put
from tagcast.rows.topic import topic_puts
from tagcast.tables import Put, Table
from tagcast.topic_settings import TopicSettings
from tagcast_aws.store.attributes import to_attribute

from tests.console.browser import console_of
from tests.fakes.settings import settings_for
from tests.running_stack import RunningStack, start_stack

TOPICS, SUBSCRIPTIONS_EACH, BLOCKED = 1_000, 10, 500
FIRST_S_MAX, BYTES_MAX = 0.3, 60_000
TIMES = 20
STEADY, CAUGHT_UP_S = 0.9, 600.0
BATCH = 25
HOUR_MS, DAY_S = 3_600_000, 86_400
SETTINGS = settings_for("http://127.0.0.1:9/", filter={"kind": "tags", "tags": ["a"]})


def rows(topics: int, now: int) -> Iterator[Put]:
    """Yield the rows of the whole stack; every other topic has a lane that is blocked for an hour yet."""
    for number in range(topics):
        name, topic_id = f"topic{number:04d}", f"{(now << ID_SEQUENCE_BITS) + number:020d}"
        topic = Topic(
            name, topic_id, TopicSettings(DAY_S), now, now, SUBSCRIPTIONS_EACH, SUBSCRIPTIONS_EACH,
            SUBSCRIPTIONS_EACH,
        )  # fmt: skip
        yield from (write for write in topic_puts(topic) if isinstance(write, Put))
        for ordinal in range(SUBSCRIPTIONS_EACH):
            each = Subscription(name, f"s{ordinal}", topic_id, ordinal, SETTINGS, 1, now, now)
            yield subscription_put(each, None)
            yield version_put(each, ordinal)
            if number < BLOCKED and ordinal == 0:
                yield from _blocked(each, now)


def _blocked(of: Subscription, now: int) -> Iterator[Put]:
    next_at = now + HOUR_MS
    yield lane_put(Lane(of.topic, of.subscription_id, LaneState.BLOCKED, of.topic_id, 1, 1, next_at, next_at))
    yield due_put(
        PendingDelivery(of.subscription_id, position(0, 0), of.topic_id, 1, now + 20 * HOUR_MS, now, "http 500")
    )


def write(stack: RunningStack, puts: Iterable[Put]) -> None:
    """Write rows as they are; the stack's own conditions are about rows that are not there."""
    client, outputs = stack.owner("dynamodb"), stack.where["outputs"]
    names = {Table.REGISTRY: outputs["RegistryTableName"], Table.MESSAGES: outputs["MessagesTableName"]}
    waiting = iter(puts)
    while part := list(islice(waiting, BATCH)):
        asked: dict[str, list[object]] = {}
        for put in part:
            row = {"pk": put.key.pk, "sk": put.key.sk, **put.row}
            item = {name: to_attribute(value) for name, value in row.items()}
            asked.setdefault(names[put.key.table], []).append({"PutRequest": {"Item": item}})
        client.batch_write_item(RequestItems=asked)


def measured(address: str) -> tuple[float, int]:
    """Return how long one page took, and its bytes."""
    began = time.perf_counter()
    with urllib.request.urlopen(address) as page:
        return time.perf_counter() - began, len(page.read())


def settled(address: str) -> tuple[list[float], int]:
    """Return how long a page takes, and its bytes, when it gets no faster: the stack tells its archive of all rows."""
    best: list[float] = []
    while True:
        found = [measured(address) for _ in range(TIMES)]
        times = [seconds for seconds, _ in found]
        if best and statistics.median(times) > STEADY * statistics.median(best):
            return min(times, best, key=statistics.median), found[0][1]
        best = times


def main() -> int:
    """Print how long it takes; more than the budget is a failure."""
    topics = int(sys.argv[1]) if len(sys.argv) > 1 else TOPICS
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        stack = start_stack(Path(folder, "data"), "--console-port", "0")
        try:
            write(stack, rows(topics, time.time_ns() // 1_000_000))
            times, size = settled(console_of(stack) + "/")
        finally:
            stack.process.send_signal(signal.SIGINT)
            stack.process.wait(CAUGHT_UP_S)
    blocked = min(BLOCKED, topics)
    print(f"{topics} topics, {topics * SUBSCRIPTIONS_EACH} subscriptions, {blocked} blocked lanes")
    then, p95 = statistics.median(times), sorted(times)[-2]
    print(f"first page {1000 * then:.0f} ms (p95 {1000 * p95:.0f} ms), {size} bytes")
    return int(then > FIRST_S_MAX or size > BYTES_MAX)


if __name__ == "__main__":
    sys.exit(main())
