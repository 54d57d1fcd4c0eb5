"""The worst day, played by one command: what pages and commands have to hold up on (`make worst-day`).

300 topics, 5,000 subscriptions, 150 lanes that are not active for five reasons, one message at 1,200 subscriptions of
which 150 fail, an endpoint that has not agreed yet, and the widest names, tags and properties that the limits allow.
``python -m tests.console.worst_day`` starts a stack of its own with a console and keeps it until Ctrl-C; with ``--url``
the day is played on a stack that runs.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tagcast_cli.receiver import Reply
from tagcast_client import Accepted, BackoffRetry, Client, Filter, NamedSubscription, NewMessage

from tests.console.browser import console_of
from tests.console.scene import answering
from tests.console.worst_data import WIDEST_NAME, widest_message
from tests.running_stack import start_stack, wait_until

TOPICS, SUBSCRIPTIONS, WIDE, WIDE_FAILING = 300, 5_000, 1_200, 150
EACH = 3
"""How many messages every troubled topic publishes."""
AT_ONCE = 4
AREAS = ("orders", "payments", "shipping", "stock", "prices", "users", "invoices", "returns", "alerts", "loyalty")
PLACES = ("eu", "us", "uk", "jp", "br", "in", "ca", "au", "fr", "de")
HOSTILE_TOPICS = (WIDEST_NAME, "constructor", "null", "x--__--1e9")
CONSUMERS = (
    "billing", "partner-api", "search-index", "audit-log", "crm", "warehouse", "mailer", "analytics", "fraud", "ledger",
    "cache", "reporting", "mobile-push",
)  # fmt: skip
NOWHERE, SILENT = "http://127.0.0.1:9/", "http://127.0.0.1:7/"
"""Two hosts where nobody listens: one that is down, and one that never agreed to be pushed to."""
SELDOM: BackoffRetry = {"strategy": "BACKOFF_RETRY", "max_retries": 20, "interval_seconds": 3_600}
DEAR = Filter.sql("price > 100 AND region = 'eu'")
WIDE_TOPIC, FIRST = "notifications", "orders-eu-0"
TROUBLES: Mapping[str, tuple[str, range]] = {
    "host down": ("partner-api", range(60)),
    "http 500": ("billing", range(30, 70)),
    "gone": ("audit-log", range(60, 80)),
    "timeout": ("search-index", range(80, 100)),
    "paused": ("crm", range(100, 110)),
}
"""The faults by subscriber and topic: 150 lanes."""


@dataclass(frozen=True)
class WorstDay:
    """Where to look: the wide message, and in :data:`FIRST` one that is ordinary and one that is not."""

    wide: str
    ordinary: str
    hostile: str

    @property
    def lanes(self) -> int:
        """How many lanes are not active: of the causes, of the wide message, and of the endpoint that never agreed."""
        return sum(len(places) for _, places in TROUBLES.values()) + WIDE_FAILING + 1


def topic_names() -> tuple[str, ...]:
    """Return the names of all topics, those with trouble first."""
    ordinary = (f"{area}-{place}-{number}" for number in range(3) for area in AREAS for place in PLACES)
    return (*islice(ordinary, TOPICS - len(HOSTILE_TOPICS) - 1), *HOSTILE_TOPICS, WIDE_TOPIC)


@dataclass(frozen=True)
class Endpoints:
    """The receivers of pushes: healthy, failing, gone and slow ones."""

    well: str
    failing: str
    gone: str
    slow: str


def subscription(name: str, place: int, at: Endpoints) -> NamedSubscription:
    trouble = next((what for what, (who, where) in TROUBLES.items() if who == name and place in where), None)
    match trouble:
        case "host down":
            return {"name": name, "endpoint": NOWHERE}
        case "http 500":
            return {"name": name, "endpoint": at.failing, "retry": SELDOM}
        case "gone":
            return {"name": name, "endpoint": at.gone}
        case "timeout":
            return {"name": name, "endpoint": at.slow, "timeout_seconds": 1, "retry": SELDOM}
    if name == "warehouse":
        return {"name": name, "endpoint": at.well, "filter": DEAR}
    return {"name": name, "endpoint": at.well}


def wide_subscriptions(at: Endpoints) -> Iterator[NamedSubscription]:
    """Yield those of the wide topic; every eighth fails."""
    every = WIDE // WIDE_FAILING
    for number in range(WIDE):
        if number % every:
            yield {"name": f"device-{number:04d}", "endpoint": at.well}
        else:
            yield {"name": f"device-{number:04d}", "endpoint": at.failing, "retry": SELDOM}


@contextmanager
def played(url: str) -> Iterator[WorstDay]:
    """Play the day; its endpoints answer for as long as this lasts."""
    with ExitStack() as ends:
        api = ends.enter_context(Client(url))
        replies = (Reply(), Reply(500), Reply(410), Reply(200, delay_s=5.0))
        receivers = [answering(each).start() for each in replies]
        for receiver in receivers:
            ends.callback(receiver.stop)
        at = Endpoints(*(each.url for each in receivers))
        names = topic_names()
        pool = ends.enter_context(ThreadPoolExecutor(AT_ONCE))
        list(pool.map(lambda named: _make(api, at, *named), enumerate(names)))
        who, where = TROUBLES["paused"]
        for place in where:
            api.pause(names[place], who)
        api.create_subscription(FIRST, "newcomer", SILENT, verification="required")
        api.create_subscription(FIRST, WIDEST_NAME, at.well, filter={"kind": "tags", "tags": ["&" * 64]})
        api.create_subscription(FIRST, "workers", {"protocol": "pull"})
        troubled = {names[place] for _, places in TROUBLES.values() for place in places}
        list(pool.map(lambda name: _publish(api, name), sorted(troubled - {FIRST})))
        ordinary = _publish(api, FIRST)[0]
        hostile = api.publish_batch(FIRST, [widest_message(7)])[0]
        wide = api.publish(WIDE_TOPIC, "to everybody").message_id
        assert isinstance(hostile, Accepted)
        day = WorstDay(wide, ordinary, hostile.message_id)
        assert wait_until(lambda: sum(1 for _ in api.list_lanes(limit=100)) >= day.lanes, 240), "fewer lanes fail"
        yield day


def _make(api: Client, at: Endpoints, place: int, topic: str) -> None:
    api.create_topic(topic, ordering="none" if topic == WIDE_TOPIC else "topic")
    if topic == WIDE_TOPIC:
        made = list(wide_subscriptions(at))
    else:
        more = (SUBSCRIPTIONS - WIDE) % (TOPICS - 1)
        count = (SUBSCRIPTIONS - WIDE) // (TOPICS - 1) + (place < more)
        made = [subscription(name, place, at) for name in CONSUMERS[:count]]
    api.create_subscriptions(topic, made)


def _publish(api: Client, topic: str) -> Sequence[str]:
    """Publish what is cheap and from everywhere, so that the warehouse is not told of it."""
    cheap = {"price": "30", "region": "us"}
    sent = [NewMessage(f'{{"order": {17 + n}}}', ("paid",), properties={**cheap, "order": str(n)}) for n in range(EACH)]
    return [each.message_id for each in api.publish_batch(topic, sent) if isinstance(each, Accepted)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a stack that runs; without it one is started")
    parser.add_argument("--port", default="0", help="port of the stack that is started")
    parser.add_argument("--console-port", default="0", help="port of its console")
    asked = parser.parse_args()
    stopped: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: stopped.append(number))
    with ExitStack() as ends:
        url, console = asked.url, ""
        if url is None:
            folder = ends.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            stack = start_stack(Path(folder, "data"), "--port", asked.port, "--console-port", asked.console_port)
            ends.callback(stack.stop)
            assert wait_until(lambda: "Console" in stack.output)
            url, console = stack.url, console_of(stack)
        began = time.monotonic()
        day = ends.enter_context(played(url))
        print(f"The worst day was played in {time.monotonic() - began:.0f} s.")
        print(f"  API       {url}\n  Console   {console or 'tagcast --url ' + url + ' console'}")
        print(f"  Wide      /topics/{WIDE_TOPIC}/messages/{day.wide}")
        print(f"  Ordinary  /topics/{FIRST}/messages/{day.ordinary}  (warehouse did not get it)")
        print(f"  Hostile   /topics/{FIRST}/messages/{day.hostile}\nCtrl-C ends it.", flush=True)
        while not stopped:
            time.sleep(0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
