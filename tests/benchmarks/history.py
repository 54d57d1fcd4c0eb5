"""How long a page of a history takes at a million archived messages an hour: ``python -m tests.benchmarks.history``.

In memory, on files as Firehose writes them in an hour: sixty of gzip, each with the records of a minute, of ten topics.
Printed are the milliseconds of the newest page and of a search for a property that no message has, beside those of only
inflating the files. Requests to S3 and to the tables are not in it.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tagcast.archive.record import RecordKind, RowChange
from tagcast.archive.records import records_of
from tagcast.operating.history import HistoryFilter, read_history

from tests.fakes.world import FakeWorld, MemoryMessageArchive

MINUTES, TOPICS, CUSTOMERS, PAGE = 60, 10, 100_000, 50


class Files(MemoryMessageArchive):
    """Files of gzip, which are inflated as they are read."""

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file."""
        [content] = self.came[name][1]
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            yield from file


def filled(fakes: FakeWorld, messages: int) -> Files:
    """Return the files of an hour; the newest messages are a page of real ones, all others records like theirs."""
    files, dice = Files(), random.Random("history")
    for minute in range(MINUTES):
        sent = fakes.publish(*map(str, range(PAGE if minute == MINUTES - 1 else 1)), tags=("red", "blue"))
        rows = [row for key, row in fakes.store.rows.items() if key.sk == "MSG" and row["message_id"] in sent]
        records = [record for row in rows for record in records_of(RowChange(None, row, fakes.clock.now()), bool)]
        lines = [record.line() for record in records if record.kind is RecordKind.MESSAGES]
        like: dict[str, Any] = json.loads(lines[0])
        for number in range(messages // MINUTES):
            topic, message_id = f"test{dice.randrange(TOPICS)}", f"{int(min(sent)) - 1 - number:020d}"
            told: dict[str, Any] = {"topic": topic, "message_id": message_id, "record_id": f"{topic}.{message_id}"}
            told["properties"] = {"customer": str(dice.randrange(CUSTOMERS)), "order": str(number)}
            lines.append(json.dumps(like | told, separators=(",", ":")))
        fakes.clock.sleep(60)
        content = gzip.compress("".join(f"{line}\n" for line in lines).encode())
        files.came[f"{minute:02d}.gz"] = fakes.clock.now(), [content]
    return files


def took_ms(call: Callable[[], object]) -> float:
    """Return how long *call* takes."""
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.history")
    parser.add_argument("--messages", type=int, default=1_000_000, help="archived in the hour")
    messages = parser.parse_args().messages
    fakes = FakeWorld()
    fakes.topic()
    fakes.subscribe("s")
    files = filled(fakes, messages)
    size = sum(len(content) for _, [content] in files.came.values())
    print(f"{messages:,} messages in {len(files.came)} files, {size / 2**20:.1f} MiB")
    inflating = took_ms(lambda: [sum(1 for _ in files.lines(name)) for name in files.came])
    print(f"only inflating them: {inflating:.0f} ms")
    world, since = replace(fakes.world, message_archive=files), fakes.clock.now() - 86_400_000

    def page(wanted: HistoryFilter) -> None:
        cursor, is_first = None, True
        while cursor is not None or is_first:
            found = read_history(world, "test1", wanted, PAGE, cursor)
            cursor, is_first = None if found.messages else found.cursor, False

    for name, wanted in (
        ("the newest page", HistoryFilter(since)),
        ("a property that no message has", HistoryFilter(since, property=("customer", "nobody"))),
    ):
        took = took_ms(partial(page, wanted))
        print(f"{name}: {took:.0f} ms, {took / inflating:.2f} of inflating all")


if __name__ == "__main__":
    main()
