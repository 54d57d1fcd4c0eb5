"""What filters said of a message stands when parts of it go, in whatever order, and what nobody can know is told."""

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tagcast.instant import DAY_MS

from glue_jobs.auditing.audit_late import _matches, _recorded_verdict
from glue_jobs.auditing.audit_matching import TopicFilters
from glue_jobs.auditing.filter_set import FilterSet
from glue_jobs.auditing.history import FOREVER, FilterInForce
from glue_jobs.backtest import compare_batches
from glue_jobs.erasing.contents import Part, forget_parts, hashes_of
from glue_jobs.io.messages_read import Known, body_of

PATTERN = '{"kind": "event_pattern", "pattern": {"n": [1]}}'
ENVELOPE = '{"kind": "event_pattern", "scope": "envelope", "pattern": {"source": ["shop"], "detail": {"n": [1]}}}'
FILTERS = (
    None,
    '{"kind": "function", "function": "rate"}',
    '{"kind": "tags", "tags": ["apple"]}',
    '{"kind": "tags", "tags": ["pear"]}',
    '{"kind": "tag_expression", "expression": "!apple"}',
    '{"kind": "routing_key", "patterns": ["a.*"]}',
    '{"kind": "sql92", "expression": "price > 3"}',
    '{"kind": "sql92", "expression": "price is null"}',
    '{"kind": "sql92", "dialect": "rocketmq", "expression": "TAGS = \'apple\'"}',
    '{"kind": "event_pattern", "scope": "properties", "pattern": {"price": ["5"]}}',
    '{"kind": "event_pattern", "scope": "properties", "pattern": {"price": [{"exists": false}]}}',
    PATTERN,
    ENVELOPE,
)
TOPIC = TopicFilters([FilterInForce(n, each, 1, FOREVER, None, False, n + 1) for n, each in enumerate(FILTERS)])
WHOLE: dict[str, Any] = {
    "record_id": "fruit.1", "salt": "5a" * 16, "tags": ["apple"], "routing_key": "a.b",
    "properties": {"price": "5", "source": "shop"}, "body": '{"n": 1}',
}  # fmt: skip
MESSAGES = (
    WHOLE,
    {**WHOLE, "body": None},
    {**WHOLE, "properties": None},
    {**WHOLE, "tags": ["pear"], "routing_key": None, "properties": {"price": "2"}, "body": '{"n": 2}'},
    {"record_id": "fruit.2", "salt": "5a" * 16, "content_type": "text/plain"},
)


def known_of(record: Mapping[str, Any]) -> Known:
    pairs = tuple((record.get("properties") or {}).items())
    body = body_of(record.get("body"), record.get("body_base64"))
    return tuple(record.get("tags") or ()), record.get("routing_key"), pairs, body


def without(record: dict[str, Any], parts: tuple[Part, ...]) -> dict[str, Any]:
    """As the jobs do it: the verdicts are written down with those of parts that went before."""
    gone, before = tuple(record.get("hashes") or ()), record.get("matching") or ()
    names = sorted({*before, *TOPIC.names_of(known_of(record), gone, parts, frozenset(range(len(FILTERS))))})
    return forget_parts(record, parts, matching=names)


def said(record: Mapping[str, Any]) -> tuple[set[int], set[int]]:
    places, unread = TOPIC.verdicts(known_of(record), tuple(record.get("hashes") or ()), record.get("matching") or ())
    return {*places} - {*unread}, {*unread}


@pytest.mark.parametrize("number", range(len(MESSAGES)))
def test_every_filter_says_after_parts_went_what_it_said_before(number: int) -> None:
    record = MESSAGES[number]
    before, leaf = said(record), hashes_of(record)
    steps = [(part,) for part in Part] + [(Part.BODY, Part.PROPERTIES), tuple(Part)]
    for order in itertools.permutations(steps, 3):
        now = record
        for parts in order:
            now = without(now, parts)
            assert said(now) == before, (order, parts)
            assert hashes_of(now) == leaf


