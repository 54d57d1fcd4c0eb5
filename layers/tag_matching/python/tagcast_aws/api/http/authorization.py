"""What the caller may do, judged once for all routes: by a token's scopes and topics. IAM judged who signed, before.

The source is docs/authorization.md, Tokens and Dead letters.
"""

from __future__ import annotations

import binascii
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
"""A pattern has a character of its own, but for the one of all topics: ``**`` and ``????????`` look like less."""
_TOKEN = re.compile(r"(?:[Bb]earer +)?[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
EVERY_TOPIC = "*"
"""The pattern of what is about all topics."""


class Scope(StrEnum):
    """What a token is for; a route asks for one."""

    PUBLISH = "publish"
    MANAGE = "manage"
    READ = "read"


class ForbiddenError(Exception):
    """A request for what the caller's token, or the deployment, does not allow."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The scopes of a token, as its issuer writes them, and its patterns of topics."""

    scopes: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()

    def check_scope(self, wanted: Sequence[str]) -> None:
        """Raise ForbiddenError unless one of the scopes that are *wanted* is there."""
        if self.scopes.isdisjoint(wanted):
            raise ForbiddenError(f"the token has none of the scopes {', '.join(wanted)}")

    def check_topic(self, topic: str | None) -> None:
        """Raise ForbiddenError unless its patterns cover *topic* as its path spells it (None: all topics).

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
    """Say whether one of the patterns is that of *topic*."""
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def is_pattern(text: str) -> bool:
    """Say whether this is a pattern of names of topics.

    >>> is_pattern("bills-?*"), is_pattern("*"), is_pattern("**"), is_pattern("a b"), is_pattern("")
    (True, True, False, False, False)
    """
    return _PATTERN.fullmatch(text) is not None


def rights_of(event: Mapping[str, Any]) -> Rights | None:
    """Return what the caller's token grants, or None if there is none because IAM judged the request.

    API Gateway verified the token, but hands lists on as text in which their elements cannot be told apart: the claims
    are read from the token itself. What is not one readable token grants nothing. AWS does not say whether the scopes
    that it names are all of the token or of its route, so that those in the token have to agree.
    """
    judged = (event["requestContext"].get("authorizer") or {}).get("jwt")
    if judged is None:
        return None
    headers = {name.lower(): text for name, text in (event.get("headers") or {}).items()}
    claims = _claims(headers.get("authorization", ""))
    scopes = frozenset(judged.get("scopes") or ())
    own = claims.get("scope", claims.get("scp"))
    return Rights(scopes if own is None else scopes.intersection(_listed(own)), topics_of(claims))


def check_publishing(world: World, rights: Rights | None, topic: str, named: str | None, field: str) -> None:
    """Raise ForbiddenError unless the dead letters or events of *topic* may be published to what *field* has *named*.

    A token has to let its owner publish there. The service sees no policy of who signed: there the deployment says it.
    """
    if named is None:
        return
    if rights is None:
        if not any(fnmatchcase(topic, of) and fnmatchcase(named, to) for of, to in world.dead_letter_topics):
            raise ForbiddenError(f"DeadLetterTopics of this deployment has no {topic}:{named}")
    elif f"{world.scope_prefix}{Scope.PUBLISH}" not in rights.scopes or not covers(rights.topics, named):
        raise ForbiddenError(f"the token does not allow publishing to the {field}")


def topics_of(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the patterns of topics in a token: elements of a list, or a text with spaces between them.

    What is no pattern of names grants nothing, so that nobody gets more than was meant.

    >>> topics_of({"tagcast_topics": ["orders", "bills-*", "team a *", "a.*"]}), topics_of({"tagcast_topics": "a b,*"})
    (('orders', 'bills-*'), ('a',))
    """
    return tuple(each for each in _listed(claims.get(TOPICS_CLAIM)) if is_pattern(each))


def _listed(claim: object) -> list[str]:
    if isinstance(claim, str):
        return claim.split(" ")
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []


def _claims(authorization: str) -> Mapping[str, Any]:
    """Return the claims of the token in a header; none if it is anything but exactly one token."""
    found = _TOKEN.fullmatch(authorization.strip())
    if found is None:
        return {}
    payload = found[1]
    try:
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}
