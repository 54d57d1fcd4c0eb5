"""Pushes to endpoints of any protocol."""

from tagcast.model import ContentFormat, Draft, Endpoint, Message, Protocol, Push, Subscription

from tests.fakes.settings import settings_for

NOW = 1_700_000_000_000
PATIENT_S = 30
"""The timeout of pushes whose answer a test waits for. On a busy machine a few seconds are too short."""


def push_to(
    target: str,
    protocol: Protocol | None = None,
    *,
    draft: Draft = Draft(b"hi"),  # noqa: B008 It is a constant.
    content_format: ContentFormat = ContentFormat.JSON,
    timeout_s: int = PATIENT_S,
    secret: str | None = None,
) -> Push:
    """Return a first push of a message of topic fruit; the scheme of *target* is the protocol if none is named."""
    endpoint = Endpoint(protocol or Protocol(target.partition(":")[0]), target)
    settings = settings_for(endpoint, timeout_s=timeout_s, content_format=content_format, secret=secret)
    owner = Subscription("fruit", "A", "07457000000000000001", 0, settings, 1, 0, 0)
    return Push(owner, Message("fruit", "07457000000000000042", draft, NOW, NOW + 1), 1)
