"""The settings of a topic. Durations end in ``_s`` and are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from tagcast.setting import NAME, Setting

RETENTION_S_MIN, RETENTION_S_MAX = 60, 86_400
BODY_BYTES_DEFAULT, BODY_BYTES_MAX = 64 * 1024, 256 * 1024


class Ordering(StrEnum):
    """The scope of an order: the whole topic, one ordering key, or none."""

    TOPIC = "topic"
    KEY = "key"
    NONE = "none"


class Keep(StrEnum):
    """How long a message keeps its body: while a delivery is pending, or until the message expires."""

    PENDING = "pending"
    LIFE = "life"


class FilterType(StrEnum):
    """The filter type of a topic that was created through the CMQ endpoint. It never changes."""

    TAGS = "tags"
    ROUTING_KEY = "routing_key"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic, declared once for API, client, command line and console (`tagcast.setting`)."""

    retention_s: Annotated[
        int,
        Setting("Life of a message, 60 s to 1 day.", at_least=RETENTION_S_MIN, at_most=RETENTION_S_MAX, is_shown=True),
    ] = RETENTION_S_MAX
    body_bytes_max: Annotated[
        int,
        Setting(
            "Maximum body size in bytes, up to 262,144.",
            wire="max_message_bytes",
            at_least=1,
            at_most=BODY_BYTES_MAX,
            is_shown=True,
            metavar="BYTES",
        ),
    ] = BODY_BYTES_DEFAULT
    ordering: Annotated[
        Ordering, Setting("One order for the whole topic, one per ordering key, or none.", is_shown=True)
    ] = Ordering.TOPIC
    keep: Annotated[
        Keep,
        Setting(
            "Delete bodies after the last delivery (pending), or at the expiry (life), for groups created later.",
            is_shown=True,
        ),
    ] = Keep.PENDING
    events_topic: Annotated[
        str | None,
        Setting("Topic that gets the events of this topic.", pattern=NAME, format="other-topic", metavar="TOPIC"),
    ] = None
