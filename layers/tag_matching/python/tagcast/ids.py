"""Ids: a message id contains its acceptance time; a subscription id contains its topic id and ordinal."""

from __future__ import annotations

import re

SUBSCRIPTION_ID = re.compile(r"[0-9]{20}\.[0-9]{1,10}")
"""The form of a subscription id."""
ID_SEQUENCE_BITS = 22
"""A message id is the acceptance time in milliseconds, followed by this many bits."""


def accepted_at_of(message_id: str) -> int:
    """Return the acceptance time of a message, in milliseconds since 1970.

    >>> accepted_at_of(f"{1_800_000_000_000 << ID_SEQUENCE_BITS | 5:020d}")
    1800000000000
    """
    return int(message_id) >> ID_SEQUENCE_BITS


def first_id_at(instant: int) -> str:
    """Return the lowest message id at *instant* (milliseconds since 1970). All ids of earlier messages are lower.

    >>> accepted_at_of(first_id_at(1_800_000_000_000))
    1800000000000
    """
    return f"{max(0, instant) << ID_SEQUENCE_BITS:020d}"


def subscription_id(topic_id: str, ordinal: int) -> str:
    """Return the id of the subscription with *ordinal* in the topic *topic_id*.

    >>> subscription_id("07457000000000000001", 3)
    '07457000000000000001.3'
    """
    return f"{topic_id}.{ordinal}"


def ordinal_of(subscription_id: str) -> int:
    """Return the ordinal in a subscription id.

    >>> ordinal_of("07457000000000000001.3")
    3
    """
    return int(subscription_id.rpartition(".")[2])


def topic_id_of(subscription_id: str) -> str:
    """Return the id of the topic in a subscription id.

    >>> topic_id_of("07457000000000000001.3")
    '07457000000000000001'
    """
    return subscription_id.rpartition(".")[0]
