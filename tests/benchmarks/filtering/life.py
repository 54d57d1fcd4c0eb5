"""What an index costs besides matching: building, loading, the first messages, a change, and memory."""

import random
import time
import tracemalloc
from collections.abc import Mapping

from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.index.changed_index import CHANGES_MAX, ChangedIndex, with_changes
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter

from tests.benchmarks.filtering import loads
from tests.benchmarks.filtering.measure import Message, cpu_us

Values = Mapping[int, Mapping[str, object]]


def kinds(count: int) -> dict[str, Values]:
    """Topics of one kind each."""
    dice = random.Random(1)
    keys, both, bounds = loads.patterns(dice, count), loads.mixed(dice, count), loads.ranges(dice, count)
    return {
        "tags": {n: {"kind": "tags", "tags": dice.sample(loads.TAGS, dice.randint(1, 5))} for n in range(count)},
        "routing keys": {n: {"kind": "routing_key", "patterns": [pattern]} for n, pattern in enumerate(keys)},
        "mixed, strict": {n: {"kind": "sql92", "expression": text} for n, text in enumerate(both)},
        "mixed, rocketmq": {
            n: {"kind": "sql92", "expression": text, "dialect": "rocketmq"} for n, text in enumerate(both)
        },
        "ranges only": {n: {"kind": "sql92", "expression": text} for n, text in enumerate(bounds)},
    }


def messages(count: int) -> list[Message]:
    """Messages that all kinds read."""
    dice = random.Random(4)
    keys = loads.keys(dice, count)
    properties = loads.property_sets(dice, count)
    return [Message(tuple(dice.sample(loads.TAGS, 3)), k, p) for k, p in zip(keys, properties, strict=True)]


def life() -> None:
    """One line for each kind; milliseconds, and megabytes that an index loaded from its snapshot holds."""
    print("\nBuilding, loading, first messages, changing (ms), memory (MB)\n")
    print("| 10,000 | compile and build | snapshot MB | load | first match | mean of 1,000 | worst | a change | MB |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    fresh = messages(6_000)
    for name, values in kinds(10_000).items():
        building = cpu_us(lambda values=values: TopicIndex.build(values)) / 1_000  # type: ignore[misc]
        packed = TopicIndex.build(values).to_snapshot()
        loading = sorted(cpu_us(lambda packed=packed: TopicIndex.from_snapshot(packed)) for _ in range(5))[2] / 1_000  # type: ignore[misc]
        index = TopicIndex.from_snapshot(packed)
        cold = [cpu_us(lambda m=m, index=index: index.match(m)) / 1_000 for m in fresh[:1_000]]  # type: ignore[misc]
        changed = {n: values[n - 10_000] for n in range(10_000, 10_000 + CHANGES_MAX)}
        changing = worst_change(index, changed)
        figures = (building, len(packed) / 1e6, loading, cold[0], sum(cold) / 1_000, max(cold), changing)
        print(
            f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} | {memory_mb(packed, fresh):.1f} |",
            flush=True,
        )


def worst_change(index: TopicIndex, values: Values) -> float:
    """Milliseconds of the slowest of many changes, one after the other."""
    present: TopicIndex | ChangedIndex | None = index
    worst = 0.0
    for ordinal, value in values.items():
        assert present is not None
        before = time.process_time()
        present = with_changes(present, {ordinal: value}, [])
        worst = max(worst, time.process_time() - before)
    return worst * 1_000


def memory_mb(packed: bytes, fresh: list[Message]) -> float:
    """What a loaded index holds after all messages."""
    tracemalloc.start()
    index = TopicIndex.from_snapshot(packed)
    for message in fresh:
        index.match(message)
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    return held


def hundred_thousand() -> None:
    """A topic of 100,000 subscriptions with tags, their filters compiled before, as a publisher has them."""
    values = kinds(100_000)["tags"]
    compiled: dict[int, CompiledFilter] = {n: compile_filter(value) for n, value in values.items()}
    building = sorted(cpu_us(lambda: TopicIndex.build(compiled)) for _ in range(3))[1] / 1e6
    both = cpu_us(lambda: TopicIndex.build(values)) / 1e6
    packed = TopicIndex.build(compiled).to_snapshot()
    loading = sorted(cpu_us(lambda: TopicIndex.from_snapshot(packed)) for _ in range(5))[2] / 1_000
    print(f"\n100,000 subscriptions with tags: built in {building:.2f} s (<= 1.5), with compiling in {both:.2f} s")
    print(f"and loaded from a snapshot of {len(packed) / 1e6:.1f} MB in {loading:.1f} ms (wanted: 50)", flush=True)
