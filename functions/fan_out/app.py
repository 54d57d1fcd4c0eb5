"""The queue's consumer: the first round of each message, with partial batch responses per topic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.fan_out import fan_out
from tagcast.ports import QueueEntry, World
from tagcast.pushing.push_slots import PushSlots
from tagcast.queues import entry_in
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


async def handle(event: Mapping[str, Any], world: World) -> dict[str, Any]:
    """Serve a batch of queue records; report those of a topic that could not be completed, and those that were left.

    A record that says nothing is told and done with: it would hold up its group, and all that comes with it, for ever.
    What stands in an order and what stands in none are served beside each other, as if they had come in two batches.
    """
    batches: dict[tuple[str, bool], dict[str, QueueEntry]] = {}
    receipts: dict[str, str] = {}
    for record in event["Records"]:
        entry = entry_in(record["body"], record["attributes"]["MessageGroupId"])
        if entry is None:
            wiring.logger().error("unreadable entry of the queue", extra={"record": record["messageId"]})
            world.telemetry.count("UnreadableEntries")
            continue
        batches.setdefault((entry.topic, entry.has_order), {})[record["messageId"]] = entry
        receipts[record["messageId"]] = record["receiptHandle"]
    failed: list[str] = []
    left: list[str] = []

    async def serve(topic: str, records: Mapping[str, QueueEntry], slots: PushSlots) -> None:
        try:
            again = await fan_out(world, topic, records.values(), slots)
            left.extend(name for name, entry in records.items() if entry in again)
        except Exception as fault:  # noqa: BLE001  The batch comes again; the others are done with.
            wiring.logger().error("fan-out failed", exc_info=fault, extra={"topic": topic})
            failed.extend(records)

    async with PushSlots(world.clock) as slots:
        if beside := _take_sections_but_one(batches):
            await world.executor.run(partial(world.queue.give_back, [receipts[name] for name in beside]))
        await side_by_side(serve(topic, records, slots) for (topic, _), records in batches.items())
        if left:
            await world.executor.run(partial(world.queue.give_back, [receipts[name] for name in left]))
    slots.tell(world.telemetry)
    return {"batchItemFailures": [{"itemIdentifier": name} for name in (*failed, *left, *beside)]}


def _take_sections_but_one(batches: Mapping[tuple[str, bool], dict[str, QueueEntry]]) -> list[str]:
    """Take from *batches* what stands in no order and is for sections of wide messages, all but the first; name it.

    Others serve it meanwhile: one invocation would need a second and more for each.
    """
    sections = [
        (records, name)
        for (_, has_order), records in batches.items()
        for name, entry in records.items()
        if entry.section is not None and not has_order
    ]
    for records, name in sections[1:]:
        del records[name]
    return [name for _, name in sections[1:]]


@wiring.metered
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    world = wiring.world()
    return wiring.run(world, handle(event, world))
