"""Filters in their JSON form: validation, normal form, evaluation, explanation, pickling."""

import pickle
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from tagcast.errors import FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput
from tagcast.filters.explanation import Explanation
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import KINDS, canonical, compile_filter


@dataclass(frozen=True)
class Message:
    """What filters read."""

    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


MESSAGE = Message(("apple", "imac"), "order.new.eu", {"price": "120"}, b'{"user": {"name": "Ada"}}')
BARE = Message(body=b"")


FILTERS: list[tuple[dict[str, object] | None, object]] = [
    (None, True),
    ({"kind": "tags", "tags": []}, True),
    ({"kind": "tags", "tags": ["imac", "xiaomi"]}, True),
    ({"kind": "tags", "tags": ["xiaomi"]}, False),
    ({"kind": "tag_expression", "expression": None}, True),
    ({"kind": "tag_expression", "expression": "imac || mac"}, True),
    ({"kind": "tag_expression", "expression": "mac"}, False),
    ({"kind": "tag_expression", "expression": "||".join(f"{n:064d}" for n in range(256))}, False),
    ({"kind": "routing_key", "patterns": ["audit.#", "order.*.eu"]}, True),
    ({"kind": "routing_key", "patterns": ["order.*"]}, False),
    ({"kind": "sql92", "expression": "price > 100"}, True),
    ({"kind": "sql92", "expression": "cost > 100"}, None),
    ({"kind": "event_pattern", "pattern": {"user": {"name": ["Ada"]}}}, True),
    ({"kind": "function", "function": "rate", "on_error": "block", "timeout_seconds": 10}, True),
]
"""Filters of every kind, and what they say of the message."""


def test_every_kind_is_tried_here() -> None:
    assert {value["kind"] for value, _ in FILTERS if value} == set(KINDS)


@pytest.mark.parametrize(("value", "matched"), FILTERS)
def test_every_kind_evaluates_explains_pickles_and_normalises(value: dict[str, object] | None, matched: object) -> None:
    compiled = compile_filter(value)
    assert compiled.evaluate(MESSAGE) is matched
    assert compiled.explain(MESSAGE).value is matched
    assert pickle.loads(pickle.dumps(compiled)) == compiled
    assert compile_filter(canonical(value)) == compiled
    assert canonical(canonical(value)) == canonical(value)


@pytest.mark.parametrize("value", [value for value, _ in FILTERS])
@pytest.mark.parametrize("message", [BARE, MESSAGE], ids=["bare", "full"])
def test_the_index_says_of_every_kind_what_the_filter_says(value: dict[str, object] | None, message: Message) -> None:
    index = TopicIndex.build({1: value, 2: None})

    matched = compile_filter(value).evaluate(message) is True
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


@dataclass(frozen=True)
class NeverFilter(CompiledFilter):
    """A filter of a kind that only its own module knows."""

    kind = "never"

    def evaluate(self, message: FilterInput) -> bool:
        return False

    def explain(self, message: FilterInput) -> Explanation:
        return Explanation("never", False)

    def as_json(self) -> dict[str, object]:
        return {"kind": self.kind}


def test_a_kind_that_the_index_does_not_know_is_an_error_and_never_everything() -> None:
    with pytest.raises(TypeError, match="never"):
        TopicIndex.build({1: NeverFilter(), 2: None})


