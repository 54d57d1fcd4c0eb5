"""What the local stack carries: ``python -m tests.benchmarks.local_stack``.

Three receivers that answer at once, four publishers: messages a second from the first publish to the last push, singly
and in batches of 16, with subscribers that keep no order and with such that do; how long a push comes after its publish
at ten messages a second; and what the stack uses while nothing happens. The goals are those of two free cores. On a
machine that does other things, which the load beside each figure shows, the CPU that a message costs is what can be
compared: of each process of the stack, of the publishers and receivers, which are this one, and of all.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tagcast_client import BackoffRetry, Client, DecayRetry, NewMessage, Retry

from tests.benchmarks.harness import Pushes, cpu_s, load, running_stack
from tests.running_stack import wait_until

SUBSCRIBERS, PUBLISHERS, BATCH, PACED = 3, 4, 16, 50
WARMING, MESSAGES = 40, 480
CALM_S, IDLE_S, PATIENCE_S = 15.0, 60.0, 300.0
GOALS = {BATCH: 300, 1: 120}
"""Messages a second by how many are published at once."""
WAIT_MS_GOAL, IDLE_GOAL = 30, 3
DECAY: DecayRetry = {"strategy": "EXPONENTIAL_DECAY_RETRY"}
BACKOFF: BackoffRetry = {"strategy": "BACKOFF_RETRY"}
RETRIES: Mapping[str, Retry] = {"unordered": DECAY, "ordered": BACKOFF}


@dataclass(frozen=True)
class Bench:
    """A running stack, its client, and what came to its subscribers."""

    root: int
    client: Client
    pushes: Pushes

    def subscribe(self, topic: str, url: str, retry: Retry) -> None:
        """Make a topic with its subscribers, and let first messages start every worker."""
        self.client.create_topic(topic)
        for number in range(SUBSCRIBERS):
            self.client.create_subscription(topic, f"s{number}", f"{url}/{topic}{number}", retry=retry)
        before = len(self.pushes.at)
        with ThreadPoolExecutor(PUBLISHERS) as publishers:
            list(publishers.map(lambda _: self.client.publish(topic, "warm"), range(WARMING)))
        assert wait_until(lambda: len(self.pushes.at) == before + WARMING * SUBSCRIBERS)

    def cpu_s(self) -> Mapping[str, float]:
        """CPU seconds by now, of the processes of the stack and of this one."""
        return {**cpu_s(self.root), "publishers and receivers": time.process_time()}

    def carry(self, topic: str, batch: int, count: int = MESSAGES) -> None:
        """Print the messages a second from the first publish to the last push, and the CPU of each."""
        used, before, began = self.cpu_s(), len(self.pushes.at), time.monotonic()

        def publish(number: int) -> None:
            messages = [NewMessage(f"{number}.{place}") for place in range(batch)]
            if batch == 1:
                self.client.publish(topic, messages[0].body)
            else:
                self.client.publish_batch(topic, messages)

        with ThreadPoolExecutor(PUBLISHERS) as publishers:
            list(publishers.map(publish, range(count // batch)))
        assert wait_until(lambda: len(self.pushes.at) == before + count * SUBSCRIBERS, PATIENCE_S)
        spent = {name: seconds - used.get(name, 0.0) for name, seconds in self.cpu_s().items()}
        rate = count / (max(self.pushes.at.values()) - began)
        told = ", ".join(f"{name} {1000 * each / count:.1f}" for name, each in sorted(spent.items()) if each)
        each_ms = 1000 * sum(spent.values()) / count
        figure = f"{topic}, {batch} at once: {rate:.0f} messages/s, {each_ms:.1f} ms of CPU each"
        print(f"{figure} (goal {GOALS[batch]}/s, {load()})\n    {told}", flush=True)

    def pace(self, topic: str) -> None:
        """Print how long a push comes after its publish, at ten messages a second."""
        sent: dict[str, float] = {}
        for _ in range(PACED):
            began = time.monotonic()
            sent[self.client.publish(topic, "x").message_id] = began
            time.sleep(max(0.0, began + 0.1 - time.monotonic()))
        at = self.pushes.at
        assert wait_until(lambda: sum(message_id in sent for message_id, _ in list(at)) == PACED * SUBSCRIBERS)
        waits = [1000 * (at[key] - sent[key[0]]) for key in at if key[0] in sent]
        p50, p99 = statistics.median(waits), statistics.quantiles(waits, n=100)[98]
        print(f"publish to push at 10/s: p50 {p50:.0f} ms, p99 {p99:.0f} ms (goal p50 {WAIT_MS_GOAL} ms, {load()})")

    def idle(self, seconds: float) -> None:
        """Print what the stack uses while nothing happens, once what it had to do is done: two sweeps are in it."""
        time.sleep(min(CALM_S, seconds))
        before = sum(cpu_s(self.root).values())
        time.sleep(seconds)
        used = 100 * (sum(cpu_s(self.root).values()) - before) / seconds
        print(f"idle: {used:.1f} % of a core (goal below {IDLE_GOAL} %)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_stack")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of each figure (default: %(default)s)")
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS", help="(default: %(default)s)")
    asked = parser.parse_args()
    pushes = Pushes()
    with pushes.received() as url, running_stack() as (stack, client):
        bench = Bench(stack.process.pid, client, pushes)
        for topic, retry in RETRIES.items():
            bench.subscribe(topic, url, retry)
            bench.carry(topic, BATCH, asked.messages)
            bench.carry(topic, 1, asked.messages)
        bench.pace("unordered")
        bench.idle(asked.idle)


if __name__ == "__main__":
    main()
