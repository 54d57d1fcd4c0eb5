"""The queue's consumer: the first round of each message, with partial batch responses per topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tagcast.fan_out import fan_out
from tagcast.ports import World
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


async def handle(event: Mapping[str, Any], world: World) -> dict[str, Any]:
    """Serve a batch of queue records; report those of a topic that could not be completed."""
    topics: dict[str, dict[str, str]] = {}
    for record in event["Records"]:
        named = json.loads(record["body"])
        topics.setdefault(named["topic"], {})[record["messageId"]] = named["message_id"]
    rounds = [fan_out(world, topic, list(ids.values())) for topic, ids in topics.items()]
    results = await asyncio.gather(*rounds, return_exceptions=True)
    failures = []
    for (topic, ids), result in zip(topics.items(), results, strict=True):
        if isinstance(result, Exception):
            wiring.logger().error("fan-out failed", exc_info=result, extra={"topic": topic})
            failures += [{"itemIdentifier": record_id} for record_id in ids]
        elif result is not None:
            raise result
    return {"batchItemFailures": failures}


@wiring.metrics().log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    world = wiring.world()
    return wiring.run(world, handle(event, world))
