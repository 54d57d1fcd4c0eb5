"""What a member of a pull group costs in a month without a message: ``python -m tests.benchmarks.member_bill``.

Computed from template.yaml and the one table of prices (`local.rules.limits`), without any free tier.
"""

from pathlib import Path

from tagcast.membership import HEARTBEAT_S

from local.rules.limits import PRICES_USD
from local.template.translated import Template, read_template

ROOT = Path(__file__).resolve().parents[2]
MONTH_S = 30 * 86_400
REQUEST_S = 0.05
"""What an invocation takes that waits for nothing but the tables."""
HEARTBEAT_READS, HEARTBEAT_WRITES = 3, 1
PULL_READS = 3
"""The group, the lane, the member."""
WAIT_READS, WAIT_WRITES = 1, 2
"""A place is taken and left; who waits has looked into the queue before."""
WAYS = {"waits for 20 s": (20.0, 0.0), "asks every 2 s": (0.0, 2.0), "asks every 10 s": (0.0, 10.0)}
"""How a consumer may pull: `wait_seconds` and `pull_interval_seconds` of its options."""


def usd(price: str, count: float) -> float:
    """Return what *count* of something cost whose price is for a million."""
    return PRICES_USD[price] * count / 1e6


def requests(template: Template, function: str, count: float, seconds: float, reads: int, writes: int) -> float:
    """Return what *count* requests to a function cost that take so long each."""
    gigabytes = int(template.resources[function]["Properties"]["MemorySize"]) / 1024
    return (
        usd("api gateway: a million requests of an HTTP API", count)
        + usd("lambda: a million requests", count)
        + count * seconds * gigabytes * PRICES_USD["lambda: a GB-second on arm64"]
        + usd("dynamodb: a million read request units", count * reads)
        + usd("dynamodb: a million write request units", count * writes)
    )


def heartbeats(template: Template) -> float:
    """Return what the heartbeats of a month cost."""
    beats = MONTH_S / HEARTBEAT_S
    return requests(template, "ManageFunction", beats, REQUEST_S, HEARTBEAT_READS, HEARTBEAT_WRITES)


def pulls(template: Template, wait_s: float, interval_s: float) -> float:
    """Return what the pulls of a month cost that find nothing."""
    count = MONTH_S / (wait_s + interval_s + REQUEST_S)
    looks, reads, writes = (2, PULL_READS + WAIT_READS, WAIT_WRITES) if wait_s else (1, PULL_READS, 0)
    polling = usd("sqs: a million standard requests of 64 KiB", count * looks)
    return polling + requests(template, "PullFunction", count, wait_s + REQUEST_S, reads, writes)


def bill(template: Template) -> dict[str, float]:
    """Return each item in USD a month."""
    return {"heartbeats": heartbeats(template), **{way: pulls(template, *how) for way, how in WAYS.items()}}


def main() -> None:
    for item, price in bill(read_template(ROOT / "template.yaml")).items():
        print(f"{item:16} {price:6.2f} USD")


if __name__ == "__main__":
    main()
