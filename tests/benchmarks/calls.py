"""AWS calls per message, counted at the SDK: ``python -m tests.benchmarks.calls``.

Messages of 1 KiB to 3 subscribers, on tables that are simulated: published one by one or by the batch route, sent
again by the relay, taken from the queue in batches of 10 as Lambda takes them, and pushed to endpoints that succeed.
What Lambda's poller asks of the queue, one receive and one delete a batch, is counted too. Counts do not depend on the
machine.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tagcast.delivery.publishing import publish
from tagcast.model import Draft
from tagcast.ports import World
from tagcast.repairing.relay import relay
from tagcast.rows.claim import Accepted
from tagcast.rows.keys import message_key
from tagcast.rows.message import MESSAGES as MESSAGE_ROWS
from tagcast.rows.message import MessageRow
from tagcast_aws import wiring
from tagcast_aws.dispatch.workflow import StepFunctionsWorkflow

from functions.fan_out import app as fan_out
from tests.benchmarks.counted_world import counted_world
from tests.benchmarks.harness import print_heading
from tests.item_size import item_size

MESSAGES, BATCH, BODY = 300, 10, b"x" * 1024
READ_UNIT = 4096
BUDGETS = {"table writes": 2.0, "read units": 3.0, "queue requests": 1.3, "workflow starts": 0.0}


def units(size: int) -> int:
    """Read units of a strongly consistent read; what is not there costs one, too."""
    return max(1, math.ceil(size / READ_UNIT))


@dataclass
class Meter:
    """Counts what the clients of one phase ask of AWS."""

    phase: str = "setup"
    calls: dict[str, Counter[str]] = field(default_factory=dict)
    budgeted: Counter[str] = field(default_factory=Counter)

    def watch(self, client: Any) -> None:
        client.meta.events.register("before-call", self.before)
        client.meta.events.register("after-call", self.after)

    def before(self, model: Any, params: Mapping[str, Any], **_: Any) -> None:
        self.calls.setdefault(self.phase, Counter())[model.name] += 1
        if self.phase == "setup":
            return
        sent = json.loads(params["body"]) if isinstance(params.get("body"), (str, bytes)) else {}
        match model.name:
            case "PutItem" | "UpdateItem" | "DeleteItem":
                self.budgeted["table writes"] += 1
            case "BatchExecuteStatement":
                self.budgeted["table writes"] += len(sent["Statements"])
            case "TransactWriteItems":
                self.budgeted["table writes"] += 2 * len(sent["TransactItems"])
            case "SendMessage" | "SendMessageBatch" | "ReceiveMessage" | "DeleteMessageBatch":
                self.budgeted["queue requests"] += 1
            case "StartExecution":
                self.budgeted["workflow starts"] += 1

    def after(self, model: Any, parsed: Mapping[str, Any], **_: Any) -> None:
        if self.phase == "setup":
            return
        match model.name:
            case "GetItem":
                self.budgeted["read units"] += units(item_size(parsed.get("Item", {})))
            case "BatchGetItem":
                items = [item for table in parsed["Responses"].values() for item in table]
                self.budgeted["read units"] += sum(units(item_size(item)) for item in items)
            case "Query":
                self.budgeted["read units"] += units(sum(map(item_size, parsed["Items"])))

    def per_message(self) -> dict[str, float]:
        return {name: self.budgeted[name] / MESSAGES for name in BUDGETS}


def arrival_of(world: World, message_id: str) -> MessageRow:
    """The message as the relay reads it from the stream, which costs no call."""
    row = world.store.get(message_key("test1", message_id))
    assert row is not None
    return MESSAGE_ROWS.value_of(row)


def measure(at_once: int, messages: int = MESSAGES) -> Meter:
    """Publish *messages*, so many by one request, deliver them ten by ten; return what was counted."""
    meter = Meter()
    counted = counted_world()
    fake, sqs = counted.fake, counted.sqs
    workflow = StepFunctionsWorkflow(counted.stepfunctions, "arn:aws:states:::none", wiring.logger())
    fake.world = world = replace(fake.world, workflow=workflow)
    fake.topic()
    for name in "ABC":
        fake.subscribe(name)
    for client in (counted.dynamodb, sqs, counted.stepfunctions):
        meter.watch(client)

    for _ in range(0, messages, BATCH):
        meter.phase = "publish"
        accepted: list[Accepted] = []
        for _ in range(0, BATCH, at_once):
            accepted += publish(world, "test1", [Draft(BODY, tags=("apple",))] * at_once)
        meter.phase = "setup"
        arrivals = [arrival_of(world, one.message_id) for one in accepted]
        meter.phase = "relay"
        relay(world, arrivals)
        meter.phase = "poll"
        taken = sqs.receive_message(
            QueueUrl=counted.queue_url, MaxNumberOfMessages=BATCH, MessageSystemAttributeNames=["All"]
        )["Messages"]
        meter.phase = "fan_out"
        records = [
            {
                "messageId": one["MessageId"],
                "receiptHandle": one["ReceiptHandle"],
                "body": one["Body"],
                "attributes": one["Attributes"],
            }
            for one in taken
        ]
        assert asyncio.run(fan_out.handle({"Records": records}, world)) == {"batchItemFailures": []}
        meter.phase = "poll"
        entries: Any = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(taken)]
        sqs.delete_message_batch(QueueUrl=counted.queue_url, Entries=entries)
    assert [len(fake.pusher.received[name]) for name in "ABC"] == [messages] * 3
    return meter


def main() -> None:
    """Print the tables; exit with a fault when a budget is exceeded."""
    measured = {"one by one": measure(1), "by the batch route": measure(BATCH)}
    print(f"{MESSAGES} messages of 1 KiB, 3 subscribers, fan-out in batches of {BATCH}; per message\n")
    print_heading("what", *(f"published {how}" for how in measured), "budget")
    for name, budget in BUDGETS.items():
        found = [f"{meter.per_message()[name]:.2f}" for meter in measured.values()]
        print(f"| {name} | {' | '.join(found)} | ≤ {budget:g} |")
    for phase in ("publish", "relay", "poll", "fan_out"):
        for call in sorted({call for meter in measured.values() for call in meter.calls[phase]}):
            found = [f"{meter.calls[phase][call] / MESSAGES:.2f}" for meter in measured.values()]
            print(f"| {phase}: {call} | {' | '.join(found)} | |")
    over = {name for meter in measured.values() for name, found in meter.per_message().items() if found > BUDGETS[name]}
    raise SystemExit(f"over budget: {', '.join(sorted(over))}" if over else 0)


if __name__ == "__main__":
    main()