@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        ("tags", [""]),
        ({}, ["/kind"]),
        ({"kind": ["tags"]}, ["/kind"]),
        ({"kind": "regex"}, ["/kind"]),
        ({"kind": "tags"}, ["/tags"]),
        ({"kind": "tags", "tags": "apple"}, ["/tags"]),
        ({"kind": "tags", "tags": ["a", 1, "", "x" * 65, "a\n"]}, ["/tags/1", "/tags/2", "/tags/3", "/tags/4"]),
        ({"kind": "tags", "tags": [f"t{n}" for n in range(101)]}, ["/tags"]),
        ({"kind": "tags", "tags": [], "a/b": 1}, ["/a~1b"]),
        ({"kind": "tag_expression", "expression": "||".join(f"t{n}" for n in range(257))}, ["/expression"]),
        ({"kind": "tag_expression", "expression": " || "}, ["/expression"]),
        ({"kind": "tag_expression", "expression": 5}, ["/expression"]),
        ({"kind": "routing_key", "patterns": []}, ["/patterns"]),
        ({"kind": "routing_key", "patterns": ["a..b", "é" * 33, "a." * 16 + "b"]},
         ["/patterns/0", "/patterns/1", "/patterns/2"]),
        ({"kind": "sql92"}, ["/expression"]),
        ({"kind": "sql92", "expression": "a = 1", "dialect": "mysql"}, ["/dialect"]),
        ({"kind": "sql92", "expression": "a = "}, ["/expression"]),
        ({"kind": "function", "function": "a b", "on_error": "retry", "timeout_seconds": 11},
         ["/function", "/on_error", "/timeout_seconds"]),
        ({"kind": "function", "function": "f", "timeout_seconds": True}, ["/timeout_seconds"]),
    ],
)  # fmt: skip
def test_every_fault_is_named_with_its_place(value: dict[str, object], pointers: list[str]) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        compile_filter(value)
    assert [fault.pointer for fault in caught.value.faults] == pointers


def test_tags_count_after_duplicates() -> None:
    assert canonical({"kind": "tags", "tags": ["a"] * 101}) == {"kind": "tags", "tags": ["a"]}


def rocketmq(expression: str) -> CompiledFilter:
    return compile_filter({"kind": "sql92", "expression": expression, "dialect": "rocketmq"})


@pytest.mark.parametrize(
    ("expression", "message", "expected"),
    [
        ("TAGS = 'TagA'", Message(("TagA",)), True),
        ("TAGS = 'TagB || TagA'", Message(("TagB", "TagA")), True),
        ("TAGS CONTAINS 'TagA'", Message(("TagB", "TagA")), True),
        ("TAGS = 'TagA'", Message(("TagA",), properties={"TAGS": "mine"}), False),
        ("TAGS IS NULL", Message(()), True),
        ("KEYS = '7'", Message(("TagA",), properties={"KEYS": "7"}), True),
    ],
)
def test_to_the_rocketmq_dialect_tags_are_a_property(expression: str, message: Message, expected: bool) -> None:
    compiled = rocketmq(expression)
    assert compiled.evaluate(message) is expected
    assert compiled.explain(message).value is expected
    assert pickle.loads(pickle.dumps(compiled)) == compiled
    index = TopicIndex.build({1: compiled, 2: compile_filter({"kind": "tags", "tags": ["never"]})})
    for each in (index, TopicIndex.from_snapshot(index.to_snapshot())):
        assert (1 in each.match(message).ordinals) is expected


def test_to_the_strict_dialect_tags_are_no_property() -> None:
    compiled = compile_filter({"kind": "sql92", "expression": "TAGS = 'TagA'"})
    assert compiled.evaluate(Message(("TagA",))) is None


def test_an_error_is_not_a_match_and_is_explained() -> None:
    compiled = rocketmq("vip = TRUE OR price > 5 OR a = 'x'")
    message = Message(properties={"price": "7.5"})
    with pytest.raises(FilterEvaluationError):
        compiled.evaluate(message)
    tree = compiled.explain(message)
    assert tree.verdict == "error"
    assert [child.value for child in tree.children] == [None, "error", "skipped"]
    assert "'7.5'" in tree.children[1].note


def test_a_message_without_a_routing_key_has_the_empty_key() -> None:
    assert compile_filter({"kind": "routing_key", "patterns": ["#"]}).evaluate(Message())
    assert not compile_filter({"kind": "routing_key", "patterns": ["*"]}).evaluate(Message())
