"""The routes of the manage function: all that is not publishing."""

from __future__ import annotations

from tagcast_aws.api import shadows as shadow_routes
from tagcast_aws.api import topics as topic_routes
from tagcast_aws.api.subscriptions import routes as subscription_routes

ROUTES = (*topic_routes.ROUTES, *subscription_routes.ROUTES, *shadow_routes.ROUTES)
