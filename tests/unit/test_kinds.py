"""Kinds of filter: one that is added is known to the index, or refused by it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
from tagcast.errors import InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue
from tagcast.filters.explanation import Explanation
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter

from tests.unit.test_filters import Message

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

    assert set(re.findall(r"\w+", refused.value.faults[0].detail)) - {"must", "be", "one", "of"} == set(EACH)


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("message", [BARE, FULL], ids=["bare", "full"])
def test_the_index_says_of_every_kind_what_the_filter_says(kind: str, message: Message) -> None:
    filters: dict[int, FilterValue | CompiledFilter | None] = {1: EACH[kind], 2: None}
    index = TopicIndex.build(filters)

    matched = compile_filter(EACH[kind]).evaluate(message) is True
    for each in (index, TopicIndex.from_snapshot(index.to_snapshot())):
        assert each.match(message).ordinals == ((1, 2) if matched else (2,))


def test_the_languages_of_sql92_and_of_event_patterns_wait_for_the_first_filter_that_is_written_in_one() -> None:
    script = """
import sys
from tagcast_aws.api import publishing, routes
from tagcast.filters.index.topic_index import TopicIndex
def late(): return [name for name in sys.modules if name.endswith((".sql92", ".event_pattern", "condition_index"))]
filters = {1: None, 2: {"kind": "tags", "tags": ["a"]}, 3: {"kind": "routing_key", "patterns": ["a.*"]}}
print(len(late()), end=" ")
TopicIndex.from_snapshot(TopicIndex.build(filters).to_snapshot())
print(len(late()), end=" ")
TopicIndex.build({4: {"kind": "sql92", "expression": "a = 1"}})
print(len(late()))
"""
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert told.stdout.split() == ["0", "0", "3"]


def test_a_kind_that_the_index_does_not_know_is_an_error_and_never_everything() -> None:
    with pytest.raises(TypeError, match="never"):
        TopicIndex.build({1: NeverFilter(), 2: None})
