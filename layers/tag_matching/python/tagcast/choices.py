"""What people choose by a word, and what is stored as that word."""

from __future__ import annotations

from enum import StrEnum


class FilterType(StrEnum):
    """What the filters of a topic read that was made through the CMQ endpoint; it never changes."""

    TAGS = "tags"
    ROUTING_KEY = "routing_key"


class ContentFormat(StrEnum):
    """What a push carries: the JSON envelope, the bare body, CloudEvents 1.0, or CMQ's forms of the first two."""

    JSON = "json"
    SIMPLIFIED = "simplified"
    CLOUDEVENTS = "cloudevents"
    CMQ_JSON = "cmq_json"
    CMQ_SIMPLIFIED = "cmq_simplified"


CMQ_FORMATS = frozenset((ContentFormat.CMQ_JSON, ContentFormat.CMQ_SIMPLIFIED))
"""What receivers that were written for CMQ expect."""
