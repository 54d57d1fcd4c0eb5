"""The function that does all that is not publishing: topics, subscriptions, lanes, messages, filters."""

from __future__ import annotations

from typing import Any

from tagcast.ports import World
from tagcast_aws import wiring
from tagcast_aws.api import routes as manage_routes
from tagcast_aws.api.http.routing import application, serve
from tagcast_aws.api.publishing import routes as publish_routes

app = application(manage_routes.ROUTES, elsewhere=publish_routes.ROUTES)


def handle(event: dict[str, Any], world: World) -> dict[str, Any]:
    """Answer one API Gateway event (payload 2.0)."""
    return serve(app, event, world, wiring.logger())


@wiring.metrics().log_metrics
@wiring.logger().inject_lambda_context(correlation_id_path="requestContext.requestId")
def lambda_handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer one event in the world of this process."""
    return handle(event, wiring.world())
