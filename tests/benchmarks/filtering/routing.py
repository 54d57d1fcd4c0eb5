"""Routing keys beside paho's matcher, pure Python as ours."""

from __future__ import annotations

import random
from functools import partial

from paho.mqtt.matcher import MQTTMatcher
from tagcast.filters.index.topic_index import TopicIndex

from tests.benchmarks.filtering import loads
from tests.benchmarks.filtering.measure import Message, cost, head, row

DISTINCT_KEYS = 30_000
REPEATED_KEYS = 1_000


def _matched(peer: MQTTMatcher, name: str) -> list[int]:
    return list(peer.iter_match(name))  # type: ignore[no-untyped-call]


def routing() -> None:
    """The whole index, from a message to sorted ordinals, beside the list of paho's values."""
    head("Routing keys")
    keys = loads.keys(random.Random(2), DISTINCT_KEYS)
    for count in (1_000, 10_000, 100_000):
        made = loads.patterns(random.Random(1), count)
        index = TopicIndex.build({n: {"kind": "routing_key", "patterns": [pattern]} for n, pattern in enumerate(made)})
        peer = MQTTMatcher()  # type: ignore[no-untyped-call]
        for number, pattern in enumerate(made):
            peer[pattern.replace(".", "/").replace("*", "+")] = number
        messages = [Message(routing_key=key) for key in keys]
        names = [key.replace(".", "/") for key in keys]
        for message, name in zip(messages[:300], names[:300], strict=True):
            assert sorted(_matched(peer, name)) == list(index.match(message).ordinals)
        for title, few, wanted in (("distinct", DISTINCT_KEYS, ">= 1"), ("repeated", REPEATED_KEYS, ">= 2")):
            ours = cost(index.match, messages[:few], rounds=3)
            theirs = cost(partial(_matched, peer), names[:few], rounds=3)
            row(f"{few:,} {title} keys, {count:,} patterns", ours, "paho-mqtt", theirs.median, wanted)