def test_only_filters_that_an_audit_may_ask_for_are_written_down() -> None:
    """A topic may have had thousands of subscriptions, and each name takes room in each message."""
    accepted_at, expires_at, hour = 100 * DAY_MS, 101 * DAY_MS, 3_600_000
    asked = {
        "in force": FilterInForce(0, None, 1, FOREVER, None, False),
        "deleted while it lived": FilterInForce(1, None, 1, FOREVER, accepted_at + 1, False),
        "deleted just before, by another clock": FilterInForce(2, None, 1, FOREVER, accepted_at - hour, False),
        "deleted long before, and it has a delivery": FilterInForce(3, None, 1, FOREVER, 1, False),
        "of a group that is younger": FilterInForce(4, None, 8, FOREVER, None, False, changed_at=expires_at),
    }
    others = {
        "replaced before": FilterInForce(0, None, 1, 5, None, False),
        "deleted long before": FilterInForce(5, None, 1, FOREVER, accepted_at - hour - 1, False),
        "made after its life": FilterInForce(6, None, 8, FOREVER, None, False, changed_at=expires_at + hour + 1),
    }
    topic = TopicFilters([*others.values(), *asked.values()])

    found = topic.filters_to_audit(5, [0, 3], accepted_at, expires_at)

    assert {topic.filters[place] for place in found} == {*asked.values()}


def test_what_was_never_known_stays_unknown() -> None:
    unread = {FILTERS.index(PATTERN), FILTERS.index(ENVELOPE)}
    without_body = MESSAGES[1]
    assert said(without_body)[1] == said(without(without_body, tuple(Part)))[1] == unread


def test_a_filter_that_this_release_cannot_read_is_undecided_and_written_down_as_such() -> None:
    later = '{"kind": "of a later release"}'
    topic = TopicFilters([FilterInForce(0, later, 1, FOREVER, None, False, 1), *TOPIC.filters[1:]])
    known, every = known_of(WHOLE), frozenset(range(len(FILTERS)))
    places, undecided = topic.verdicts(known, (), ())
    assert ((0, *places), undecided) == (TOPIC.matching(known), frozenset({0}))
    assert "?0.1" in topic.names_of(known, (), [Part.BODY], every)
    # A release that could read it wrote its verdict down, or knew that it reads no body.
    places, undecided = topic.verdicts(known, [Part.BODY], ["0.1"])
    assert (0 in places, undecided) == (True, frozenset())
    assert topic.verdicts(known, [Part.BODY], [])[1] == {0}
    assert _matches(later, known) is None


def test_a_late_entry_is_judged_by_what_was_written_down_or_not_at_all() -> None:
    assert _matches(PATTERN, known_of(MESSAGES[1])) is None
    assert (_matches(PATTERN, known_of(WHOLE)), _matches(PATTERN, known_of(MESSAGES[3]))) == (True, False)
    assert (
        _recorded_verdict("3.1", ["3.1"]),
        _recorded_verdict("3.1", ["3.2"]),
        _recorded_verdict("3.1", ["?3.1"]),
    ) == (True, False, None)


def test_a_backtest_judges_a_message_only_by_what_is_left_of_it() -> None:
    """Filters by number; those that a message leaves unjudged are neither its matches nor its misses."""
    candidates = FilterSet.of(
        None if each is None else json.loads(each) for each in FILTERS if "function" not in f"{each}"
    )
    kinds = [each.kind for each in candidates.filters]

    def unjudged(*gone: Part, content: bytes | None = b"{}") -> list[str]:
        return sorted({kinds[number] for number in candidates.find_unjudged(content, gone)})

    assert unjudged() == []
    assert unjudged(content=None) == unjudged(Part.BODY) == ["event_pattern"]
    assert unjudged(Part.PROPERTIES) == ["event_pattern", "sql92"]
    assert unjudged(Part.KEYS) == ["event_pattern", "routing_key", "sql92", "tag_expression", "tags"]
    assert len(candidates.find_unjudged(b"{}", [Part.PROPERTIES])) == 6


def test_a_comparison_counts_apart_what_one_of_both_filters_cannot_judge() -> None:
    both = FilterSet.of([{"kind": "sql92", "expression": "price is null"}, {"kind": "tags", "tags": ["apple"]}])
    rows = [
        {"hour": 0, "tags": ["apple"], "routing_key": None, "texts": [None], "content": None, "gone": gone, "number": n}
        for n, gone in ((1, []), (2, ["properties"]), (4, ["keys"]), (8, ["body"]))
    ]
    [told] = compare_batches(iter([pa.RecordBatch.from_pylist(rows)]), both)
    assert {row["name"]: row["number"] for row in told.to_pylist()} == {"both": 9, "unjudged": 6}
