"""Generated topics and messages; the same seed gives the same."""

import random
from collections.abc import Callable, Sequence

WORDS = [[f"w{level}_{n}" for n in range(200)] for level in range(6)]
CATEGORIES = [f"c{n}" for n in range(100)]
TAGS = [f"tag{n}" for n in range(5_000)]


def zipf(dice: random.Random, words: Sequence[str], count: int) -> list[str]:
    """Words drawn with falling frequency."""
    return dice.choices(words, [1 / (place + 1) for place in range(len(words))], k=count)


def patterns(dice: random.Random, count: int) -> list[str]:
    """Different routing-key patterns of 2-6 words: 15 % ``*``, some with ``#`` at the end, as MQTT has them, too."""
    made: dict[str, None] = {}
    while len(made) < count:
        depth = dice.randint(2, 6)
        chosen = [zipf(dice, WORDS[level], 1)[0] if dice.random() > 0.15 else "*" for level in range(depth)]
        if dice.random() < 0.15:
            chosen[-1] = "#"
        made[".".join(chosen)] = None
    return list(made)


def keys(dice: random.Random, count: int) -> list[str]:
    """Different routing keys of 2-6 words."""
    made: dict[str, None] = {}
    while len(made) < count:
        made[".".join(zipf(dice, WORDS[level], 1)[0] for level in range(dice.randint(2, 6)))] = None
    return list(made)


def mixed(dice: random.Random, count: int) -> list[str]:
    """``=`` with ranges, IN with BETWEEN, OR and NOT."""

    def number(most: int) -> str:
        return f"{dice.uniform(1, most):.6f}" if dice.random() < 0.5 else str(dice.randint(0, most))

    made = []
    for _ in range(count):
        category, low = zipf(dice, CATEGORIES, 1)[0], dice.randint(0, 50)
        made.append(
            dice.choice(
                [
                    f"region = 'r{dice.randrange(10)}' AND price > {number(1000)}",
                    f"category IN ('{category}', '{dice.choice(CATEGORIES)}') AND level BETWEEN {low} AND {low + 20}",
                    f"uid = 'u{dice.randrange(10_000)}'",
                    f"(category = '{category}' OR uid = 'u{dice.randrange(10_000)}') AND NOT (flag = 'on')",
                    f"level BETWEEN {low} AND {low + 9} AND category = '{category}' AND price < {number(1000)}",
                ]
            )
        )
    return made


def ranges(dice: random.Random, count: int) -> list[str]:
    """Two bounds and nothing else."""
    return [f"price > {dice.uniform(1, 1000):.6f} AND level < {dice.uniform(1, 100):.6f}" for _ in range(count)]


def three_of_fifty(dice: random.Random, count: int) -> list[str]:
    """AND of three equalities over 50 values each."""
    return [" AND ".join(f"{name} = 'v{dice.randrange(50)}'" for name in "abc") for _ in range(count)]


def two_or_three(dice: random.Random, count: int) -> list[str]:
    """AND of two or three equalities of five properties."""
    choices: list[Callable[[], str]] = [
        lambda: f"region = 'r{dice.randrange(10)}'",
        lambda: f"category = '{zipf(dice, CATEGORIES, 1)[0]}'",
        lambda: f"level = '{dice.randrange(101)}'",
        lambda: f"flag = '{dice.choice(['on', 'off'])}'",
        lambda: f"uid = 'u{dice.randrange(10_000)}'",
    ]
    return [" AND ".join(make() for make in dice.sample(choices, dice.randint(2, 3))) for _ in range(count)]


def searches(dice: random.Random, count: int) -> list[str]:
    """What no index can look up."""
    return [f"uid LIKE 'u{dice.randrange(10_000)}%' OR flag CONTAINS 'x{dice.randrange(99)}'" for _ in range(count)]


def property_sets(dice: random.Random, count: int) -> list[dict[str, str]]:
    """Messages of nine properties."""
    return [
        {
            "region": f"r{dice.randrange(10)}",
            "category": zipf(dice, CATEGORIES, 1)[0],
            "level": str(dice.randint(0, 100)),
            "price": str(dice.randint(0, 1000)),
            "uid": f"u{dice.randrange(10_000)}",
            "flag": dice.choice(["on", "off"]),
            **{name: f"v{dice.randrange(50)}" for name in "abc"},
        }
        for _ in range(count)
    ]
