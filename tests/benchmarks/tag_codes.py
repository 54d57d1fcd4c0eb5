"""What tag codes would save as a prefilter of stored messages: ``python -m tests.benchmarks.tag_codes``.

RocketMQ compares a message's code, Java's hash of its tag, before it looks at the text. Here the text lies beside the
code, in the same row, so that the code can only save the comparison itself.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from tagcast.filters.kinds import compile_filter
from tagcast.filters.tags import java_hash_code
from tagcast.model import Draft, Message

MESSAGES, ROUNDS, WANTED = 10_000, 15, 4
READ_US = 200
"""What a page of 100 messages takes to come from the table at the very least: 20 ms."""


def cpu_ns(work: Callable[[], int]) -> float:
    """Return the CPU nanoseconds that *work* takes for each message, the median of several rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - started) / MESSAGES)
    return statistics.median(times)


def measure(tags: int) -> tuple[float, float]:
    """Return nanoseconds a message: the filter alone, and the filter behind the prefilter; one in *tags* matches."""
    chance = random.Random(tags)
    names = [f"Tag{place}" for place in range(tags * WANTED)]
    messages = [
        Message("t", f"{place:020d}", Draft(b"", tags=(chance.choice(names),)), 0, 1) for place in range(MESSAGES)
    ]
    stored = [(java_hash_code(message.tags[0]), message) for message in messages]
    wanted = compile_filter({"kind": "tag_expression", "expression": " || ".join(names[:WANTED])})
    codes = {java_hash_code(name) for name in names[:WANTED]}
    exact = cpu_ns(lambda: sum(wanted.evaluate(message) is True for message in messages))
    both = cpu_ns(lambda: sum(code in codes and wanted.evaluate(message) is True for code, message in stored))
    return exact, both


def main() -> None:
    """Print both for few and for many messages that match."""
    print("matching  filter  with codes   saves, of a read of 200 us")
    for tags in (1, 10, 1_000):
        exact, both = measure(tags)
        share = (exact - both) / (READ_US * 1000)
        print(f"{1 / tags:8.1%} {exact:5.0f} ns {both:8.0f} ns {share:11.3%}")


if __name__ == "__main__":
    main()
