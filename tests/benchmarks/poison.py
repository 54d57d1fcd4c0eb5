"""What one message that its receiver always refuses costs the others: ``python -m tests.benchmarks.poison``.

On the local stack, for each strategy without an order: a thousand messages to a receiver that takes all of them, then a
thousand to one that refuses the hundredth with 422. Printed are the messages a second that get through, how long after
its publish a message comes (p50 and p99), and the ratios of both to those without the refused message. Under
EXPONENTIAL_DECAY_RETRY everything waits for that one: its retries end after three, so that the run ends.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tagcast_client import Client, DecayRetry, IndependentRetry, Retry

from tests.benchmarks.harness import Pushes, running_stack
from tests.running_stack import wait_until

MESSAGES, PUBLISHERS, POISON, WARMING = 1_000, 4, 99, 40
PATIENCE_S = 120.0
DECAY: DecayRetry = {"strategy": "EXPONENTIAL_DECAY_RETRY", "max_retries": 3}
INDEPENDENT: IndependentRetry = {"strategy": "INDEPENDENT_RETRY"}
RETRIES: Mapping[str, Retry] = {"independent": INDEPENDENT, "decay": DECAY}


@dataclass(frozen=True)
class Figures:
    """What came of a thousand messages: how many got through in a second, and how long after its publish one came."""

    rate: float
    p50_ms: float
    p99_ms: float

    @property
    def told(self) -> str:
        return f"{self.rate:.0f}/s, p50 {self.p50_ms:.0f} ms, p99 {self.p99_ms:.0f} ms"

    def beside(self, alone: Figures) -> str:
        """Say how these compare with those without a refused message."""
        return (
            f"{self.rate / alone.rate:.2f} of the rate, {self.p50_ms / alone.p50_ms:.2f} of p50, "
            f"{self.p99_ms / alone.p99_ms:.2f} of p99"
        )


def carried(client: Client, pushes: Pushes, topic: str, url: str, retry: Retry, messages: int) -> Figures:
    """Publish *messages*, the hundredth with the tag of the one that may be refused."""
    client.create_topic(topic, ordering="none")
    client.create_subscription(topic, "s", url, retry=retry)
    with ThreadPoolExecutor(PUBLISHERS) as publishers:
        list(publishers.map(lambda _: client.publish(topic, "warm"), range(WARMING)))
    assert wait_until(lambda: len(pushes.at) >= WARMING)
    pushes.at.clear()
    sent: dict[str, float] = {}

    def publish(number: int) -> None:
        began = time.monotonic()
        tags = ("poison",) if number == POISON else ()
        message_id = client.publish(topic, f"{number}", tags=tags).message_id
        if number != POISON:
            sent[message_id] = began

    began = time.monotonic()
    with ThreadPoolExecutor(PUBLISHERS) as publishers:
        list(publishers.map(publish, range(messages)))
    assert wait_until(lambda: sent.keys() <= {message_id for message_id, _ in list(pushes.at)}, PATIENCE_S)
    got_at = {message_id: at for (message_id, _), at in pushes.at.items()}
    waits = [1000 * (got_at[message_id] - at) for message_id, at in sent.items()]
    took_s = max(got_at[message_id] for message_id in sent) - began
    pushes.at.clear()
    return Figures(len(sent) / took_s, statistics.median(waits), statistics.quantiles(waits, n=100)[98])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.poison")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"of each run; the {POISON + 1}th is refused")
    messages = parser.parse_args().messages
    pushes = Pushes(refused=("poisoned", b'["poison"]'))
    with pushes.received() as url, running_stack() as (_, client):
        for name, retry in RETRIES.items():
            alone = carried(client, pushes, f"{name}-alone", f"{url}/taken", retry, messages)
            print(f"{name}, none refused: {alone.told}")
            beside = carried(client, pushes, f"{name}-poisoned", f"{url}/poisoned", retry, messages)
            print(f"{name}, one refused: {beside.told}; {beside.beside(alone)}", flush=True)


if __name__ == "__main__":
    main()
