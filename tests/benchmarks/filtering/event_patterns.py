"""Event patterns: the index beside a walk over all rules, and sets that another engine can be timed on.

`python -m tests.benchmarks.filters patterns` prints the table. `python -m tests.benchmarks.filtering.event_patterns
FOLDER` writes each set as JSON lines (rules, events), for another engine on the same machine.
"""

import json
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tagcast.filters.event_pattern.evaluate import matches
from tagcast.filters.event_pattern.event import Event, event_in
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.index.event_index import PatternIndex
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter

from tests.benchmarks.filtering.measure import Message, beside, cpu_us
from tests.benchmarks.ratios import report

RULES, EVENTS, WALKED = 10_000, 1_000, 20
WORDS = [f"{letter}{number}" for letter in "abcdefghij" for number in range(30)]
Rule = dict[str, Any]


def an_event(dice: random.Random) -> dict[str, Any]:
    """An event of about 1 KiB with 20 fields."""
    texts = {f"t{n}": f"{dice.choice(WORDS)}-{dice.choice(WORDS)}-{'x' * 22}" for n in range(8)}
    kinds = {f"k{n}": dice.choice(WORDS) for n in range(5)}
    numbers = {f"n{n}": round(dice.uniform(0, 1_000), 2) for n in range(4)}
    inner = {"user": {"id": f"u{dice.randrange(10_000)}", "ip": f"10.{dice.randrange(256)}.{dice.randrange(256)}.7"}}
    note = "word " * 80
    return {**texts, **kinds, **numbers, **inner, "note": note, "ok": dice.random() < 0.5}


def equalities(dice: random.Random) -> Rule:
    """One value of one field."""
    return {"user": {"id": [f"u{dice.randrange(10_000)}"]}}


def prefixes(dice: random.Random) -> Rule:
    """The beginning of one field."""
    return {"t0": [{"prefix": f"{dice.choice(WORDS)}-{dice.choice(WORDS)}"[: dice.randint(3, 8)]}]}


def three(dice: random.Random) -> Rule:
    """Three fields, one of thirty values each."""
    return {f"k{n}": [dice.choice(WORDS[n * 30 : n * 30 + 30])] for n in range(3)}


def three_event(dice: random.Random) -> dict[str, Any]:
    """An event for :func:`three`."""
    return {**an_event(dice), **{f"k{n}": dice.choice(WORDS[n * 30 : n * 30 + 30]) for n in range(3)}}


def mixed(dice: random.Random) -> Rule:
    """One to three conditions of all operators."""
    word, number = dice.choice(WORDS), round(dice.uniform(0, 1_000), 1)
    texts, kind, numeric = f"t{dice.randrange(8)}", f"k{dice.randrange(5)}", f"n{dice.randrange(4)}"
    choices: list[Callable[[], Rule]] = [
        lambda: {kind: [word, dice.choice(WORDS)]},
        lambda: {kind: [word]},
        lambda: {texts: [{"prefix": f"{word}-"}]},
        lambda: {texts: [{"suffix": f"{word[0]}x"}, {"prefix": word}]},
        lambda: {kind: [{"equals-ignore-case": word.upper()}]},
        lambda: {texts: [{"wildcard": f"{word}-*{dice.choice(WORDS)}*"}]},
        lambda: {numeric: [{"numeric": [">", number, "<=", number + 20]}]},
        lambda: {"user": {"ip": [{"cidr": f"10.{dice.randrange(256)}.0.0/16"}]}},
        lambda: {"user": {"id": [f"u{dice.randrange(10_000)}"]}},
    ]
    loose: list[Callable[[], Rule]] = [
        lambda: {"k4": [{"anything-but": [word, dice.choice(WORDS)]}]},
        lambda: {"n3": [{"numeric": [">=", number]}]},
        lambda: {"absent": [{"exists": False}]},
        lambda: {"t7": [{"anything-but": {"prefix": word}}]},
        lambda: {"ok": [True]},
    ]
    if dice.random() < 0.1:
        return {"$or": [{kind: [word]}, {texts: [{"prefix": f"{word}-"}]}], "ok": [True]}
    rule = dice.choice(choices)()
    for _ in range(dice.randrange(3)):
        for name, asked in dice.choice(choices + loose)().items():
            rule.setdefault(name, asked)
    return rule


SETS: Mapping[str, tuple[Callable[[random.Random], Rule], Callable[[random.Random], dict[str, Any]]]] = {
    "equalities": (equalities, an_event),
    "prefixes": (prefixes, an_event),
    "AND of three": (three, three_event),
    "mixed": (mixed, an_event),
}


def made(name: str) -> tuple[list[Rule], list[dict[str, Any]]]:
    """The rules and events of a set, always the same."""
    rule, event = SETS[name]
    dice = random.Random(28)
    return [rule(dice) for _ in range(RULES)], [event(dice) for _ in range(EVENTS)]


def patterns() -> None:
    """One line a set: microseconds without parsing, the walk over all rules, and what building and loading cost."""
    print("\nEvent patterns, 10,000 rules, events of 1 KiB with 20 fields, without parsing\n")
    print(
        "| set | matches | us | walk us | ratio | built s | snapshot MB | load ms | first ms | worst of 1,000 cold ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in SETS:
        print(f"| {name} | {' | '.join(_line(name))} |", flush=True)
    _parsing()


def _line(name: str) -> list[str]:
    rules, bodies = made(name)
    events = [Event.of(each) for each in bodies]
    values = {n: {"kind": "event_pattern", "pattern": rule} for n, rule in enumerate(rules)}
    built = cpu_us(lambda: TopicIndex.build(values)) / 1e6
    compiled = {n: compile_filter(value) for n, value in values.items()}
    each = [(n, one) for n, one in compiled.items() if isinstance(one, EventPatternFilter)]
    index = PatternIndex.build(each)
    found = 0
    for event in events[:WALKED]:
        expected = [n for n, one in each if matches(one.pattern, event)]
        assert sorted(index.match(event)[0]) == expected
        found += len(expected)
    ours, walk_us = beside(
        index.match, events, lambda event: [n for n, one in each if matches(one.pattern, event)], events[:WALKED]
    )
    report(f"event patterns, {name}", walk_us / ours.us, "a walk over all rules")
    packed = TopicIndex.build(compiled).to_snapshot()
    messages = [Message(body=json.dumps(body).encode()) for body in bodies]
    loading = cpu_us(lambda: TopicIndex.from_snapshot(packed)) / 1_000
    loaded = TopicIndex.from_snapshot(packed)
    cold = [cpu_us(lambda one=one: loaded.match(one)) / 1_000 for one in messages]  # type: ignore[misc]
    figures = [found / WALKED, ours.us, walk_us, walk_us / ours.us, built, len(packed) / 1e6]
    return [f"{figure:,.2f}" for figure in (*figures, loading, cold[0], max(cold))]


def _parsing() -> None:
    bodies = [json.dumps(an_event(random.Random(n))).encode() for n in range(2_000)]
    rounds = [[body + b" " * n for body in bodies] for n in range(5)]
    each = sorted(cpu_us(lambda new=new: [event_in(body) for body in new]) for new in rounds)  # type: ignore[misc]
    size = sum(map(len, bodies)) / len(bodies)
    print(f"\nparsing and flattening {size:,.0f} bytes: {each[2] / len(bodies):.1f} us")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name in SETS:
        rules, bodies = made(name)
        (folder / f"{name}.rules").write_text("".join(json.dumps(each) + "\n" for each in rules))
        (folder / f"{name}.events").write_text("".join(json.dumps(each) + "\n" for each in bodies))
