"""Serves long-polling requests: members of consumer groups pull, acknowledge, nack, extend; people watch the tail."""

from __future__ import annotations

from typing import Any

from tagcast.ports import World
from tagcast_aws import wiring
from tagcast_aws.api import pulling, tail
from tagcast_aws.api.http.routing import Router

router = Router((*pulling.ROUTES, *tail.ROUTES))


def handle(event: dict[str, Any], world: World) -> dict[str, Any]:
    """Answer one API Gateway event (payload 2.0)."""
    return router.serve(event, world, wiring.logger())


@wiring.flush_after
@wiring.logger().inject_lambda_context(correlation_id_path="requestContext.requestId")
def lambda_handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Handle one Lambda event with this process's connections and settings."""
    return handle(event, wiring.process().world)
