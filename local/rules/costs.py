"""Estimates the cost of messages on AWS, from the number of operations per message and from list prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.repairing.search import EVERY_S
from tagcast.rows.message import GARBAGE_S

from local.rules.limits import PRICES_USD, READ_UNIT_BYTES, TTL_LATE_S

MONTH_S = 30 * 86_400
OF_A_MESSAGE: Mapping[str, tuple[float, str]] = {
    "HTTP API request": (1.0, "api gateway: a million requests of an HTTP API"),
    "table writes": (2.0, "dynamodb: a million write request units"),
    "table read units": (3.0, "dynamodb: a million read request units"),
    "FIFO queue requests": (1.3, "sqs: a million FIFO requests of 64 KiB"),
}
"""The operations for a message of at most 1 KB to at most 3 subscribers: their number, and their price per million."""
ARCHIVED_BYTES, ROW_BYTES = 1_200, 1_024
"""The sizes of one message's archive records, and of its row."""
TRANSITIONS_OF_A_RETRY = 3


def usd_of_a_million_messages() -> dict[str, float]:
    """Return the cost of a million small messages to at most three subscribers, by item, in US dollars.

    >>> round(sum(usd_of_a_million_messages().values()), 2)
    3.68
    """
    found = {name: count * PRICES_USD[price] for name, (count, price) in OF_A_MESSAGE.items()}
    archive = ARCHIVED_BYTES / 1000 * PRICES_USD["firehose: a GB"]
    return {**found, "archive": archive, "search": usd_of_search()}


def usd_of_search() -> float:
    """Return the worst-case cost of the search for lost work, in US dollars per million messages.

    A row stays for a day of retention, three more days, and the time until DynamoDB deletes it. Reading 4 KB by a scan
    costs half a unit. At higher message rates a pass over the table takes longer, so a row is read less often.

    >>> round(usd_of_search(), 2)
    0.38
    """
    passes = (86_400 + GARBAGE_S + TTL_LATE_S) / EVERY_S
    return passes * ROW_BYTES / (2 * READ_UNIT_BYTES) * PRICES_USD["dynamodb: a million read request units"]


def usd_a_month(messages_per_s: float, retries_per_s: float) -> tuple[float, float]:
    """Return the monthly cost of messages, and that of retries, at the given rates in US dollars.

    >>> [round(usd, 2) for usd in usd_a_month(10.0, 0.1)]
    [95.51, 19.44]
    """
    million = sum(usd_of_a_million_messages().values())
    transitions = TRANSITIONS_OF_A_RETRY * PRICES_USD["stepfunctions: a million transitions"]
    return messages_per_s * MONTH_S / 1e6 * million, retries_per_s * MONTH_S / 1e6 * transitions


@dataclass
class SmokeTest:
    """The usage of a smoke test: its requests, and the work that they cause. Glue bills the *dpu_hours* of the jobs."""

    requests: int = 0
    messages: int = 0
    pushes: int = 0
    queue_requests: int = 0
    dpu_hours: float = 0.0


INVOCATION_S, INVOCATION_GB = 1.0, 1.769
"""Upper bounds of an invocation's duration and memory, so that the estimate is high."""


def usd_of_smoke_test(used: SmokeTest) -> float:
    """Return an upper bound for the cost of a smoke test in US dollars. AWS's free tier is not subtracted.

    >>> round(usd_of_smoke_test(SmokeTest(requests=60, messages=4, pushes=20, queue_requests=300)), 4)
    0.0042
    >>> round(usd_of_smoke_test(SmokeTest(dpu_hours=2 / 60)), 4)
    0.0147
    """
    invocations = used.requests + 2 * used.pushes
    millions = {
        "api gateway: a million requests of an HTTP API": used.requests,
        "lambda: a million requests": invocations,
        "sqs: a million FIFO requests of 64 KiB": used.queue_requests + used.pushes,
        "stepfunctions: a million transitions": TRANSITIONS_OF_A_RETRY * used.pushes,
        "dynamodb: a million read request units": 10 * invocations,
    }
    small = sum(count * PRICES_USD[price] for price, count in millions.items())
    small += used.messages * sum(usd_of_a_million_messages().values())
    computed = invocations * INVOCATION_S * INVOCATION_GB * PRICES_USD["lambda: a GB-second on arm64"]
    return small / 1e6 + computed + used.dpu_hours * PRICES_USD["glue: a DPU-hour"]
