"""Ratios of the filter index against named baselines. Run: ``python -m tests.benchmarks.filters``.

Only ratios of one run mean something; nothing here fails because a machine is slow.
"""

import gc
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tagcast.filters import CompiledFilter, compile_filter
from tagcast.routing_trie import RoutingTrie
from tagcast.sql92 import CompiledExpression, compile_sql92
from tagcast.sql92_index import Sql92Index
from tagcast.tags import matches
from tagcast.topic_index import TopicIndex

SUBSCRIPTIONS = 10_000
ROUNDS = 5


@dataclass(frozen=True)
class Message:
    """What filters read."""

    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


def cpu_s(work: Callable[[], object]) -> float:
    """Process CPU seconds of one call, the median of several."""
    measured = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        measured.append(time.process_time() - started)
    return sorted(measured)[ROUNDS // 2]


def row(name: str, ours_s: float, baseline_s: float, count: int, wanted: str) -> None:
    """One line of the table: time per message, the baseline's, and the ratio."""
    ours, baseline = ours_s / count * 1e6, baseline_s / count * 1e6
    print(f"| {name} | {ours:,.1f} | {baseline:,.1f} | {baseline_s / ours_s:,.1f}x | {wanted} |")


def zipf(dice: random.Random, words: Sequence[str], count: int) -> list[str]:
    """Words drawn with falling frequency."""
    return dice.choices(words, [1 / (place + 1) for place in range(len(words))], k=count)


def tags_few(dice: random.Random) -> None:
    """Each subscription wants some of 5,000 tags, a message has three: few match."""
    words = [f"tag{n}" for n in range(5_000)]
    wanted = {n: dice.sample(words, dice.randint(1, 5)) for n in range(SUBSCRIPTIONS)}
    messages = [Message(tuple(dice.sample(words, dice.randint(1, 3)))) for _ in range(40)]
    index = TopicIndex.build({n: {"kind": "tags", "tags": tags} for n, tags in wanted.items()})
    rules = [(n, frozenset(tags)) for n, tags in wanted.items()]
    naive = cpu_s(lambda: [[n for n, tags in rules if matches(m.tags, tags)] for m in messages])
    ours = cpu_s(lambda: [[index.match(m) for m in messages] for _ in range(20)]) / 20
    row("tags, few match; naive scan", ours, naive, len(messages), ">= 100x")


def tags_many(dice: random.Random) -> None:
    """A sixth is untagged and 50 tags are common: thousands match. The baseline writes out the known matches."""
    words = [f"tag{n}" for n in range(50)]
    filters = {
        n: {"kind": "tags", "tags": sorted(set(zipf(dice, words, dice.randint(0, 5))))} for n in range(SUBSCRIPTIONS)
    }
    messages = [Message(tuple(set(zipf(dice, words, dice.randint(1, 10))))) for _ in range(40)]
    index = TopicIndex.build(filters)
    matched = [index.match(message).ordinals for message in messages]
    records = list(range(SUBSCRIPTIONS))
    writing = cpu_s(lambda: [tuple(map(records.__getitem__, found)) for found in matched])
    ours = cpu_s(lambda: [index.match(message) for message in messages])
    row("tags, many match; writing them out", ours, writing, len(messages), ">= 0.33x")


def patterns(dice: random.Random, count: int) -> list[str]:
    """Topic patterns of 2-6 words: 15 % ``*``, some inner and trailing ``#``."""
    words = [[f"w{level}_{n}" for n in range(200)] for level in range(6)]
    made = []
    for _ in range(count):
        depth = dice.randint(2, 6)
        chosen = [zipf(dice, words[level], 1)[0] if dice.random() > 0.15 else "*" for level in range(depth)]
        if dice.random() < 0.03:
            chosen[dice.randrange(depth)] = "#"
        if dice.random() < 0.15:
            chosen[-1] = "#"
        made.append(".".join(chosen))
    return made


def as_regex(pattern: str) -> re.Pattern[str]:
    """A pattern as the list of regular expressions does it."""
    source = r"\.".join({"*": r"[^.]*", "#": r".*"}.get(word, re.escape(word)) for word in pattern.split("."))
    return re.compile(source.replace(r"\..*", r"(?:\..*)?").replace(r".*\.", r"(?:.*\.)?"))


def routing(dice: random.Random) -> None:
    """10,000 patterns, distinct keys; warm = the automaton has met such keys, memo = the very same keys."""
    made = patterns(dice, SUBSCRIPTIONS)
    words = [[f"w{level}_{n}" for n in range(200)] for level in range(6)]
    keys = list({".".join(zipf(dice, words[level], 1)[0] for level in range(dice.randint(2, 6))) for _ in range(4_000)})
    trie = RoutingTrie((pattern, n) for n, pattern in enumerate(made))
    compiled = [as_regex(pattern) for pattern in made]
    sample = keys[:30]
    regex = cpu_s(lambda: [[n for n, r in enumerate(compiled) if r.fullmatch(key)] for key in sample]) / len(sample)
    for key in keys:
        trie.match(key)
    warm = cpu_s(lambda: [trie.walk(key) for key in keys])
    row("routing keys, warm automaton; regex list", warm, regex * len(keys), len(keys), ">= 50x, <= 5 us")
    memo = cpu_s(lambda: [trie.match(key) for key in keys])
    row("routing keys, memo; regex list", memo, regex * len(keys), len(keys), "")


def expressions(dice: random.Random, count: int, distinct: bool) -> list[str]:
    """``=`` with ranges, IN with BETWEEN, OR and NOT; ``distinct`` makes every threshold another one."""
    categories = [f"c{n}" for n in range(100)]

    def number(most: int) -> str:
        return f"{dice.uniform(0, most):.6f}" if distinct else str(dice.randint(0, most))

    made = []
    for _ in range(count):
        category, region = zipf(dice, categories, 1)[0], f"r{dice.randrange(10)}"
        low = dice.randint(0, 50)
        made.append(
            dice.choice(
                [
                    f"region = '{region}' AND price > {number(1000)}",
                    f"category IN ('{category}', '{dice.choice(categories)}') AND level BETWEEN {low} AND {low + 20}",
                    f"uid = 'u{dice.randrange(10_000)}'",
                    f"(category = '{category}' OR uid = 'u{dice.randrange(10_000)}') AND NOT (flag = 'on')",
                    f"level BETWEEN {low} AND {low + 9} AND category = '{category}' AND price < {number(1000)}",
                ]
            )
        )
    return made


def property_sets(dice: random.Random, count: int) -> list[dict[str, str]]:
    """Messages of six properties."""
    categories = [f"c{n}" for n in range(100)]
    return [
        {
            "region": f"r{dice.randrange(10)}",
            "category": zipf(dice, categories, 1)[0],
            "level": str(dice.randint(0, 100)),
            "price": str(dice.randint(0, 1000)),
            "uid": f"u{dice.randrange(10_000)}",
            "flag": dice.choice(["on", "off"]),
        }
        for _ in range(count)
    ]


def sql92(dice: random.Random, distinct: bool) -> None:
    """10,000 expressions; the baseline evaluates each compiled expression."""
    compiled: list[CompiledExpression] = [compile_sql92(text) for text in expressions(dice, SUBSCRIPTIONS, distinct)]
    messages = property_sets(dice, 200)
    index = Sql92Index.build(enumerate(compiled))
    few = messages[:5]
    walking = cpu_s(lambda: [[e.evaluate(m) for e in compiled] for m in few]) / len(few)
    for message in messages * 4:
        index.match(message)
    ours = cpu_s(lambda: [index.match(message) for message in messages])
    name = "all thresholds distinct" if distinct else "whole thresholds"
    row(f"SQL92, {name}; every tree", ours, walking * len(messages), len(messages), ">= 100x")


def snapshot(dice: random.Random) -> None:
    """A topic of all kinds; the baseline compiles the filters and builds the index."""
    words = [f"tag{n}" for n in range(5_000)]
    texts = expressions(dice, SUBSCRIPTIONS // 3, distinct=True)
    filters: list[dict[str, object]] = [{"kind": "sql92", "expression": text} for text in texts]
    filters += [{"kind": "routing_key", "patterns": [p]} for p in patterns(dice, SUBSCRIPTIONS // 3)]
    while len(filters) < SUBSCRIPTIONS:
        filters.append({"kind": "tags", "tags": dice.sample(words, 3)})
    by_ordinal: dict[int, CompiledFilter] = {n: compile_filter(value) for n, value in enumerate(filters)}
    packed = TopicIndex.build(by_ordinal).to_snapshot()
    loading = cpu_s(lambda: TopicIndex.from_snapshot(packed))
    building = cpu_s(lambda: TopicIndex.build(dict(enumerate(filters))))
    row(f"snapshot of {len(packed) / 1e6:.1f} MB; compiling", loading, building, 1, "<= 50,000 us")


def main() -> None:
    """Print the table."""
    gc.disable()
    dice = random.Random(1)
    print("| what; baseline | us per message | baseline us | ratio | wanted |")
    print("|---|---|---|---|---|")
    tags_few(dice)
    tags_many(dice)
    routing(dice)
    sql92(dice, distinct=False)
    sql92(dice, distinct=True)
    snapshot(dice)


if __name__ == "__main__":
    main()
