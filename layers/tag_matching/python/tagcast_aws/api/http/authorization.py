"""Authorizes requests by the scopes and topics of their token, in the same way for all routes.

IAM authorizes signed requests before they arrive. The sections Tokens and Dead letters of docs/authorization.md have
the rules.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from tagcast.ports import World

TOPICS_CLAIM = "tagcast_topics"
"""The claim that names the topics of a token, as patterns: ``*`` is any text, ``?`` any character."""

_PATTERN = re.compile(r"\*|[*?]*[A-Za-z0-9_-][A-Za-z0-9_*?-]*")
"""A pattern is ``*``, or has a literal character. Others, such as ``**``, would look narrower than they are."""
_TOKEN = re.compile(r"(?:[Bb]earer +)?[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
EVERY_TOPIC = "*"
"""The pattern that covers all topics."""


class TokenScope(StrEnum):
    """A scope of tokens. Each route that is not public requires a scope."""

    PUBLISH = "publish"
    MANAGE = "manage"
    READ = "read"
    CONSUME = "consume"


class ForbiddenError(Exception):
    """The caller's token, or the deployment, does not allow the request."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a token. *topics* are patterns of topic names. *scopes* begin with the deployment's prefix."""

    scopes: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()

    def check_scope(self, wanted: Sequence[str]) -> None:
        """Raise ForbiddenError unless the token has one of the scopes *wanted*. Each begins with the scope prefix."""
        if self.scopes.isdisjoint(wanted):
            raise ForbiddenError(f"the token has none of the scopes {', '.join(wanted)}")

    def check_topic(self, topic: str | None) -> None:
        """Raise ForbiddenError unless the token's patterns cover *topic*, which is percent-encoded as in the path.

        If *topic* is None, the request is about all topics, and the token needs the pattern ``*``.

        >>> Rights(topics=("bills-*",)).check_topic("bills-%32026")
        >>> Rights(topics=("bills-*",)).check_topic(None)
        Traceback (most recent call last):
        tagcast_aws.api.http.authorization.ForbiddenError: the token's claim tagcast_topics does not name all topics: *
        """
        if topic is None and EVERY_TOPIC not in self.topics:
            raise ForbiddenError(f"the token's claim {TOPICS_CLAIM} does not name all topics: {EVERY_TOPIC}")
        if topic is not None and not covers(self.topics, unquote(topic)):
            raise ForbiddenError(f"the token's claim {TOPICS_CLAIM} does not name this topic")


def covers(patterns: Iterable[str], topic: str) -> bool:
    """Return whether one of the patterns matches *topic*."""
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def may_act_on(rights: Rights | None, topic: str) -> bool:
    """Return whether the caller may use *topic*. If *rights* is None, IAM has authorized the request already."""
    return rights is None or covers(rights.topics, topic)


def is_pattern(text: str) -> bool:
    """Return whether a text is a valid topic pattern.

    >>> is_pattern("bills-?*"), is_pattern("*"), is_pattern("**"), is_pattern("a b"), is_pattern("")
    (True, True, False, False, False)
    """
    return _PATTERN.fullmatch(text) is not None


def rights_of(event: Mapping[str, Any]) -> Rights | None:
    """Return the rights of the caller's token; None if IAM authorized the request.

    API Gateway has verified the token, but passes on lists as text whose elements cannot be separated. So the claims
    are read from the token itself. If the header does not have exactly one readable token, the caller may use no topic.
    AWS does not document whether API Gateway passes on the scopes of the token or of the route. So if the token names
    scopes, a scope counts only if API Gateway names it, too.
    """
    judged = (event["requestContext"].get("authorizer") or {}).get("jwt")
    if judged is None:
        return None
    headers = {name.lower(): text for name, text in (event.get("headers") or {}).items()}
    claims = _claims(headers.get("authorization", ""))
    scopes = frozenset(judged.get("scopes") or ())
    own = claims.get("scope", claims.get("scp"))
    return Rights(scopes if own is None else scopes.intersection(_strings_of(own)), topics_of(claims))


def check_publishing(world: World, rights: Rights | None, topic: str, named: str | None, field: str) -> None:
    """Raise ForbiddenError unless the caller may let *topic* publish dead letters or events to the topic *named*.

    If *named* is None, nothing is checked. A token needs the publish scope and a pattern for *named*. The policy of a
    SigV4 caller is not visible here, so the parameter DeadLetterTopics decides. *field* is the name of the setting, for
    the error.
    """
    if named is None:
        return
    if rights is None:
        if not any(fnmatchcase(topic, source) and fnmatchcase(named, to) for source, to in world.dead_letter_topics):
            raise ForbiddenError(f"DeadLetterTopics of this deployment has no {topic}:{named}")
    elif f"{world.scope_prefix}{TokenScope.PUBLISH}" not in rights.scopes or not covers(rights.topics, named):
        raise ForbiddenError(f"the token does not allow publishing to the {field}")


def topics_of(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the topic patterns in a token's claims: a list, or a text separated by spaces.

    An invalid pattern grants nothing, so a mistake never widens the rights.

    >>> topics_of({"tagcast_topics": ["orders", "bills-*", "team a *", "a.*"]}), topics_of({"tagcast_topics": "a b,*"})
    (('orders', 'bills-*'), ('a',))
    """
    return tuple(each for each in _strings_of(claims.get(TOPICS_CLAIM)) if is_pattern(each))


def _strings_of(claim: object) -> list[str]:
    if isinstance(claim, str):
        return claim.split(" ")
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []


def _claims(authorization: str) -> Mapping[str, Any]:
    """Return the claims of the token in an Authorization header; empty unless the header has exactly one token."""
    found = _TOKEN.fullmatch(authorization.strip())
    if found is None:
        return {}
    payload = found[1]
    try:
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}
