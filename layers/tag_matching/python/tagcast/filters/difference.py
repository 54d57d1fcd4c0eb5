"""The differences between a group's filter and a member's, in sentences for the operators of the consumer group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from itertools import takewhile

from tagcast.filters.compiled import quote_texts
from tagcast.filters.tags import parse_tag_expression
from tagcast.strict_json import same_json

Canonical = Mapping[str, object]
"""A filter in its normal form."""


def difference(group: Canonical | None, yours: Canonical | None) -> tuple[str, ...]:
    """Return the differences between the filters of a group and of a member (*yours*) as sentences.

    None is no filter, which matches everything. The order of tags and of routing-key patterns does not matter. The
    result is empty if the filters do not differ.

    >>> difference({"kind": "tags", "tags": ["a", "b"]}, {"kind": "tags", "tags": ["c", "b"]})
    ("tags: only the group has 'a'; only you have 'c'",)
    >>> difference({"kind": "tags", "tags": ["a", "b"]}, {"kind": "tags", "tags": ["b"]})
    ("tags: only the group has 'a'",)
    >>> difference({"kind": "tags", "tags": ["a", "b"]}, {"kind": "tags", "tags": ["b", "a"]})
    ()
    >>> difference(None, {"kind": "tag_expression", "expression": "*"})
    ()
    >>> one, true = ({"kind": "event_pattern", "pattern": {"a": [each]}} for each in (1, True))
    >>> difference(one, true)
    ("pattern: the group has {'a': [1]}, you have {'a': [True]}",)
    """
    one, other = _comparable(group), _comparable(yours)
    if one["kind"] != other["kind"]:
        return (f"kind: the group's filter is {one['kind']}, yours is {other['kind']}",)
    fields = sorted(one.keys() | other.keys())
    pairs = [(field, one.get(field), other.get(field)) for field in fields]
    return tuple(_in_words(*pair) for pair in pairs if not same_json(*pair[1:]))


def digest(filter: Canonical | None) -> str:
    """Return a digest of *filter* in 16 characters. Two filters without a :func:`difference` have the same digest.

    None is no filter, and has the digest of a filter that matches everything.

    >>> digest({"kind": "tags", "tags": ["a", "b"]}) == digest({"kind": "tags", "tags": ["b", "a"]})
    True
    """
    return sha256(json.dumps(_comparable(filter), sort_keys=True).encode()).hexdigest()[:16]


def _comparable(filter: Canonical | None) -> dict[str, object]:
    """Return a filter in a form to compare. Lists are sorted; all filters that match everything have one form."""
    if filter is None or _matches_everything(filter):
        return {"kind": "everything"}
    form = {name: sorted(map(str, value)) if isinstance(value, list) else value for name, value in filter.items()}
    if form["kind"] == "tag_expression":
        form["expression"] = sorted(parse_tag_expression(str(form["expression"])))
    return form


def _matches_everything(filter: Canonical) -> bool:
    if filter["kind"] == "tag_expression":
        return not parse_tag_expression(str(filter["expression"]))
    return filter["kind"] == "tags" and not filter["tags"]


def _in_words(field: str, group: object, yours: object) -> str:
    if isinstance(group, list) and isinstance(yours, list):
        owners = (
            ("the group has", [each for each in group if each not in yours]),
            ("you have", [each for each in yours if each not in group]),
        )
        return f"{field}: " + "; ".join(f"only {owner} {quote_texts(own)}" for owner, own in owners if own)
    if isinstance(group, str) and isinstance(yours, str):
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(group, yours, strict=False))))
        return f"{field}: from character {same + 1} on the group has {group[same:]!r}, you have {yours[same:]!r}"
    return f"{field}: the group has {group!r}, you have {yours!r}"
