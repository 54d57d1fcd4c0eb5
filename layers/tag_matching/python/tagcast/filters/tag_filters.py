"""The filter kinds ``tags`` (CMQ) and ``tag_expression`` (RocketMQ)."""

from collections.abc import Iterator
from dataclasses import dataclass

from tagcast.errors import Fault, FaultCode, InvalidFilterError
from tagcast.filters.compiled import (
    CompiledFilter,
    FilterInput,
    FilterValue,
    is_plain_text,
    list_of_text,
    quote_texts,
    unknown_keys,
)
from tagcast.filters.explanation import Explanation
from tagcast.filters.tags import EVERYTHING, matches, parse_tag_expression

FILTER_TAGS_MAX = 100
EXPRESSION_TAGS_MAX = 256
TAG_CHARACTERS_MAX = 64
EXPRESSION_CHARACTERS_MAX = 17_408
"""The normal form of every allowed expression fits: 256 tags of 64 characters, each with ``||`` and two blanks."""


@dataclass(frozen=True, slots=True)
class TagsFilter(CompiledFilter):
    """A filter that matches if the message has one of *tags*. If *match_all*, the message must have all of them.

    A filter without tags matches every message. *written* are the distinct tags in the order written.
    """

    kind = "tags"
    tags: frozenset[str]
    written: tuple[str, ...]
    match_all: bool = False

    def evaluate(self, message: FilterInput) -> bool:
        """Return whether the message has one tag of the filter, or all tags if *match_all*.

        A filter without tags matches every message.
        """
        return self.tags.issubset(message.tags) if self.match_all else matches(message.tags, self.tags)

    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree with a child for each tag of the filter. The child says whether the message has this tag."""
        title = f"{'all of the ' if self.match_all else ''}tags: {', '.join(self.written) or 'everything'}"
        return _explain_tags(title, self.written, message, self.evaluate(message))

    def as_json(self) -> dict[str, object]:
        """Return the distinct tags in the order written, and ``match`` only if it is ``all``."""
        match: dict[str, object] = {"match": "all"} if self.match_all else {}
        return {"kind": self.kind, "tags": list(self.written), **match}


@dataclass(frozen=True, slots=True)
class TagExpressionFilter(TagsFilter):
    """A filter that matches if the message has one tag of a RocketMQ expression; ``*`` matches everything.

    Tags are compared by their exact texts, not by RocketMQ's hash codes.
    """

    kind = "tag_expression"

    @property
    def expression(self) -> str:
        """The expression in its normal form, ``TagA || TagB`` or ``*``."""
        return " || ".join(self.written) or EVERYTHING

    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree with a child for each tag of the expression. The child says whether the message has the tag."""
        return _explain_tags(self.expression, self.written, message, self.evaluate(message))

    def as_json(self) -> dict[str, object]:
        """Return the expression in its normal form."""
        return {"kind": self.kind, "expression": self.expression}


def compile_tags(value: FilterValue) -> TagsFilter:
    """Compile ``{"kind": "tags", "tags": [...], "match": "any" | "all"}``. Raises InvalidFilterError with all faults.

    >>> compile_tags({"kind": "tags", "tags": ["apple", "apple"]}).as_json()
    {'kind': 'tags', 'tags': ['apple']}
    """
    faults = unknown_keys(value, frozenset({"kind", "tags", "match"}))
    match = value.get("match", "any")
    if not isinstance(match, str) or match not in ("any", "all"):
        faults.append(Fault('must be "any" or "all"', "/match", FaultCode.NOT_ALLOWED))
    tags = list_of_text(value, "tags", FILTER_TAGS_MAX, "tags", faults)
    for tag, place in tags.items():
        faults.extend(Fault(detail, f"/tags/{place}", code) for detail, code in _tag_faults(tag))
    if faults:
        raise InvalidFilterError(tuple(faults))
    # With at most one tag, "all" equals "any".
    return TagsFilter(frozenset(tags), tuple(tags), match_all=match == "all" and len(tags) > 1)


def compile_tag_expression(value: FilterValue) -> TagExpressionFilter:
    """Compile ``{"kind": "tag_expression", "expression": "TagA || TagB"}``; a missing expression matches everything.

    Raises InvalidFilterError. A syntax error raises the subclass FilterSyntaxError.

    >>> compile_tag_expression({"kind": "tag_expression", "expression": "A||B"}).as_json()
    {'kind': 'tag_expression', 'expression': 'A || B'}
    """
    faults = unknown_keys(value, frozenset({"kind", "expression"}))
    expression = value.get("expression")
    if expression is not None and not isinstance(expression, str):
        faults.append(Fault("must be a text or null", "/expression", FaultCode.WRONG_TYPE))
    elif expression is not None and len(expression) > EXPRESSION_CHARACTERS_MAX:
        detail = f"must have at most {EXPRESSION_CHARACTERS_MAX} characters"
        faults.append(Fault(detail, "/expression", FaultCode.TOO_LARGE))
    if faults:
        raise InvalidFilterError(tuple(faults))
    assert expression is None or isinstance(expression, str)
    tags = parse_tag_expression(expression)
    if len(tags) > EXPRESSION_TAGS_MAX:
        faults.append(Fault(f"must have at most {EXPRESSION_TAGS_MAX} tags", "/expression", FaultCode.TOO_LARGE))
    faults.extend(Fault(detail, "/expression", code) for tag in tags for detail, code in _tag_faults(tag))
    if faults:
        raise InvalidFilterError(tuple(faults))
    return TagExpressionFilter(frozenset(tags), tags)


def _tag_faults(tag: str) -> Iterator[tuple[str, FaultCode]]:
    if not tag:
        yield "a tag must not be empty", FaultCode.TOO_SMALL
    if len(tag) > TAG_CHARACTERS_MAX:
        yield f"a tag must have at most {TAG_CHARACTERS_MAX} characters", FaultCode.TOO_LARGE
    if not is_plain_text(tag):
        yield "a tag must not have control characters or unpaired surrogates", FaultCode.WRONG_FORMAT


def _explain_tags(text: str, wanted: tuple[str, ...], message: FilterInput, verdict: bool) -> Explanation:
    if not wanted:
        return Explanation(text, True, note="a filter without tags matches everything")
    children = tuple(Explanation(tag, tag in message.tags) for tag in wanted)
    common = [tag for tag in wanted if tag in message.tags]
    missing = [tag for tag in wanted if tag not in message.tags]
    has = quote_texts(sorted(message.tags))
    note = f"common: {quote_texts(common)}; missing: {quote_texts(missing)}; the message has {has}"
    return Explanation(text, verdict, children, note)
