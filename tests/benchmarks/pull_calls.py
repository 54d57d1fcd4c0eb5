"""AWS calls per message of a pull group, counted at the SDK: ``python -m tests.benchmarks.pull_calls``.

Messages of 1 KiB to one subscription, on simulated tables: pushed to, for comparison, or a group whose members pull and
acknowledge so many at once; then the relay hears of the ends, and lets the messages go. Beside them what the same calls
cost per million messages, as `local.rules.limits` knows the prices, and what SQS alone would. Then the table writes of
a topic that keeps bodies for life, and there of a group that is made afterwards and consumes from the earliest. Counts
do not depend on the machine.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tagcast.delivery.publishing import publish
from tagcast.model import Draft, Keep
from tagcast.ports import Table
from tagcast.repairing.relay import EndedDelivery, relay
from tagcast.rows import stored
from tagcast_aws import wiring
from tagcast_aws.dispatch.group_queues import SqsGroupQueues
from tagcast_aws.dispatch.queue import SqsQueue
from tagcast_aws.store.dynamodb import DynamoStore

from functions.fan_out import app as fan_out
from tests.aws.account import furnished
from tests.aws.limits import READ_UNIT_BYTES, STALE_MS
from tests.aws.prices import PRICES_USD
from tests.aws.solo_timeline import SoloTimeline
from tests.aws.stack import deployed
from tests.aws.wire import wired
from tests.benchmarks.ratios import print_heading
from tests.fakes.handlers import answered
from tests.fakes.queue_records import in_one_order
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FakeWorld
from tests.item_size import item_size

MESSAGES, BATCH, BODY = 60, 10, b"x" * 1024
PULLED_AT_ONCE = (1, 10, 32)
WRITES_MORE_MAX = 2.0
"""So many table writes a pulled message may take more than one that is pushed: its end, and that it is let go."""
GROUP = "/topics/test1/subscriptions/g"
DAY_S = 86_400


class Counted:
    """A world with both tables and the FIFO queue behind real clients, whose calls count; all else in it is fake."""

    def __init__(self, keep: Keep = Keep.PENDING) -> None:
        stack, self.timeline = deployed(), SoloTimeline()
        box, queue_url = furnished(stack, self.timeline), stack.reference("DeliveryQueue")
        dynamodb, sqs = wired(box, "dynamodb"), wired(box, "sqs")
        names = {Table.REGISTRY: stack.name_of("RegistryTable"), Table.MESSAGES: stack.name_of("MessagesTable")}
        self.fake = FakeWorld()
        self.fake.world = self.world = replace(
            self.fake.world,
            store=DynamoStore(dynamodb, names),
            queue=SqsQueue(sqs, queue_url, wiring.logger()),
            group_queues=SqsGroupQueues(sqs, lambda: sqs, queue_url, "g-", wiring.logger()),
        )
        self.fake.topic(keep=keep)
        self.is_counting = True
        self._counts: Counter[str] = Counter()
        for client in (dynamodb, sqs):
            client.meta.events.register("before-call", self._before)
            client.meta.events.register("after-call", self._after)

    def per_message(self) -> dict[str, float]:
        """Return what one message asked for; what a transaction writes counts twice, as it costs."""
        return {name: count / MESSAGES for name, count in self._counts.items()}

    def deliver(self) -> list[str]:
        """Publish ten at a time, and deliver ten at a time."""
        self._counts.clear()
        ids: list[str] = []
        for _ in range(0, MESSAGES, BATCH):
            accepted = [each.message_id for each in publish(self.world, "test1", [Draft(BODY)] * BATCH)]
            assert asyncio.run(fan_out.handle(in_one_order(accepted), self.world)) == {"batchItemFailures": []}
            ids += accepted
        return ids

    def check_bodies_are_gone(self, ids: list[str]) -> None:
        self.is_counting = False
        assert not any(row.has_body for row in stored.messages(self.world.store, "test1", ids).values())

    def _before(self, model: Any, params: Mapping[str, Any], **_: Any) -> None:
        if not self.is_counting:
            return
        sent = json.loads(params["body"]) if isinstance(params.get("body"), (str, bytes)) else {}
        match model.name:
            case "PutItem" | "UpdateItem" | "DeleteItem":
                self._counts["table writes"] += 1
            case "BatchExecuteStatement":
                self._counts["table writes"] += len(sent["Statements"])
            case "TransactWriteItems":
                self._counts["table writes"] += 2 * len(sent["TransactItems"])
            case "SendMessage" | "SendMessageBatch" | "ReceiveMessage" | "DeleteMessageBatch":
                self._counts["queue requests"] += 1

    def _after(self, model: Any, parsed: Mapping[str, Any], **_: Any) -> None:
        if not self.is_counting:
            return
        match model.name:
            case "GetItem":
                self._counts["read units"] += units(item_size(parsed.get("Item", {})))
            case "BatchGetItem":
                items = [item for table in parsed["Responses"].values() for item in table]
                self._counts["read units"] += sum(units(item_size(item)) for item in items)
            case "Query":
                self._counts["read units"] += units(sum(map(item_size, parsed["Items"])))


def units(size: int) -> int:
    """Read units of a strongly consistent read; what is not there costs one, too."""
    return max(1, math.ceil(size / READ_UNIT_BYTES))


def measure(at_once: int | None, *, ordered: bool = False) -> Counted:
    """Deliver, and pull *at_once* (None: it is pushed); return what was counted.

    All messages are of one order: to the queue of a group that is *ordered* they go one a request.
    """
    counted = Counted()
    if at_once is None:
        counted.fake.subscribe("g")
    else:
        counted.fake.group("g", ordered=ordered)
    ids = counted.deliver()
    if at_once is not None:
        assert _pulled_and_acknowledged(counted, at_once) == MESSAGES
        relay(counted.world, [EndedDelivery("test1", each) for each in ids])
    counted.check_bodies_are_gone(ids)
    return counted


def _pulled_and_acknowledged(counted: Counted, at_once: int) -> int:
    done = 0
    while done < MESSAGES:
        pulled = _asked(counted, "pull", {"max_messages": at_once})["messages"]
        handles = [each["receipt_handle"] for each in pulled]
        results = _asked(counted, "ack", {"receipt_handles": handles})["results"]
        assert {each["status"] for each in results} == {"acknowledged"}
        done += len(pulled)
    return done


def _asked(counted: Counted, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answered(counted.world, "POST", f"{GROUP}/{verb}", json.dumps(body))["body"])
    return found


def writes_for_life(keep: Keep, *, is_late: bool = False) -> float:
    """Deliver to one that is pushed to, with *is_late* let a new group have everything; then let the lives end."""
    counted = Counted(keep)
    fake = counted.fake
    fake.subscribe("pushed")
    ids = counted.deliver()
    if is_late:
        counted.is_counting = False
        group = fake.group("late", start_from=0)
        counted.is_counting = True
        fake.run_workflows(fake.clock.now() + 300_000)
        rows = [whole_message(counted.world.store, "test1", each) for each in ids]
        assert all(row is not None and group.ordinal in row.map.enqueued for row in rows)
    fake.clock.sleep(2 * DAY_S)
    counted.timeline.spend(STALE_MS + 1)
    fake.sweep()
    counted.check_bodies_are_gone(ids)
    return counted.per_message()["table writes"]


def usd_per_million(counted: Counted) -> float:
    """Return what the tables and queues of a million messages cost; API requests and Lambda's time come on top."""
    found = counted.per_message()
    return (
        found["table writes"] * PRICES_USD["dynamodb: a million write request units"]
        + found["read units"] * PRICES_USD["dynamodb: a million read request units"]
        + found["queue requests"] * PRICES_USD["sqs: a million standard requests of 64 KiB"]
    )


