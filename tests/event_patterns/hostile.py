"""Patterns and events that are made to take long, or to be refused badly."""

import json
import random
from collections.abc import Callable
from typing import Any

from tagcast.filters.event_pattern.leaves import weight_of_all
from tagcast.filters.event_pattern.pattern import read_pattern

from tests.event_patterns.pairs import pairs

BODY_BYTES_MAX = 262_144


def hostile_pair(dice: random.Random) -> tuple[Any, str]:
    """Return a pattern and the JSON text of an event."""
    pattern, event = dice.choice(_MAKERS)(dice)
    text = json.dumps(event, ensure_ascii=False)
    return pattern, text if len(text.encode()) <= BODY_BYTES_MAX else '{"a": 1}'


def generated(dice: random.Random) -> tuple[Any, Any]:
    """A small pair, often malformed."""
    pair = next(pairs(1, dice.randrange(1 << 40)))
    return json.loads(pair["pattern"]), json.loads(pair["event"])


def elements(dice: random.Random) -> tuple[Any, Any]:
    """Two fields that no element of a large array has together."""
    count = dice.randrange(1, 6_000)
    odd = [{"x": n % 2, "y": (n + 1) % 2} for n in range(count)]
    return {"a": {"x": [1], "y": [1], "z": [{"exists": False}]}}, {"a": odd}


def nested(dice: random.Random) -> tuple[Any, Any]:
    """Arrays in arrays, each with a choice of its own."""
    size = dice.randrange(1, 70)
    rows = [{"x": n, "b": [{"y": k, "z": n - 1} for k in range(size)]} for n in range(size)]
    return {"a": {"b": {"y": [{"numeric": [">=", 0]}], "z": [size]}, "x": [{"exists": True}]}}, {"a": rows}


def routes(dice: random.Random) -> tuple[Any, Any]:
    """One path that many ways lead to, each through an array."""
    names = ("p.q.r.s", "p.q.r", "p.q", "p")
    event: dict[str, Any] = {}
    for name in names:
        inside: Any = [{f"k{dice.randrange(9)}": n} for n in range(dice.randrange(1, 400))]
        for step in reversed("p.q.r.s"[len(name) + 1 :].split(".")):
            inside = {step: inside} if step else inside
        event[name] = inside
    return {"p": {"q": {"r": {"s": {f"k{n}": [{"numeric": [">", n]}] for n in range(9)}}}}}, event


def alternatives(dice: random.Random) -> tuple[Any, Any]:
    """As many combinations as are taken, or more, on an array of objects."""
    width = dice.randrange(2, 12)
    pattern = {f"o{n}": {"$or": [{f"x{k}": [{"exists": True}]} for k in range(width)]} for n in range(3)}
    members = {f"x{k}": 1 for k in range(width)}
    return {**pattern, "z": ["no"]}, {f"o{n}": [members] * 100 for n in range(3)} | {"z": ["yes"] * 100}


def wildcards(dice: random.Random) -> tuple[Any, Any]:
    """Long repetitive texts and wildcards that nearly fit."""
    part = "a" * dice.randrange(1, 400) + "b" + "a" * dice.randrange(1, 90)
    leaves: list[Any] = [{"wildcard": f"*{part}*{n}"} for n in range(32)]
    texts = ["a" * dice.choice((200, 2_400, 29_000, 240_000))] * dice.randrange(1, 4)
    return {"a": leaves if dice.random() < 0.5 else [{"anything-but": {"wildcard": ["*a*a*a*b"] * 30}}]}, {"a": texts}


def many_leaves(dice: random.Random) -> tuple[Any, Any]:
    """Many comparisons of many values."""
    operator = dice.choice(("prefix", "suffix", "equals-ignore-case"))
    count = dice.randrange(1, 900)
    text = dice.choice(("x", "é", "ß"))
    leaves: list[Any] = [{operator: f"{text}{n}"} for n in range(count)]
    if dice.random() < 0.5:
        leaves = [{"anything-but": {operator: [f"{text}{n}" for n in range(count)]}}]
    return {"a": leaves}, {"a": [f"{text * dice.randrange(1, 9)}{n}" for n in range(dice.randrange(1, 8_000))]}


def as_much_as_is_judged(dice: random.Random) -> tuple[Any, Any]:
    """About as many values of a path as a pattern of some leaves is asked about."""
    leaf, value = dice.choice(_ASKED)
    count = dice.randrange(1, 200)
    leaves = [leaf(n) for n in range(count)]
    if dice.random() < 0.2:
        return {"$or": [{"a": [f"x{n}"]} for n in range(count + 1)]}, {"a": [f"y{n}" for n in range(33_000 // count)]}
    weight = weight_of_all(read_pattern({"a": leaves}).conditions[0].leaves)
    return {"a": leaves}, {"a": [value(n) for n in range(min(100_000 // weight, 16_000))]}


_ASKED: tuple[tuple[Callable[[int], Any], Callable[[int], Any]], ...] = (
    (lambda n: {"prefix": f"x{n}"}, lambda n: f"y{n}"),
    (lambda n: {"numeric": [">", n, "<", n + 0.5]}, lambda n: -n),
    (lambda n: {"equals-ignore-case": f"{'a' * 12}{n}"}, lambda n: f"{'a' * 12}é"),
    (lambda n: {"suffix": {"equals-ignore-case": f"{n}{'ß' * 8}"}}, lambda n: f"x{'SS' * 8}"),
    (lambda n: {"cidr": f"2001:{n:x}::/32"}, lambda n: f"2002:0:0:0:1:1:{n:x}:1"),
    (lambda n: {"wildcard": f"a*b{n}"}, lambda n: f"ab{n}c"),
)


def long_cases(dice: random.Random) -> tuple[Any, Any]:
    """Long texts whose case is ignored."""
    text = dice.choice(("ß", "é", "İ", "a")) * dice.randrange(1, 7_000)
    where = dice.choice(({"equals-ignore-case": text}, {"suffix": {"equals-ignore-case": text}}))
    return {"a": [where]}, {"a": [text.upper() + "x", "s" * 60_000, text * 3]}


def numbers(dice: random.Random) -> tuple[Any, Any]:
    """Numbers of all sizes."""
    made = [dice.choice((10**300, -(10**17) + n, n / 7, 1e-320, 2**53 + n)) for n in range(dice.randrange(1, 3_000))]
    return {"a": [{"numeric": [">", dice.uniform(-5, 5)]}, made[0]]}, {"a": made}


def deep(dice: random.Random) -> tuple[Any, Any]:
    """Deep objects and long names."""
    levels, name = dice.randrange(1, 120), "n" * dice.randrange(1, 600)
    pattern: Any = [1]
    event: Any = 1
    for _ in range(levels):
        pattern, event = {name: pattern}, {name: event}
    return pattern, event


def odd_values(dice: random.Random) -> tuple[Any, Any]:
    """What is no pattern at all."""
    junk: Any = dice.choice((None, True, 1, "x", [], {}, [[]], {"a": [{"b": [{"c": []}]}]}))
    return dice.choice((junk, {"a": junk}, {"a": [junk]}, {"a": [{"anything-but": junk}]}, {"$or": junk})), {"a": junk}


_MAKERS = (
    *(generated, elements, nested, routes, alternatives, wildcards),
    *(many_leaves, as_much_as_is_judged, long_cases, numbers, deep, odd_values),
)
