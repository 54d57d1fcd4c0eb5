"""Strict mypy takes programs that are right, and refuses each word, kind and shape that the API would."""

import os
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "clients/python"

GOOD = """
from datetime import UTC, datetime
from collections.abc import Sequence
from contextlib import aclosing, closing

from tagcast_client import (
    AsyncClient, BackoffRetry, Client, Consumer, Filter, Message, Pulled, Received, Subscription, SubscriptionSettings,
    Topic,
)

client, HOOK = Client("http://127.0.0.1:8080"), "https://example.com/"
client.create_topic("orders", ordering="key", keep="life", retention_seconds=60)
client.update_topic("orders", retention_seconds=None)
topic: Topic = client.ensure_topic("orders", max_message_bytes=1000)
client.update_topic("orders", ordering=topic.ordering)
backoff: BackoffRetry = {"strategy": "BACKOFF_RETRY", "max_retries": 3}
for filter in (
    Filter.tags("a", "b"), Filter.tags("a", match="all"), Filter.tag_expression("a || b"),
    Filter.routing_key("a.*", "b.#"), Filter.sql("price > 100"), Filter.sql("a = 1", dialect="rocketmq"),
    Filter.pattern({"price": [{"numeric": [">", 1]}]}), Filter.pattern({"a": ["x"]}, dialect="sns", scope="properties"),
    Filter.function("rate", on_error="block"), None,
):
    client.ensure_subscription("orders", "s", HOOK, filter=filter, retry=backoff, content_format="json")
client.create_subscription("orders", "t", {"protocol": "pull"}, ordered=True, start_from=datetime.now(UTC))
client.create_subscription("orders", "u", HOOK, filter={"kind": "tags", "tags": ["paid"]}, signature="v1a")
changed: Subscription = client.update_subscription("orders", "u", filter=None, secret=None, headers={"X-A": None})
client.update_subscription("orders", "s", filter=changed.filter, endpoint=changed.endpoint, retry=changed.retry)
client.create_subscriptions("orders", [{"name": "v", "endpoint": HOOK, "batch": {"max_messages": 5}}])
settings: SubscriptionSettings = {"timeout_seconds": 5}
client.create_subscription("orders", "w", HOOK, **settings)
client.publish("orders", {"order": 17}, tags=["paid"])


def heard(message: Received) -> tuple[bytes, str]:
    return message.body, message.text()


def listener(messages: Sequence[Pulled]) -> None:
    for message in messages:
        heard(message)
        topic_of: str = message.topic + message.tags[0] + message.accepted_at.isoformat()


consumer = Consumer(client, "workers")
consumer.subscribe("orders", Filter.sql("price > 5"))
consumer.register_message_listener(listener)
message: Message = client.get_message("orders", "1")
page = client.list_topics(limit=5).page()
names: list[str] = [each.name for each in page.items]
with closing(client.watch("orders", kind="lane")) as tails:
    first: datetime = next(tails).events[0].happened_at


async def watch(client: AsyncClient) -> list[str]:
    async with aclosing(client.watch("orders")) as tails:
        async for tail in tails:
            return [event.kind for event in tail.events]
    return [topic.name async for topic in client.list_topics()]
"""
BAD = """
from asyncio import sleep
from datetime import UTC, datetime

from tagcast_client import Client, Consumer, Filter, NewMessage, Received

client, HOOK = Client("http://127.0.0.1:8080"), "https://example.com/"
client.create_topic("orders", ordering="fifo")
client.create_topic("orders", keep="forever")
client.create_topic("orders", retention=60)
client.update_topic("orders", ordering="fifo")
client.ensure_topic("orders", retention_seconds="1h")
client.create_subscription("orders", "s", HOOK, retry={"strategy": "oops"})
client.create_subscription("orders", "s", HOOK, filter={"kind": "tag"})
client.create_subscription("orders", "s", HOOK, filter={"kind": "tags", "tags": "paid"})
client.create_subscription("orders", "s", HOOK, content_format="xml")
client.create_subscription("orders", "s", {"protocol": "ftp"})
client.create_subscription("orders", "s", HOOK, timeout_seconds="5")
client.ensure_subscription("orders", "s", HOOK, signature="v2")
client.update_subscription("orders", "s", verification="maybe")
client.update_filter("orders", "s", {"kind": "sql", "expression": "a = 1"})
client.create_subscriptions("orders", [{"endpoint": HOOK}])
client.heartbeat("orders", "s", "c", None, mode="shared")
NewMessage("x", tags="paid")
Filter.tags(["a", "b"])
Filter.sql("a = 1", dialect="mysql")
Filter.pattern("price > 1")
client.send(None)
client.publish("orders", "x", tags="paid")
text: str = client.get_message("orders", "1").body
Consumer(client, "workers").register_message_listener(lambda messages: "done")
Consumer(client, "workers").register_message_listener(lambda messages: sleep(1))
"""


def faults_of(program: str, folder: Path) -> list[int]:
    """Return the numbers of those lines of *program* that strict mypy refuses."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(folder.parent / "cache")]
    environment = {**os.environ, "MYPYPATH": str(CLIENT)}
    ran = subprocess.run(
        [*command, "program.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode in (0, 1), ran.stderr + ran.stdout
    refused = re.findall(r"^(\S+?):(\d+): error", ran.stdout, re.MULTILINE)
    assert {file for file, _ in refused} <= {"program.py"}, ran.stdout
    return sorted({int(line) for _, line in refused})


def test_strict_mypy_takes_what_is_right_and_refuses_each_line_that_is_not(tmp_path: Path) -> None:
    assert faults_of(GOOD, tmp_path) == []
    wrong = [
        number
        for number, line in enumerate(BAD.splitlines(), 1)
        if line and not line.startswith(("from ", "client, HOOK"))
    ]
    assert faults_of(BAD, tmp_path) == wrong
