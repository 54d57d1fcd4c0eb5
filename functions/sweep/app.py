"""Every five minutes: restart lanes that nobody woke, expire what is past its life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tagcast.ports import World
from tagcast.sweep import sweep
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handle(world: World) -> dict[str, Any]:
    """Sweep once and report what was done."""
    swept = sweep(world)
    return {
        "restarted": swept.restarted,
        "expired": swept.expired,
        "oldest_overdue_seconds": swept.oldest_overdue_s,
    }


@wiring.metrics().log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    swept = handle(wiring.world())
    wiring.metrics().add_metric(name="OldestBlockedHeadSeconds", unit="Seconds", value=swept["oldest_overdue_seconds"])
    return swept
