"""The CMQ endpoint: programs written for CMQ change only their endpoint and keys.

One of CMQ's paths is the root. A request to it without a CMQ action gets a 404, as any other path without a route.
"""

from __future__ import annotations

from typing import Any

from tagcast.ports import World
from tagcast_aws import wiring
from tagcast_aws.api.http.routing import Router
from tagcast_aws.cmq.authentication import Secret
from tagcast_aws.cmq.endpoint import CmqEndpoint
from tagcast_aws.cmq.form import is_of_cmq
from tagcast_aws.runtime.settings import Home

router = Router(())


def handle(event: dict[str, Any], world: World, keys: Secret, home: Home) -> dict[str, Any]:
    """Answer one API Gateway event (payload 2.0). *keys* holds the key pairs of CMQ programs."""
    if is_of_cmq(event):
        return CmqEndpoint(world, keys, home).serve(event, wiring.logger())
    return router.serve(event, world, wiring.logger())


@wiring.flush_after
@wiring.logger().inject_lambda_context(correlation_id_path="requestContext.requestId")
def lambda_handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Handle one Lambda event with this process's connections and settings."""
    here = wiring.process()
    return handle(event, here.world, here.cmq_keys, here.home)
