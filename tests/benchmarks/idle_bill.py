"""What the service and a member of a group cost in a month without a message: `python -m tests.benchmarks.idle_bill`.

Computed from template.yaml and the one table of prices (`tests.aws.prices`), without any free tier. Storage of what
was kept earlier, and the few megabytes of logs, are left out.
"""

import re
import sys
from pathlib import Path
from typing import Any

from tagcast.membership import HEARTBEAT_S
from tagcast.rows.lane import WAKE_SHARDS

from local.template.translated import Template, read_template
from tests.aws.limits import QUEUE_POLL_S, QUEUE_POLLERS
from tests.aws.prices import PRICES_USD

ROOT = Path(__file__).resolve().parents[2]
DAYS = 30
MONTH_S = DAYS * 86_400
SWEEP_S = 1.0
"""A sweep that finds nothing takes less, cold starts included; so does the archive that is invoked by its row."""
JOB_MINUTES = 2
"""A job over an empty day; Glue bills a minute at least."""
BUDGET_USD = 12.0
REQUEST_S = 0.05
"""What an invocation takes that waits for nothing but the tables."""
HEARTBEAT_READS, HEARTBEAT_WRITES = 3, 1
PULL_READS = 3
"""The group, the lane, the member."""
WAIT_READS, WAIT_WRITES = 1, 2
"""A place is taken and left; who waits has looked into the queue before."""
WAYS = {"waits for 20 s": (20.0, 0.0), "asks every 2 s": (0.0, 2.0), "asks every 10 s": (0.0, 10.0)}
"""How a consumer may pull: `wait_seconds` and `pull_interval_seconds` of its options."""


def bill(template: Template) -> dict[str, float]:
    """Every item of the bill in USD a month."""
    sweeps = MONTH_S / _sweep_every_s(template)
    sweep, archive = (template.resources[name]["Properties"] for name in ("SweepFunction", "ArchiveFunction"))
    gigabytes = sum(int(each["MemorySize"]) for each in (sweep, archive)) / 1024
    return {
        "alarms": _count(template, "AWS::CloudWatch::Alarm") * PRICES_USD["cloudwatch: an alarm and month"],
        "dashboard": _count(template, "AWS::CloudWatch::Dashboard") * PRICES_USD["cloudwatch: a dashboard and month"],
        "metrics of sweep": len(_metrics_of_sweep()) * PRICES_USD["cloudwatch: a metric and month"],
        "pollers of the queue": _queues(template)
        * QUEUE_POLLERS
        * (MONTH_S / QUEUE_POLL_S)
        / 1e6
        * PRICES_USD["sqs: a million FIFO requests of 64 KiB"],
        "sweep": sweeps
        * (
            2 * PRICES_USD["lambda: a million requests"] / 1e6
            + SWEEP_S * gigabytes * PRICES_USD["lambda: a GB-second on arm64"]
            + (WAKE_SHARDS + 4) * PRICES_USD["dynamodb: a million read request units"] / 1e6
            + 2 * _is_traced(template) * PRICES_USD["x-ray: a million traces"] / 1e6
        ),
        "keys": _count(template, "AWS::KMS::Key") * PRICES_USD["kms: a key and month"]
        + _count(template, "AWS::SecretsManager::Secret") * PRICES_USD["secretsmanager: a secret and month"],
        "nightly jobs": DAYS * _nightly_workers(template) * JOB_MINUTES / 60 * PRICES_USD["glue: a DPU-hour"],
    }


def _count(template: Template, kind: str) -> int:
    return sum(1 for _ in template.of_type(kind))


def _queues(template: Template) -> int:
    """Lambda's own polling of streams costs nothing."""
    return sum(1 for source in template.sources() if not source.of_stream)


def _sweep_every_s(template: Template) -> int:
    rules = [rule for _, rule in template.of_type("AWS::Events::Rule") if "ScheduleExpression" in rule]
    minutes = re.fullmatch(r"rate\((\d+) minutes\)", rules[0]["ScheduleExpression"])
    assert minutes is not None
    return 60 * int(minutes[1])


def _is_traced(template: Template) -> bool:
    """Say whether X-Ray gets traces without anybody's wish."""
    return bool(template.parameters["Tracing"]["Default"] == "Active")


def _metrics_of_sweep() -> set[str]:
    """The names of metrics that the handler writes out."""
    return set(re.findall(r'name="(\w+)"', (ROOT / "functions" / "sweep" / "app.py").read_text()))


def nightly_jobs(template: Template) -> list[str]:
    """The logical ids of the jobs that run without anybody asking, as the parameters are at first."""
    return [
        action["JobName"]["Ref"]
        for name, trigger in template.of_type("AWS::Glue::Trigger")
        if trigger["StartOnCreation"] and "Condition" not in template.resources[name]
        for action in trigger["Actions"]
    ]


def _nightly_workers(template: Template) -> int:
    defaults = {name: spec.get("Default") for name, spec in template.parameters.items()}

    def value(given: Any) -> Any:
        return defaults[given["Ref"]] if isinstance(given, dict) else given

    jobs = [template.resources[job]["Properties"] for job in nightly_jobs(template)]
    assert {value(job["WorkerType"]) for job in jobs} <= {"G.1X"}, "a worker of another type is more than one DPU"
    return sum(int(value(job["NumberOfWorkers"])) for job in jobs)


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


def member_bill(template: Template) -> dict[str, float]:
    """Return what a member of a pull group costs without a message, each item in USD a month."""
    return {"heartbeats": heartbeats(template), **{way: pulls(template, *how) for way, how in WAYS.items()}}


def main() -> int:
    """Print the bills; a service above its budget is a failure."""
    template = read_template(ROOT / "template.yaml")
    items = bill(template)
    for name, usd in items.items():
        print(f"{name:<24}{usd:8.2f} USD a month")
    total = sum(items.values())
    print(f"{'in all':<24}{total:8.2f} USD a month (budget {BUDGET_USD})")
    for name, price in member_bill(template).items():
        print(f"a member of a group, {name:<20}{price:8.2f} USD a month")
    return int(total > BUDGET_USD)


if __name__ == "__main__":
    sys.exit(main())
