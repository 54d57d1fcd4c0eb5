"""The cost of messages at AWS, from the design and list prices: an estimate, never a bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tagcast.repairing.search import EVERY_S
from tagcast.rows.message import GARBAGE_S
from tagcast.sealing.secrets import OPENED_S
from tagcast_aws.store.signing_key import SIGNING_KEY_KEPT_S

from local.rules.limits import KEY_READ_UNITS, PRICES_USD, READ_UNIT_BYTES, TTL_LATE_S

MONTH_S = 30 * 86_400
OF_A_MESSAGE: Mapping[str, tuple[float, str]] = {
    "HTTP API request": (1.0, "api gateway: a million requests of an HTTP API"),
    "table writes": (2.0, "dynamodb: a million write request units"),
    "table read units": (3.0, "dynamodb: a million read request units"),
    "FIFO queue requests": (1.3, "sqs: a million FIFO requests of 64 KiB"),
}
"""The operations of a message of up to 1 KB to up to 3 subscribers: their number, and their price per million."""
ARCHIVED_BYTES = 1_200
"""The size of one message's archive records."""
TRANSITIONS_OF_A_RETRY = 3


def usd_of_a_million_messages() -> dict[str, float]:
    """Return the cost of a million messages, by item.

    >>> round(sum(usd_of_a_million_messages().values()), 2)
    3.68
    """
    found = {name: count * PRICES_USD[price] for name, (count, price) in OF_A_MESSAGE.items()}
    archive = ARCHIVED_BYTES / 1000 * PRICES_USD["firehose: a GB"]
    return {**found, "archive": archive, "search": search_pass(0).usd_a_million}


class SearchPass(NamedTuple):
    """One pass of the search: bytes read, duration, and cost per million messages."""

    gigabytes: float
    hours: float
    usd_a_million: float


SWEPT_SHARE = 210 / 300
"""A sweep begins every 300 s and works for at most 210 s."""


def search_pass(messages_per_s: float, row_bytes: int = 1024) -> SearchPass:
    """Return the worst-case pass over the table, after a week at this message rate.

    A row stays for a day of retention, three more days, and DynamoDB's delay of deletion. A scan reads one partition
    after another. A partition allows 3,000 read units a second; 4 KB cost half a unit.

    >>> for rate in (100, 1_000, 5_000):
    ...     print(*(f"{each:.2f}" for each in search_pass(rate)))
    53.08 0.86 0.38
    530.84 8.57 0.26
    2654.21 42.86 0.05
    """
    kept_s = 86_400 + GARBAGE_S + TTL_LATE_S
    size = messages_per_s * kept_s * row_bytes
    pass_s = size / (KEY_READ_UNITS * 2 * READ_UNIT_BYTES * SWEPT_SHARE)
    passes = kept_s / max(pass_s, EVERY_S)
    units = passes * row_bytes / (2 * READ_UNIT_BYTES)
    return SearchPass(size / 1e9, pass_s / 3_600, units * PRICES_USD["dynamodb: a million read request units"])


def usd_of_keys(processes: float) -> tuple[float, float]:
    """Return the cost per month of decrypted secrets and signature seeds for this many constantly pushing processes.

    Each process decrypts up to 4 KB of secrets per request, and again when its cache expires.

    >>> [round(usd, 2) for usd in usd_of_keys(100)]
    [0.86, 4.32]
    """
    opened, read = (processes * MONTH_S / kept_s for kept_s in (OPENED_S, SIGNING_KEY_KEPT_S))
    return (
        opened / 1e4 * PRICES_USD["kms: ten thousand requests"],
        read / 1e4 * PRICES_USD["secretsmanager: ten thousand requests"],
    )


def usd_a_month(messages_per_s: float, retries_per_s: float) -> tuple[float, float]:
    """Return the cost per month of messages and retries at these rates.

    >>> [round(usd, 2) for usd in usd_a_month(10.0, 0.1)]
    [95.51, 19.44]
    """
    million = sum(usd_of_a_million_messages().values())
    transitions = TRANSITIONS_OF_A_RETRY * PRICES_USD["stepfunctions: a million transitions"]
    return messages_per_s * MONTH_S / 1e6 * million, retries_per_s * MONTH_S / 1e6 * transitions


@dataclass
class SmokeTest:
    """The usage of a smoke test: its own requests and the service's work for them."""

    requests: int = 0
    messages: int = 0
    pushes: int = 0
    queue_requests: int = 0
    dpu_hours: float = 0.0


INVOCATION_S, INVOCATION_GB = 1.0, 1.769
"""Upper bounds of an invocation's duration and memory, so that the estimate is high."""


def usd_of_smoke_test(used: SmokeTest) -> float:
    """Return the maximal cost of a smoke test without a free tier.

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