def main() -> None:
    """Print the tables; exit with a fault when a pull takes more writes than it may."""
    counts = {"pushed": measure(None)} | {f"{n} a pull": measure(n) for n in PULLED_AT_ONCE}
    counts["10 a pull, one order"] = measure(10, ordered=True)
    print(f"{MESSAGES} messages of 1 KiB to one subscription; per message\n")
    print_heading("what", *counts)
    for name in ("table writes", "read units", "queue requests"):
        print(f"| {name} | {' | '.join(f'{each.per_message()[name]:.2f}' for each in counts.values())} |")
    usd = [f"{usd_per_million(each):.2f}" for each in counts.values()]
    print(f"| USD a million, tables and queues | {' | '.join(usd)} |")
    sqs = PRICES_USD["sqs: a million standard requests of 64 KiB"]
    print(f"\nSQS alone, ten a request: {3 * sqs / 10:.2f} USD a million; one a request: {3 * sqs:.2f}\n")
    print_heading("one that is pushed to, over", "table writes")
    life = writes_for_life(Keep.LIFE)
    print(f"| keep: pending | {writes_for_life(Keep.PENDING):.2f} |\n| keep: life | {life:.2f} |")
    late = writes_for_life(Keep.LIFE, is_late=True)
    print(f"| more of a late entry, from the look for it to its end | {late - life:.2f} |")
    written = {name: each.per_message()["table writes"] for name, each in counts.items()}
    more = max(written.values()) - written["pushed"]
    raise SystemExit(f"{more:.2f} writes more than a push" if more > WRITES_MORE_MAX + 1e-9 else 0)


if __name__ == "__main__":
    main()
