"""An index after changes agrees with one built of what is there now."""

import random

from tagcast.filters.index.changed_index import CHANGES_MAX, ChangedIndex, with_changes
from tagcast.filters.index.topic_index import TopicIndex

from tests.unit.test_topic_index import one_by_one, some_filter, some_message


def test_an_index_after_changes_agrees_with_the_rule() -> None:
    dice = random.Random(64)
    for _ in range(150):
        filters = {dice.randrange(40): some_filter(dice) for _ in range(dice.choice([0, 1, 20]))}
        index: TopicIndex | ChangedIndex = TopicIndex.build(filters)
        for _ in range(6):
            changed = {dice.randrange(40): some_filter(dice) for _ in range(dice.randint(0, 3))}
            removed = [n for n in dice.sample(sorted(filters), min(2, len(filters))) if n not in changed]
            filters = {n: f for n, f in filters.items() if n not in removed} | changed
            as_json = {ordinal: compiled.as_json() for ordinal, compiled in changed.items()}
            after = with_changes(index, as_json, removed)
            assert after is not None
            index = after
            message = some_message(dice)
            assert index.match(message) == one_by_one(filters, message)


def test_an_index_before_a_change_stays_as_it_was() -> None:
    index = with_changes(TopicIndex.build({1: None}), {2: None}, [])
    assert index is not None
    with_changes(index, {3: None}, [1, 2])
    assert index.match(some_message(random.Random(1))).ordinals == (1, 2)


def test_after_many_changes_an_index_is_built_anew() -> None:
    index = TopicIndex.build({})
    assert with_changes(index, dict.fromkeys(range(CHANGES_MAX)), []) is not None
    assert with_changes(index, dict.fromkeys(range(CHANGES_MAX + 1)), []) is None
