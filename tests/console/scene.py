"""A shop in trouble, played on a stack: what the console is tried and pictured with."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from tagcast_cli.receiver import Receiver, Reply
from tagcast_client import Accepted, BackoffRetry, Client, DisagreementError, Filter, NewMessage

from tests.console.worst_data import HOSTILE
from tests.running_stack import wait_until

EU, US = {"price": "120", "region": "eu"}, {"price": "30", "region": "us"}


TROUBLES = {
    "audit-log": ("suspended", 13),
    "billing": ("blocked", 13),
    "crm": ("paused", 13),
    "search-index": ("lost_contact", 13),
    "ticker": ("blocked", 1),
}
"""The lanes that are not active in the end, and the backlog of each."""


@dataclass(frozen=True)
class Scene:
    """Ids of what was published: *ordered*, oldest first, and the last of them, which is hostile."""

    ordered: tuple[str, ...]
    hostile: str


def answering(reply: Reply) -> Receiver:
    """Return an endpoint that answers everything alike."""
    return Receiver(lambda push: reply, lambda push, told: None)


@contextmanager
def played(url: str) -> Iterator[Scene]:
    """Play it: of the subscribers of orders one fails, one is gone, one answers 410, one is paused, two are well."""
    api = Client(url)
    with ExitStack() as listening:
        well, failing, gone = (answering(Reply(status)) for status in (200, 500, 410))
        for receiver in (well, failing, gone):
            listening.callback(receiver.start().stop)
        api.create_topic("orders")
        api.create_topic("payments", ordering="key")
        api.create_topic("quotes", retention_seconds=1_800, ordering="none")
        backoff: BackoffRetry = {"strategy": "BACKOFF_RETRY", "max_retries": 20, "interval_seconds": 3_600}
        dear = Filter.sql("price > 100 AND region = 'eu'")
        api.create_subscription("orders", "billing", failing.url, retry=backoff)
        api.create_subscription("orders", "search-index", "http://127.0.0.1:9/")
        api.create_subscription("orders", "audit-log", gone.url)
        api.create_subscription("orders", "warehouse", well.url, filter=dear)
        api.create_subscription("orders", "mailer", well.url, filter={"kind": "tags", "tags": ["paid"]})
        api.create_subscription("orders", "crm", failing.url, retry=backoff)
        api.create_subscription("payments", "ledger", well.url)
        api.create_subscription("quotes", "ticker", failing.url, retry={**backoff, "interval_seconds": 600})
        api.create_subscription("payments", "settlement", {"protocol": "pull"})
        api.create_subscription("payments", "statements", {"protocol": "pull"})
        talk(api)
        api.pause("orders", "crm")
        api.set_shadow("orders", "warehouse", {"kind": "sql92", "expression": "price > 20"})
        ordered = _published(api)
        hostile = api.publish("orders", HOSTILE, tags=["<b>x</b>", "a\u202eb"], properties={"price": "</td><script>"})
        api.publish("quotes", "EURUSD 1.0845", routing_key="fx.eurusd")
        api.publish("payments", "paid 17", ordering_key="17")
        assert wait_until(lambda: _states(api) == TROUBLES)
        yield Scene(ordered, hostile.message_id)


def talk(api: Client) -> None:
    """Send heartbeats of two members of a group; one has another filter."""
    api.heartbeat("payments", "settlement", "10.0.0.1@7", None)
    with suppress(DisagreementError):
        api.heartbeat("payments", "settlement", "10.0.0.2@7", filter={"kind": "tags", "tags": ["late"]})


def _states(api: Client) -> dict[str, tuple[str, int]]:
    listed = [(lane.topic, lane.subscription) for lane in api.list_lanes()]
    lanes = {name: api.get_subscription(topic, name).lane for topic, name in listed}
    return {name: (lane.state, lane.backlog) for name, lane in lanes.items() if lane is not None}


def _published(api: Client) -> tuple[str, ...]:
    """Publish orders, every other one paid, every third one from Europe."""
    bodies = [
        NewMessage(
            f'{{"order": {17 + number}}}', ("paid" if number % 2 else "open",), properties=US if number % 3 else EU
        )
        for number in range(12)
    ]
    results = api.publish_batch("orders", bodies)
    return tuple(result.message_id for result in results if isinstance(result, Accepted))
