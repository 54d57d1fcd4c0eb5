"""What the caller's token lets through: API Gateway judges its scopes, and here its topics, once for all routes.

The source is docs/authorization.md, Tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

TOPICS_CLAIM = "tagcast_topics"
"""The claim that names the topics of a token, as patterns: ``*`` is any text, ``?`` any character."""

_PATTERN = re.compile(r"[A-Za-z0-9_*?-]+")
_EVERY_TOPIC = "*"


class Scope(StrEnum):
    """What a token is for; a route asks for one."""

    PUBLISH = "publish"
    MANAGE = "manage"
    READ = "read"


class ForbiddenError(Exception):
    """A request for a topic, or for all of them, that the caller's token does not name."""


def topics_of(event: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the patterns of topics in the caller's token, or None if it has none because IAM judged the request.

    API Gateway verified the token. It hands on a list as text without quotes. What is no pattern of names grants
    nothing, so that nobody gets more than was meant.

    >>> topics_of({"requestContext": {"authorizer": {"jwt": {"claims": {"tagcast_topics": "[orders bills-* a.*]"}}}}})
    ('orders', 'bills-*')
    >>> topics_of({"requestContext": {"authorizer": {"jwt": {"claims": {}}}}})
    ()
    >>> topics_of({"requestContext": {"authorizer": {"iam": {}}}}) is None
    True
    """
    token = (event["requestContext"].get("authorizer") or {}).get("jwt")
    if token is None:
        return None
    listed = re.split(r'[\s,"]+', str(token["claims"].get(TOPICS_CLAIM, "")).strip("[]"))
    return tuple(pattern for pattern in listed if _PATTERN.fullmatch(pattern))


def check_topic(allowed: tuple[str, ...] | None, topic: str | None) -> None:
    """Raise ForbiddenError unless *allowed* covers *topic* as its path spells it (None: all topics).

    >>> check_topic(("bills-*",), "bills-%32026")
    >>> check_topic(("bills-*",), None)
    Traceback (most recent call last):
    tagcast_aws.api.http.authorization.ForbiddenError: the token's claim tagcast_topics does not name all topics: *
    """
    if allowed is None:
        return
    if topic is None and _EVERY_TOPIC not in allowed:
        raise ForbiddenError(f"the token's claim {TOPICS_CLAIM} does not name all topics: {_EVERY_TOPIC}")
    if topic is not None and not any(fnmatchcase(unquote(topic), pattern) for pattern in allowed):
        raise ForbiddenError(f"the token's claim {TOPICS_CLAIM} does not name this topic")
