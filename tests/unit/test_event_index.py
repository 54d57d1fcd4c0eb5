"""The index of event patterns says what each pattern says by itself."""

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.errors import InvalidFilterError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.event_pattern import evaluate
from tagcast.filters.event_pattern.leaves import IgnoringCase
from tagcast.filters.event_pattern.pattern import Condition
from tagcast.filters.index import event_cell, event_index
from tagcast.filters.index.topic_index import Matched, TopicIndex
from tagcast.filters.kinds import compile_filter
from tagcast.strict_json import JSON_VALUES_MAX

from tests.event_patterns.pairs import pairs
from tests.fakes.calls import Before
from tests.unit.test_topic_index import one_by_one

EVERYTHING = compile_filter(None)
SCOPES = (("eventbridge", "body"), ("eventbridge", "envelope"), ("eventbridge", "properties"), ("sns", "properties"))


def message(dice: random.Random, event: str) -> Any:
    properties = {"a": dice.choice(["a", "1", "3.5", '["a", "1"]', "[", "ab"]), "b": dice.choice(["x", "12", "1e0"])}
    if not dice.randrange(8):
        properties = {}
    return SimpleNamespace(
        tags=("a", "b"), routing_key=dice.choice([None, "a"]), properties=properties, body=event.encode()
    )


def by_pattern(pattern: dict[str, Any], **settings: str) -> dict[str, Any]:
    return {"kind": "event_pattern", "pattern": pattern, **settings}


def with_body(event: object, **more: Any) -> Any:
    bare: dict[str, Any] = {"tags": (), "routing_key": None, "properties": {}, "body": json.dumps(event).encode()}
    return SimpleNamespace(**bare | more)


def topics(count: int, seed: int) -> Any:
    """Yield topics of up to thirty patterns with the events they were made for."""
    dice, made = random.Random(seed), pairs(1_000_000, seed)
    for _ in range(count):
        filters: dict[int, CompiledFilter] = {}
        events = []
        for ordinal in range(dice.randint(2, 30)):
            pair = next(made)
            events.append(message(dice, pair["event"]))
            dialect, scope = SCOPES[dice.choices(range(4), (6, 1, 1, 1))[0]]
            pattern = json.loads(pair["pattern"])
            written = {"detail": pattern} if scope == "envelope" else pattern
            try:
                filters[ordinal * 3] = compile_filter(by_pattern(written, dialect=dialect, scope=scope))
            except InvalidFilterError:
                continue
        if len(filters) > 1:
            yield filters, events


@pytest.mark.parametrize("cells", [(4_096, 3), (5, 0)], ids=["cells as they are", "small cells, no handful"])
def test_index_and_rule_agree_on_generated_patterns(cells: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_index, "CELL_MAX", cells[0])
    monkeypatch.setattr(event_index, "HANDFUL_MAX", cells[1])
    met = 0
    for filters, events in topics(40, seed=cells[0]):
        index = TopicIndex.build(filters)
        loaded = TopicIndex.from_snapshot(index.to_snapshot())
        again = TopicIndex.from_snapshot(loaded.to_snapshot())
        for each in events:
            expected = one_by_one(filters, each)
            met += len(expected.ordinals)
            assert index.match(each) == expected
            assert loaded.match(each) == expected
            assert again.match(each) == expected
        assert TopicIndex.from_snapshot(loaded.to_snapshot()).match(events[0]) == one_by_one(filters, events[0])
    assert met > 300


def test_a_list_attribute_matches_once_and_is_bounded_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    value = by_pattern({"a": [{"prefix": "x"}]}, dialect="sns", scope="properties")
    filters = {place: compile_filter(value) for place in (3, 4)}
    of = with_body(None, properties={"a": '["xb", "xc"]'})

    assert TopicIndex.build(filters).match(of) == one_by_one(filters, of) == Matched((3, 4), ())

    monkeypatch.setattr(evaluate, "COMPARISONS_MAX", 2 * filters[3].pattern.weight - 1)  # type: ignore[attr-defined]
    monkeypatch.setattr(event_index, "COMPARISONS_MAX", 2 * filters[3].pattern.weight - 1)  # type: ignore[attr-defined]
    assert TopicIndex.build(filters).match(of) == one_by_one(filters, of) == Matched((), (3, 4))


