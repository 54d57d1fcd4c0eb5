"""Runs every five minutes: restarts overdue lanes, repeats sends to queues, expires old deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tagcast.ports import World
from tagcast.repairing.sweep import sweep
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

RESERVE_S = 30.0
"""Work in progress at the end of the budget must end before the function's timeout."""


async def handle(world: World, budget_s: float) -> dict[str, Any]:
    """Sweep once, for about *budget_s* seconds; return the counts (:class:`SweepResult`)."""
    swept = await sweep(world, budget_s)
    return {
        "restarted": swept.restarted,
        "expired": swept.expired,
        "sent": swept.sent,
        "removed": swept.removed,
        "oldest_overdue_seconds": swept.oldest_overdue_s,
        "oldest_blocked_head_seconds": swept.backlogs.oldest_s,
        "expiring_within_hour": swept.backlogs.expiring,
    }


@wiring.flush_after
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    world = wiring.process().world
    swept = wiring.run(world, handle(world, max(1.0, context.get_remaining_time_in_millis() / 1000 - RESERVE_S)))
    metrics = wiring.metrics()
    metrics.add_metric(name="OldestBlockedHeadSeconds", unit="Seconds", value=swept["oldest_blocked_head_seconds"])
    metrics.add_metric(name="ExpiringWithinHour", unit="Count", value=swept["expiring_within_hour"])
    metrics.add_metric(name="OldestOverdueLaneSeconds", unit="Seconds", value=swept["oldest_overdue_seconds"])
    return swept
