"""Kinds of filter: one that is added is known to the index, or refused by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from tagcast.errors import InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue
from tagcast.filters.explanation import Explanation
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter


@dataclass(frozen=True)
class Message:
    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


BARE, FULL = Message(body=b""), Message(("apple",), "order.new", {"price": "120"}, b'{"user": {"name": "Ada"}}')
EACH: dict[str, dict[str, object]] = {
    "tags": {"kind": "tags", "tags": ["apple"]},
    "tag_expression": {"kind": "tag_expression", "expression": "apple || pear"},
    "routing_key": {"kind": "routing_key", "patterns": ["order.*"]},
    "sql92": {"kind": "sql92", "expression": "price > 100"},
    "event_pattern": {"kind": "event_pattern", "pattern": {"user": {"name": ["Ada"]}}},
    "function": {"kind": "function", "function": "f"},
}


@dataclass(frozen=True)
class NeverFilter:
    """A filter of a kind that only its own module knows."""

    kind: str = "never"
    warnings: tuple[str, ...] = ()
    reads_body: bool = False

    def evaluate(self, message: FilterInput) -> bool:
        return False

    def explain(self, message: FilterInput) -> Explanation:
        return Explanation("never", False)

    def as_json(self) -> dict[str, object]:
        return {"kind": self.kind}


def test_every_kind_is_tried_here() -> None:
    with pytest.raises(InvalidFilterError) as refused:
        compile_filter({"kind": "unheard of"})

    assert set(re.findall(r"\w+", refused.value.faults[0].detail)) - {"one", "of", "is", "expected"} == set(EACH)


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("message", [BARE, FULL], ids=["bare", "full"])
def test_the_index_says_of_every_kind_what_the_filter_says(kind: str, message: Message) -> None:
    filters: dict[int, FilterValue | CompiledFilter | None] = {1: EACH[kind], 2: None}
    index = TopicIndex.build(filters)

    matched = compile_filter(EACH[kind]).evaluate(message) is True
    for each in (index, TopicIndex.from_snapshot(index.to_snapshot())):
        assert each.match(message).ordinals == ((1, 2) if matched else (2,))


def test_a_kind_that_the_index_does_not_know_is_an_error_and_never_everything() -> None:
    with pytest.raises(TypeError, match="never"):
        TopicIndex.build({1: NeverFilter(), 2: None})
