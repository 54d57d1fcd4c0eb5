"""SQL92 expressions and tags beside evaluating each, beside rule-engine, and beside known times of JVM peers."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter
from tagcast.filters.sql92 import compile_sql92

from tests.benchmarks.filtering import loads
from tests.benchmarks.filtering.measure import Message, beside, compared_row, cost, head, row

RULER, ROCKETMQ = "event-ruler (JVM, docs)", "RocketMQ (JVM, docs)"
PEERS: Mapping[str, tuple[Callable[[random.Random, int], list[str]], int, str, float, str]] = {
    "mixed": (loads.mixed, 10_000, ROCKETMQ, 562, ">= 10 strict, >= 3 rocketmq"),
    "ranges only": (loads.ranges, 10_000, ROCKETMQ, 365, ">= 3"),
    "AND of 3, 50 values each": (loads.three_of_fifty, 10_000, RULER, 3.5, ">= 0.5"),
    "AND of 3, 50 values each, 100k": (loads.three_of_fifty, 100_000, RULER, 15.5, ">= 0.5"),
    "AND of 2-3": (loads.two_or_three, 10_000, RULER, 7.2, ">= 1"),
    "AND of 2-3, 100k": (loads.two_or_three, 100_000, RULER, 71, ">= 1"),
    "nothing to look up": (loads.searches, 1_000, "-", 0, ""),
}


def expressions() -> None:
    """Both dialects; the known times are of other machines, so that these ratios hold within a third."""
    head("SQL92, both dialects")
    messages = [Message(properties=each) for each in loads.property_sets(random.Random(3), 1_000)]
    for name, (make, count, peer, peer_us, wanted) in PEERS.items():
        texts = make(random.Random(1), count)
        for dialect in ("strict", "rocketmq") if "LIKE" not in texts[0] else ("strict",):
            compiled = {n: sql92(text, dialect) for n, text in enumerate(texts)}
            index = TopicIndex.build(compiled)
            few = messages[:3]
            for message in few:
                assert index.match(message).ordinals == tuple(n for n, f in compiled.items() if f.evaluate(message))
            cost(index.match, messages, rounds=1)
            row(f"{name}, {dialect}", cost(index.match, messages, rounds=3), peer, peer_us, wanted)
            if name == "mixed" and dialect == "strict":
                filters = list(compiled.values())
                ours, walked_us = beside(index.match, messages, partial(_each_evaluated, filters), few)
                compared_row(f"{name}, {dialect}", ours, "each evaluated", walked_us, 100)


def _each_evaluated(filters: Sequence[CompiledFilter], message: Message) -> list[bool | None]:
    return [each.evaluate(message) for each in filters]


def beside_rule_engine() -> None:
    """1,000 mixed expressions in its language."""
    import rule_engine  # Its parser takes half a second, and every run of the tests imports this module.

    head("SQL92 beside rule-engine, 1,000 mixed expressions")
    texts = loads.mixed(random.Random(1), 1_000)
    properties = loads.property_sets(random.Random(3), 200)
    rules = [rule_engine.Rule(translated(text)) for text in texts]
    typed = [{**each, "price": int(each["price"]), "level": int(each["level"])} for each in properties]
    index = TopicIndex.build({n: sql92(text, "strict") for n, text in enumerate(texts)})
    messages = [Message(properties=each) for each in properties]
    for message, each in zip(messages[:5], typed, strict=False):
        assert [n for n, rule in enumerate(rules) if rule.matches(each)] == list(index.match(message).ordinals)
    ours, theirs_us = beside(index.match, messages, lambda each: [rule.matches(each) for rule in rules], typed[:5])
    compared_row("1,000 mixed, strict", ours, "rule-engine", theirs_us, 100)


def tags() -> None:
    """Any of 1-5 of 5,000 tags; a message has three."""
    head("Tags, any of 1-5")
    for count, peer_us in ((1_000, 1.9), (10_000, 6.0), (100_000, 54.0)):
        dice = random.Random(1)
        index = TopicIndex.build(
            {n: {"kind": "tags", "tags": dice.sample(loads.TAGS, dice.randint(1, 5))} for n in range(count)}
        )
        messages = [Message(tuple(dice.sample(loads.TAGS, 3))) for _ in range(1_000)]
        row(f"{count:,} subscriptions", cost(index.match, messages), RULER, peer_us, ">= 1")


def single() -> None:
    """An index that holds one expression, against evaluating the expression."""
    head("One expression")
    properties = loads.property_sets(random.Random(3), 1_000)
    messages = [Message(properties=each) for each in properties]
    for text in ("region = 'r1'", "price > 100 AND region IN ('r1', 'r2')", "uid = 'u1' OR level = 7 AND price < 9.5"):
        for dialect in ("strict", "rocketmq"):
            expression = compile_sql92(text, dialect)
            index = TopicIndex.build({1: sql92(text, dialect)})
            ours, plain_us = beside(index.match, messages, expression.evaluate, properties)
            compared_row(f"{text}, {dialect}", ours, "evaluating it", plain_us, 0.67)


def sql92(text: str, dialect: str):  # type: ignore[no-untyped-def]
    return compile_filter({"kind": "sql92", "expression": text, "dialect": dialect})


def translated(text: str) -> str:
    """An expression in rule-engine's language."""
    text = re.sub(r"(\w+) BETWEEN (\d+) AND (\d+)", r"(\1 >= \2 and \1 <= \3)", text)
    text = re.sub(r"IN \(('\w+'), ('\w+')\)", r"in [\1, \2]", text).replace(" = ", " == ")
    return text.replace(" AND ", " and ").replace(" OR ", " or ").replace("NOT ", "not ")
