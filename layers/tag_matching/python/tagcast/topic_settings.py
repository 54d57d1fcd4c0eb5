"""What a topic may be set to: how long its messages live and are kept, how large they are, what one order spans.

Durations end in ``_s`` and are seconds.
"""

from __future__ import annotations

from enum import StrEnum

RETENTION_S_MIN, RETENTION_S_MAX = 60, 86_400
BODY_BYTES_DEFAULT, BODY_BYTES_MAX = 64 * 1024, 256 * 1024


class Ordering(StrEnum):
    """What one order spans: the whole topic, one ordering key, or nothing."""

    TOPIC = "topic"
    KEY = "key"
    NONE = "none"


class Keep(StrEnum):
    """How long the body of a message is kept: until nobody is owed it, or to the end of its life."""

    PENDING = "pending"
    LIFE = "life"


class FilterType(StrEnum):
    """What the filters of a topic read that was made through the CMQ endpoint; it never changes."""

    TAGS = "tags"
    ROUTING_KEY = "routing_key"
