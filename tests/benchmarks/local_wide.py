"""One message to 10,000 subscribers of the local stack: ``python -m tests.benchmarks.local_wide [SUBSCRIBERS]``.

The subscriptions are put a hundred a request. Printed are the time that took, the time from the publish to the last
push, and the CPU of each process meanwhile; one receiver answers for all of them, from a process of this benchmark.
"""

from __future__ import annotations

import sys
import time

from tagcast_client import Client
from tagcast_client.models import Refused

from tests.benchmarks.harness import Pushes, cpu_s, load, running_stack
from tests.running_stack import wait_until

SUBSCRIBERS, PATIENCE_S = 10_000, 300.0


def subscribe(client: Client, url: str, count: int) -> None:
    """Make a topic with *count* subscribers that keep no order, each with a path of its own."""
    client.create_topic("wide")
    names = [f"s{number}" for number in range(count)]
    made = client.create_subscriptions("wide", ({"name": name, "endpoint": f"{url}/{name}"} for name in names))
    assert not [each for each in made if isinstance(each, Refused)]


def main() -> None:
    """Print the figures of one message."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SUBSCRIBERS
    pushes = Pushes()
    with pushes.received() as url, running_stack() as (stack, client):
        began = time.monotonic()
        subscribe(client, url, count)
        print(f"{count:,} subscriptions put in {time.monotonic() - began:.0f} s ({load()})", flush=True)
        used, began = cpu_s(stack.process.pid), time.monotonic()
        message_id = client.publish("wide", "x" * 1024).message_id
        published_s = time.monotonic() - began
        assert wait_until(lambda: len(pushes.at) == count, PATIENCE_S), f"{len(pushes.at):,} pushes came"
        assert {each for each, _ in pushes.at} == {message_id}
        last_s = max(pushes.at.values()) - began
        print(f"published in {published_s:.1f} s, the last push after {last_s:.1f} s ({load()})")
        spent = {name: seconds - used.get(name, 0.0) for name, seconds in cpu_s(stack.process.pid).items()}
        print("CPU: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(spent.items()) if seconds))


if __name__ == "__main__":
    main()
