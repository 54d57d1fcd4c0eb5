"""AWS calls per message of a pull group, counted at the SDK: ``python -m tests.benchmarks.pull_calls``.

Messages of 1 KiB to one subscription, on simulated tables: pushed to, for comparison, or a group whose members pull and
acknowledge so many at once; then the relay hears of the ends, and lets the messages go. Beside them what the same calls
cost per million messages, as `local.rules.limits` knows the prices, and what SQS alone would. Counts do not depend on
the machine.
"""

import asyncio
import json
from typing import Any

from tagcast.delivery.publishing import publish
from tagcast.model import Draft
from tagcast.repairing.relay import EndArrival, relay
from tagcast.rows import stored

from functions.fan_out import app as fan_out
from local.rules.limits import PRICES_USD
from tests.benchmarks.calls import BATCH, BODY, Meter
from tests.benchmarks.counted_world import counted_world
from tests.benchmarks.harness import print_heading
from tests.fakes.handlers import answered
from tests.fakes.queue_records import in_one_order

MESSAGES = 60
PULLED_AT_ONCE = (1, 10, 32)
WRITES_MORE_MAX = 2.0
"""So many table writes a pulled message may take more than one that is pushed: its end, and that it is let go."""
GROUP = "/topics/test1/subscriptions/g"


def measure(at_once: int | None, *, ordered: bool = False) -> Meter:
    """Publish ten at a time, deliver ten at a time, pull *at_once* (None: it is pushed); return what was counted.

    All messages are of one order: to the queue of a group that is *ordered* they go one a request.
    """
    meter = Meter()
    counted = counted_world()
    fake, world = counted.fake, counted.fake.world
    fake.topic()
    if at_once is None:
        fake.subscribe("g")
    else:
        fake.group("g", ordered=ordered)
    for client in (counted.dynamodb, counted.sqs):
        meter.watch(client)
    ids: list[str] = []
    for _ in range(0, MESSAGES, BATCH):
        meter.phase = "publish"
        accepted = publish(world, "test1", [Draft(BODY)] * BATCH)
        meter.phase = "fan_out"
        batch = in_one_order(each.message_id for each in accepted)
        assert asyncio.run(fan_out.handle(batch, world)) == {"batchItemFailures": []}
        ids += [each.message_id for each in accepted]
    if at_once is not None:
        assert _pulled_and_acknowledged(world, meter, at_once) == MESSAGES
        meter.phase = "relay"
        relay(world, [EndArrival("test1", each) for each in ids])
    meter.phase = "setup"
    assert not any(row.has_body for row in stored.messages(world.store, "test1", ids).values())
    return meter


def _pulled_and_acknowledged(world: Any, meter: Meter, at_once: int) -> int:
    done = 0
    meter.phase = "pull"
    while done < MESSAGES:
        pulled = _asked(world, "pull", {"max_messages": at_once})["messages"]
        handles = [each["receipt_handle"] for each in pulled]
        results = _asked(world, "ack", {"receipt_handles": handles})["results"]
        assert {each["status"] for each in results} == {"acknowledged"}
        done += len(pulled)
    return done


def _asked(world: Any, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answered(world, "POST", f"{GROUP}/{verb}", json.dumps(body))["body"])
    return found


def per_message(meter: Meter) -> dict[str, float]:
    """Return what one message asked for."""
    return {name: count / MESSAGES for name, count in meter.budgeted.items()}


def usd_per_million(meter: Meter) -> float:
    """Return what the tables and queues of a million messages cost; API requests and Lambda's time come on top."""
    found = per_message(meter)
    return (
        found["table writes"] * PRICES_USD["dynamodb: a million write request units"]
        + found["read units"] * PRICES_USD["dynamodb: a million read request units"]
        + found["queue requests"] * PRICES_USD["sqs: a million standard requests of 64 KiB"]
    )


def main() -> None:
    """Print the table; exit with a fault when a pull takes more writes than it may."""
    meters = {"pushed": measure(None)} | {f"{n} a pull": measure(n) for n in PULLED_AT_ONCE}
    meters["10 a pull, one order"] = measure(10, ordered=True)
    print(f"{MESSAGES} messages of 1 KiB to one subscription; per message\n")
    print_heading("what", *meters)
    for name in ("table writes", "read units", "queue requests"):
        print(f"| {name} | {' | '.join(f'{per_message(meter)[name]:.2f}' for meter in meters.values())} |")
    print(f"| USD a million, tables and queues | {' | '.join(f'{usd_per_million(m):.2f}' for m in meters.values())} |")
    sqs = PRICES_USD["sqs: a million standard requests of 64 KiB"]
    print(f"\nSQS alone, ten a request: {3 * sqs / 10:.2f} USD a million; one a request: {3 * sqs:.2f}")
    written = {name: per_message(meter)["table writes"] for name, meter in meters.items()}
    more = max(written.values()) - written["pushed"]
    raise SystemExit(f"{more:.2f} writes more than a push" if more > WRITES_MORE_MAX + 1e-9 else 0)


if __name__ == "__main__":
    main()
