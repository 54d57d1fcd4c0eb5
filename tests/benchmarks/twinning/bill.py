"""What a play costs at list prices, for a million messages, by line; no free tier, nothing that is paid by the month.

Left out as in the prices of SNS that it is compared with: bytes that leave for the internet. Left out since they round
to nothing: storage of rows and logs, and puts of Firehose's own objects.
"""

from typing import NamedTuple

from tagcast.repairing.search import EVERY_S
from tagcast.rows.message import GARBAGE_S

from local.rules.costs import ROW_BYTES
from local.rules.limits import READ_UNIT_BYTES, TTL_LATE_S
from tests.aws.limits import FIFO_SOURCE_BATCH_MAX, KEY_READ_UNITS, LAMBDA_FULL_CPU_MB, XRAY_SAMPLED
from tests.aws.prices import PRICES_USD
from tests.benchmarks.twinning.meter import ACCESS_LINE_BYTES, PLATFORM_LINES_BYTES, Usage

MILLION = 1_000_000
GIGABYTE = 1_000_000_000
MB_MS_USD = PRICES_USD["lambda: a GB-second on arm64"] / 1024 / 1000
STATES_OF_A_RETRY = 3
POLLS_OF_A_BATCH = 2
"""One receives it, one deletes it."""
SENDS = ("SendMessage", "SendMessageBatch")
QUEUE = (*SENDS, "ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")


def usd_of(usage: Usage, messages: int) -> dict[str, float]:
    """Return the bill of a million messages, by line, in USD.

    >>> usage = Usage(api_requests=10, traceable=10)
    >>> usage.invocations["publish"] = 10
    >>> {line: round(usd, 3) for line, usd in usd_of(usage, 10).items() if usd}
    {'HTTP API': 1.0, 'Lambda: requests': 0.2, 'logs': 0.115, 'traces': 0.25}
    """
    invocations = sum(usage.invocations.values())
    lines = {
        "HTTP API": usage.api_requests * _price("api gateway: a million requests of an HTTP API"),
        "Lambda: requests": invocations * _price("lambda: a million requests"),
        **{f"Lambda: {kind}": mb_ms * MB_MS_USD for kind, mb_ms in sorted(usage.billed_mb_ms.items())},
        "table writes": usage.units["write"] * _price("dynamodb: a million write request units"),
        "table reads": usage.units["read"] * _price("dynamodb: a million read request units"),
        "queue requests": usage.of(*QUEUE) * _price("sqs: a million FIFO requests of 64 KiB"),
        "workflow": usage.invocations["retry"] * STATES_OF_A_RETRY * _price("stepfunctions: a million transitions"),
        "archive": usage.firehose_bytes / GIGABYTE * PRICES_USD["firehose: a GB"],
        "logs": _logged(usage) / GIGABYTE * PRICES_USD["cloudwatch: a GB of logs"],
        "traces": XRAY_SAMPLED * usage.traceable * _price("x-ray: a million traces"),
    }
    return {line: usd * MILLION / messages for line, usd in lines.items()}


def savings_of(usage: Usage, messages: int) -> dict[str, float]:
    """Return what each step would save of that bill, in USD a million messages."""
    topics_row = sum(usage.calls[kind, "GetItem"] for kind in ("publish", "fan_out", "relay"))
    platform_bytes = usage.platform_lines * PLATFORM_LINES_BYTES
    told = sum(usage.log_bytes.values()) - platform_bytes
    steps = {
        "function URL instead of the HTTP API": usage.api_requests
        * (
            _price("api gateway: a million requests of an HTTP API")
            + ACCESS_LINE_BYTES / GIGABYTE * PRICES_USD["cloudwatch: a GB of logs"]
        ),
        "the topic's row never read": topics_row * _price("dynamodb: a million read request units"),
        "no repetition of sends by the relay": sum(usage.calls["relay", send] for send in SENDS)
        * _price("sqs: a million FIFO requests of 64 KiB"),
        "no log lines of our own, nor metrics": told / GIGABYTE * PRICES_USD["cloudwatch: a GB of logs"],
        "no log lines of Lambda's own": platform_bytes / GIGABYTE * PRICES_USD["cloudwatch: a GB of logs"],
        "ten messages in each batch of fan_out": _partly_filled(usage, messages),
        "half the memory for fan_out": _waiting_mb_ms(usage) / 2 * MB_MS_USD,
    }
    return {step: usd * MILLION / messages for step, usd in steps.items()}


def _partly_filled(usage: Usage, messages: int) -> float:
    """Return the USD of polls and invocations that there would not be if no batch had less than ten messages."""
    batches = messages / FIFO_SOURCE_BATCH_MAX
    polls = sum(count for (kind, _), count in usage.calls.items() if kind == "poll")
    saved = (polls - POLLS_OF_A_BATCH * batches) * _price("sqs: a million FIFO requests of 64 KiB")
    return max(0.0, saved + (usage.invocations["fan_out"] - batches) * _price("lambda: a million requests"))


def _price(name: str) -> float:
    return PRICES_USD[name] / MILLION


def _waiting_mb_ms(usage: Usage) -> float:
    """Return what of fan_out's bill is for waiting: computing costs the same with any memory below a processor."""
    return max(0.0, usage.billed_mb_ms["fan_out"] - LAMBDA_FULL_CPU_MB * usage.cpu_ms["fan_out"])


def _logged(usage: Usage) -> float:
    return sum(usage.log_bytes.values()) + usage.api_requests * ACCESS_LINE_BYTES


class SearchPass(NamedTuple):
    """One pass of the search: bytes read, duration, and cost per million messages."""

    gigabytes: float
    hours: float
    usd_a_million: float


SWEPT_SHARE = 210 / 300
"""A sweep begins every 300 s and works for at most 210 s."""


def search_pass(messages_per_s: float, row_bytes: int = ROW_BYTES) -> SearchPass:
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
