"""Decides as IAM does whether policies allow an action on a resource. The policies belong to a role or to a resource.

Only the elements in the template are supported: `Action`, `Resource`, `Principal` and a few operators of `Condition`.
Any other element is an error when the policy is read, so nothing is allowed by mistake.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

NO_CONTEXT: Mapping[str, str] = {}
_UNDERSTOOD = {"Sid", "Effect", "Action", "Resource", "Principal", "Condition"}


class PolicyError(ValueError):
    """A policy has an element that is not supported here."""


@dataclass(frozen=True)
class Need:
    """A permission that a call needs: an action on a resource."""

    action: str
    resource: str


@dataclass(frozen=True)
class Grant:
    """A part of a policy statement. It allows, or denies, the actions and resources that match two patterns.

    *condition* compares values of a request's context, as in a policy. It must hold, too; an empty one always holds.
    """

    action: str
    resource: str
    allows: bool = True
    condition: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def covers(self, need: Need, context: Mapping[str, str] = NO_CONTEXT) -> bool:
        """Return whether the patterns and the condition match *need*. If so, the grant allows it, or denies it.

        >>> Grant("s3:Get*", "arn:aws:s3:::b/*").covers(Need("s3:GetObject", "arn:aws:s3:::b/k"))
        True
        >>> Grant("sqs:SendMessage", "arn:aws:sqs:r:1:a").covers(Need("sqs:SendMessage", "arn:aws:sqs:r:1:b"))
        False
        """
        return (
            like(need.action.lower(), self.action.lower())
            and like(need.resource, self.resource)
            and all(_holds(operator, keys, context) for operator, keys in self.condition.items())
        )


@dataclass(frozen=True)
class Role:
    """A role with the grants of all its policies."""

    name: str
    grants: tuple[Grant, ...]

    def allows(self, need: Need, context: Mapping[str, str] = NO_CONTEXT) -> bool:
        """Return whether the role allows *need*, an action on a resource."""
        return decide(self.grants, need, context) is not None


def decide(grants: Iterable[Grant], need: Need, context: Mapping[str, str] = NO_CONTEXT) -> Grant | None:
    """Return the grant that allows *need*; None if no grant allows it, or if any grant denies it.

    >>> both = [Grant("a:B", "*"), Grant("a:B", "secret", allows=False)]
    >>> decide(both, Need("a:B", "x")), decide(both, Need("a:B", "secret"))
    (Grant(action='a:B', resource='*', allows=True, condition={}), None)
    """
    found: Grant | None = None
    for grant in grants:
        if grant.covers(need, context):
            if not grant.allows:
                return None
            found = found or grant
    return found


def grants_of(document: Mapping[str, Any]) -> list[Grant]:
    """Return the grants of a policy document in which all references are resolved. Raises PolicyError.

    >>> grants_of({"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": ["a", "b"]}})[1].resource
    'b'
    """
    found = []
    for statement in _as_list(document["Statement"]):
        strange = set(statement) - _UNDERSTOOD
        if strange:
            raise PolicyError(f"statements with {sorted(strange)} are not understood")
        condition = statement.get("Condition", {})
        for operator, keys in condition.items():
            _holds(operator, keys, NO_CONTEXT)
        found += [
            Grant(action, resource, statement["Effect"] == "Allow", condition)
            for action in _as_list(statement["Action"])
            for resource in _as_list(statement["Resource"])
        ]
    return found


def like(text: str, pattern: str) -> bool:
    """Return whether a text matches an IAM pattern: `*` matches any text, and `?` any one character.

    >>> like("arn:aws:sqs:r:1:q", "arn:aws:sqs:*:q"), like("ab", "a"), like("a.c", "a?c")
    (True, False, True)
    """
    return _expression(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"([*?])", pattern)
    return re.compile("".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _holds(operator: str, keys: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    known = {name.lower(): value for name, value in context.items()}
    return all(_agrees(operator, known.get(name.lower()), _as_list(wanted)) for name, wanted in keys.items())


def _agrees(operator: str, found: str | None, wanted: list[Any]) -> bool:
    match operator:
        case "StringEquals":
            return found in wanted
        case "Bool":
            return found is not None and found.lower() in [str(each).lower() for each in wanted]
        case "StringLike" | "ArnLike" | "ArnEquals":
            return found is not None and any(like(found, str(each)) for each in wanted)
        case _:
            raise PolicyError(f"the condition {operator} is not understood")


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
