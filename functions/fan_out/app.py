"""The queue's consumer: the first round of each message, with partial batch responses per topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.fan_out import fan_out
from tagcast.ports import World
from tagcast.pushing.push_slots import PushSlots
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


async def handle(event: Mapping[str, Any], world: World) -> dict[str, Any]:
    """Serve a batch of queue records; report those of a topic that could not be completed."""
    topics: dict[str, dict[str, str]] = {}
    for record in event["Records"]:
        named = json.loads(record["body"])
        topics.setdefault(named["topic"], {})[record["messageId"]] = named["message_id"]
    failures: list[dict[str, str]] = []

    async def serve(topic: str, ids: Mapping[str, str], slots: PushSlots) -> None:
        try:
            await fan_out(world, topic, list(ids.values()), slots)
        except Exception as fault:  # noqa: BLE001  The batch comes again; other topics are done with.
            wiring.logger().error("fan-out failed", exc_info=fault, extra={"topic": topic})
            failures.extend({"itemIdentifier": record_id} for record_id in ids)

    async with PushSlots(world.clock) as slots:
        await side_by_side(serve(topic, ids, slots) for topic, ids in topics.items())
    slots.tell(world.telemetry)
    return {"batchItemFailures": failures}


@wiring.metered
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    world = wiring.world()
    return wiring.run(world, handle(event, world))
