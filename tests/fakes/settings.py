"""Settings of subscriptions with what most tests want."""

from typing import Any

from tagcast.model import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy, SubscriptionSettings

THREE_RETRIES = RetryPolicy(Strategy.BACKOFF_RETRY, 3)


def settings_for(endpoint: Endpoint | str, retry: RetryPolicy = THREE_RETRIES, **more: Any) -> SubscriptionSettings:
    """Return settings of a subscription that wants everything, in order; a text is the URL of an HTTP endpoint."""
    where = Endpoint(Protocol.HTTP, endpoint) if isinstance(endpoint, str) else endpoint
    plain = {"filter": None, "timeout_s": 15, "content_format": ContentFormat.JSON, "secret": None}
    return SubscriptionSettings(endpoint=where, retry=retry, **{**plain, **more})
