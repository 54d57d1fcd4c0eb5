"""Topic patterns: the table to pass, the trie against the plain rule, and no explosion."""

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.filters.index import routing_trie
from tagcast.filters.index.routing_trie import RoutingTrie
from tagcast.filters.routing_key import matches_key, split_words

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "routing_keys.json").read_text())
WORDS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "a*"]), max_size=7).map(".".join)


@pytest.mark.parametrize(("key", "numbers"), VECTORS["rows"].items())
def test_the_table_of_patterns_and_keys(key: str, numbers: list[int]) -> None:
    patterns = VECTORS["patterns"]
    assert [n for n, pattern in enumerate(patterns, 1) if matches_key(pattern, key)] == numbers
    trie = RoutingTrie((pattern, n) for n, pattern in enumerate(patterns, 1))
    assert list(trie.match(key)) == numbers


@pytest.mark.parametrize(("pattern", "key", "expected"), VECTORS["cases"])
def test_single_cases(pattern: str, key: str, expected: bool) -> None:
    assert matches_key(pattern, key) is expected
    assert bool(RoutingTrie([(pattern, 1)]).match(key)) is expected


def by_recursion(pattern: list[str], key: list[str]) -> bool:
    """The definition, word for word."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return by_recursion(pattern[1:], key) or (bool(key) and by_recursion(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and by_recursion(pattern[1:], key[1:])


@given(WORDS, WORDS)
def test_the_rule_is_the_definition(pattern: str, key: str) -> None:
    assert matches_key(pattern, key) is by_recursion(split_words(pattern), split_words(key))


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=6))
def test_trie_and_rule_agree_also_after_a_round_trip(patterns: list[str], keys: list[str]) -> None:
    trie = RoutingTrie((pattern, n) for n, pattern in enumerate(patterns))
    rows = json.loads(json.dumps(trie.as_rows()))
    for key in keys + keys:
        expected = tuple(n for n, pattern in enumerate(patterns) if matches_key(pattern, key))
        assert trie.match(key) == expected
        assert RoutingTrie.from_rows(*rows).match(key) == expected


def test_an_owner_of_several_patterns_is_found_once_however_they_overlap() -> None:
    trie = RoutingTrie([("#.a.#", 1), ("#.a.#.a", 1), ("a.#", 1), ("*.a.#", 2), ("#", 3)])
    assert trie.match("a.a.a") == (1, 2, 3)
    assert trie.match("b.a.b.a") == (1, 2, 3)
    assert trie.match("b") == (3,)


@pytest.mark.parametrize(("keys_max", "owners_max"), [(20, 10**6), (10**6, 40)])
def test_the_memo_stays_bounded_and_right(keys_max: int, owners_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_trie, "MEMO_KEYS_MAX", keys_max)
    monkeypatch.setattr(routing_trie, "MEMO_OWNERS_MAX", owners_max)
    dice = random.Random(3)
    patterns = [".".join(dice.choices("abc*#", k=dice.randint(1, 5))) for _ in range(60)]
    trie = RoutingTrie((pattern, n) for n, pattern in enumerate(patterns))
    for _ in range(300):
        key = ".".join(dice.choices("abcd", k=dice.randint(1, 6)))
        assert trie.match(key) == tuple(n for n, p in enumerate(patterns) if matches_key(p, key))
        assert trie.remembered[0] <= keys_max
        assert trie.remembered[1] <= max(owners_max, len(patterns))


@pytest.mark.parametrize("unit", ["#.", "#.a.", "a.#.", "*.#."])
def test_long_repetitive_patterns_do_not_explode(unit: str) -> None:
    pattern, key = unit * 1_000 + "z", "a." * 2_000 + "b"
    started = time.thread_time()
    assert not matches_key(pattern, key)
    assert bool(RoutingTrie([(pattern[:200], 1)]).match(key[:200])) is matches_key(pattern[:200], key[:200])
    assert time.thread_time() - started < 5
