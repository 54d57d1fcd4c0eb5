"""Consumes the table's stream: repeats every send to the queue and every start of a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tagcast.errors import UNREADABLE
from tagcast.ports import World
from tagcast.repairing.relay import Arrival, relay
from tagcast_aws import wiring
from tagcast_aws.store.stream import arrival_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handle(event: Mapping[str, Any], world: World) -> dict[str, Any]:
    """Repeat the sends and the starts that a batch of stream records needs.

    An unreadable record is logged and skipped, or it would stop its shard for an hour. The sweep does the missed work.
    """
    arrivals: list[Arrival] = []
    for record in event["Records"]:
        try:
            arrival = arrival_of(record)
        except UNREADABLE as fault:
            world.telemetry.record_failure("a change of the stream", fault)
            continue
        if arrival is not None:
            arrivals.append(arrival)
    relay(world, arrivals)
    return {"batchItemFailures": []}


@wiring.flush_after
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    return handle(event, wiring.process().world)