def test_the_values_of_an_envelope_count_in_the_index_as_in_the_rule() -> None:
    pattern = {"detail": {"a": [{"prefix": "x"}, {"prefix": "y"}]}, "resources": [{"prefix": "t"}, {"prefix": "u"}]}
    filters = {3: compile_filter(by_pattern(pattern, scope="envelope")), 4: EVERYTHING}
    of = with_body({"a": ["x"] * (JSON_VALUES_MAX - 1)}, tags=tuple(f"t{n}" for n in range(10)))

    assert TopicIndex.build(filters).match(of) == one_by_one(filters, of) == Matched((4,), (3,))


def test_what_takes_too_long_fails_in_the_index_as_in_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "COMPARISONS_MAX", 2)
    monkeypatch.setattr(event_index, "COMPARISONS_MAX", 2)
    monkeypatch.setattr(evaluate, "STEPS_MAX", 1)
    failed = 0
    for filters, events in topics(30, seed=7):
        index = TopicIndex.build(filters)
        for each in events:
            expected = one_by_one(filters, each)
            failed += len(expected.errors)
            assert index.match(each) == expected
    assert failed > 20


@pytest.mark.parametrize("beside", [{}, {"b": [{"prefix": "x"}]}, {"b": [{"numeric": [">", 0]}]}])
@pytest.mark.parametrize("count", [1, 20])
def test_what_takes_too_long_is_not_compared_at_all(count: int, beside: dict[str, object], before: Before) -> None:
    compared: list[IgnoringCase] = []
    before.each(IgnoringCase, "holds", lambda leaf, value: compared.append(leaf))
    texts = [[f"{letter}{number}ß" for letter in "éàüöä" * 2] for number in range(count)] + [["straße"]]
    leaves = [[{"equals-ignore-case": text} for text in each] for each in texts]
    filters = {number: by_pattern({"a": each, **beside}) for number, each in enumerate(leaves)}

    found = TopicIndex.build(filters).match(with_body({"a": ["STRASSE"] * 2_000, "b": ["x", 1]}))

    assert found == Matched((count,), tuple(range(count)))
    assert {leaf.text for leaf in compared} == {"straße"}


@pytest.mark.parametrize("count", [2, 20])
def test_an_alternative_is_asked_once_however_many_elements_have_its_value(count: int, before: Before) -> None:
    asked: list[Any] = []
    before.each(event_cell, "hold_together", lambda *given: asked.append(given))
    pattern = {"items": {"status": [{"prefix": "paid"}], "sku": ["A", "C7"]}}
    filters = {number: by_pattern({**pattern, "n": [{"anything-but": number}]}) for number in range(count)}
    items = [{"status": f"paid {place}", "sku": "B"} for place in range(500)] + [{"status": "open", "sku": "A"}]

    found = TopicIndex.build(filters).match(with_body({"items": items, "n": -1}))

    assert (found, len(asked)) == (Matched((), ()), count)


def test_the_elements_of_a_shared_condition_are_found_once(before: Before) -> None:
    found: list[object] = []
    before.each(Condition, "holds", lambda condition, value: found.append(value))
    items = [{"sku": "A", "status": "paid"}] * 100
    shared = {"sku": ["A"], "status": ["paid"]}
    patterns: list[dict[str, Any]] = [{"items": {**shared, "n": [number, None]}} for number in range(30)]
    patterns += [{"items": shared, "m": [number, 7]} for number in range(30)]
    index = TopicIndex.build(dict(enumerate(map(by_pattern, patterns))))
    result = index.match(with_body({"items": items, "m": 7}))
    assert result.ordinals == tuple(range(30, 60))
    assert len(found) < 1_000


def test_without_a_body_every_pattern_that_reads_it_fails() -> None:
    body, envelope, properties = (by_pattern({"a": [1]}, scope=scope) for scope in ("body", "envelope", "properties"))
    index = TopicIndex.build({1: body, 2: envelope, 3: properties, 4: None})

    found = index.match(with_body(None, body=None))

    assert found == Matched((4,), (1, 2))
