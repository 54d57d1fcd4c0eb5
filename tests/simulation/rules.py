"""Filters beside their plain meaning, written without any code of the service: the oracle of matching."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tagcast.model import Draft


@dataclass(frozen=True)
class Rule:
    """A filter in its JSON form beside what it means, written without any code of the service."""

    label: str
    json: Mapping[str, object] | None
    meaning: Callable[[Draft], bool]


def _has(*tags: str) -> Callable[[Draft], bool]:
    return lambda draft: any(tag == own for tag in tags for own in draft.tags)


def _price(test: Callable[[float], bool]) -> Callable[[Draft], bool]:
    def meaning(draft: Draft) -> bool:
        text = draft.properties.get("price")
        return text is not None and text.isdigit() and test(int(text))

    return meaning


RULES = (
    Rule("all", None, lambda draft: True),
    Rule("tags a", {"kind": "tags", "tags": ["a"]}, _has("a")),
    Rule("tags a|b", {"kind": "tags", "tags": ["a", "b"]}, _has("a", "b")),
    Rule("expr b||c", {"kind": "tag_expression", "expression": "b || c"}, _has("b", "c")),
    # "Aa" and "BB" have the same hash code in Java, so a match by hash alone lets strangers in.
    Rule("tags Aa", {"kind": "tags", "tags": ["Aa"]}, _has("Aa")),
    Rule(
        "key *.x",
        {"kind": "routing_key", "patterns": ["*.x"]},
        lambda draft: (
            draft.routing_key is not None
            and len(draft.routing_key.split(".")) == 2
            and draft.routing_key.endswith(".x")
        ),
    ),
    Rule(
        "price > 5", {"kind": "sql92", "expression": "price > 5", "dialect": "strict"}, _price(lambda price: price > 5)
    ),
    Rule(
        "rocketmq price > 5",
        {"kind": "sql92", "expression": "price > 5", "dialect": "rocketmq"},
        _price(lambda price: price > 5),
    ),
    Rule("not price > 5", {"kind": "sql92", "expression": "NOT (price > 5)"}, _price(lambda price: price <= 5)),
)
FUNCTION_RULES = tuple(
    Rule(f"function {policy}", {"kind": "function", "function": "judge", "on_error": policy}, lambda draft: True)
    for policy in ("drop", "block")
)


def judged_yes(draft: Draft) -> bool:
    """What the simulated filter function says."""
    return sum(draft.body) % 3 != 0


def meant(owner: Mapping[str, Any]) -> Callable[[Draft], bool]:
    """Return the plain meaning of the filter in a subscription's row."""
    text = owner.get("filter")
    if text is None:
        return RULES[0].meaning
    stored = json.loads(text)
    for rule in (*RULES, *FUNCTION_RULES):
        if rule.json is not None and rule.json.items() <= stored.items():
            return rule.meaning
    raise LookupError(f"nobody asked for the filter {text}")
