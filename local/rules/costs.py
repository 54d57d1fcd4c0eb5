"""What messages cost at AWS, by the design and the list prices: an estimate, never a bill."""

from __future__ import annotations

from collections.abc import Mapping

from local.rules.limits import PRICES_USD

MONTH_S = 30 * 86_400
OF_A_MESSAGE: Mapping[str, tuple[float, str]] = {
    "HTTP API request": (1.0, "api gateway: a million requests of an HTTP API"),
    "table writes": (2.0, "dynamodb: a million write request units"),
    "table read units": (3.0, "dynamodb: a million read request units"),
    "FIFO queue requests": (1.3, "sqs: a million FIFO requests of 64 KiB"),
}
"""What a message of up to 1 KB to up to 3 subscribers asks for, how often, and which price that has for a million."""
ARCHIVED_BYTES = 1_200
"""Of the archive's records of one message."""
TRANSITIONS_OF_A_RETRY = 3


def usd_of_a_million_messages() -> dict[str, float]:
    """Return what a million messages cost, by item.

    >>> round(sum(usd_of_a_million_messages().values()), 2)
    3.31
    """
    found = {name: count * PRICES_USD[price] for name, (count, price) in OF_A_MESSAGE.items()}
    return {**found, "archive": ARCHIVED_BYTES / 1000 * PRICES_USD["firehose: a GB"]}


def usd_a_month(messages_per_s: float, retries_per_s: float) -> tuple[float, float]:
    """Return what messages and retries cost in a month at such a pace.

    >>> [round(usd, 2) for usd in usd_a_month(10.0, 0.1)]
    [85.79, 19.44]
    """
    million = sum(usd_of_a_million_messages().values())
    transitions = TRANSITIONS_OF_A_RETRY * PRICES_USD["stepfunctions: a million transitions"]
    return messages_per_s * MONTH_S / 1e6 * million, retries_per_s * MONTH_S / 1e6 * transitions
