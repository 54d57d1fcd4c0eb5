"""The routes of the manage function: all that is not publishing."""

from __future__ import annotations

from tagcast_aws.api import shadow_routes, subscription_routes, topic_routes

ROUTES = (*topic_routes.ROUTES, *subscription_routes.ROUTES, *shadow_routes.ROUTES)
