"""The task of the workflow: works on one lane, and returns the instant until which the workflow waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.instant import rfc3339
from tagcast.ports import World
from tagcast.pushing.push_slots import PushSlots
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

RESERVE_S = 45.0
"""An attempt in flight (at most 30 s) and its writes must end before the function's timeout."""


def budget_s_of(left_ms: int) -> float:
    """Return the seconds in which attempts may start, if *left_ms* of the invocation is left.

    >>> budget_s_of(100_000), budget_s_of(40_000)
    (55.0, 1.0)
    """
    return max(1.0, left_ms / 1000 - RESERVE_S)


async def handle(event: Mapping[str, Any], world: World, budget_s: float) -> dict[str, Any]:
    """Work on the lane named in *event*. Return the next input of the workflow, which then waits or ends."""
    task = Task(event["topic"], event["subscription_id"], event["generation"], event["rounds"])
    async with PushSlots(world.clock) as slots:
        answer = await redeliver(world, task, budget_s, slots)
    memory = asdict(answer.task)
    if answer.wait_until is None:
        return {**memory, "status": "end"}
    return {**memory, "status": "wait", "wait_until": rfc3339(answer.wait_until)}


@wiring.flush_after
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    world = wiring.process().world
    return wiring.run(world, handle(event, world, budget_s_of(context.get_remaining_time_in_millis())))
