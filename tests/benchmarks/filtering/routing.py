"""Routing keys beside paho's matcher, pure Python as ours."""

import random
from functools import partial

from paho.mqtt.matcher import MQTTMatcher
from tagcast.filters.index.topic_index import TopicIndex

from tests.benchmarks.filtering import loads
from tests.benchmarks.filtering.measure import Message, beside, compared_row, head

DISTINCT_KEYS = 30_000
REPEATED_KEYS = 1_000
GOALS = {1_000: 1.0, 10_000: 1.2, 100_000: 1.2}
"""How many times as quick as paho distinct keys are to be matched, by the number of patterns."""


def _matched(peer: MQTTMatcher, name: str) -> list[int]:
    return list(peer.iter_match(name))  # type: ignore[no-untyped-call]


def routing() -> None:
    """The whole index, from a message to sorted ordinals, beside the list of paho's values."""
    head("Routing keys")
    keys = loads.keys(random.Random(2), DISTINCT_KEYS)
    for count in GOALS:
        made = loads.patterns(random.Random(1), count)
        index = TopicIndex.build({n: {"kind": "routing_key", "patterns": [pattern]} for n, pattern in enumerate(made)})
        peer = MQTTMatcher()  # type: ignore[no-untyped-call]
        for number, pattern in enumerate(made):
            peer[pattern.replace(".", "/").replace("*", "+")] = number
        messages = [Message(routing_key=key) for key in keys]
        names = [key.replace(".", "/") for key in keys]
        for message, name in zip(messages[:300], names[:300], strict=True):
            assert sorted(_matched(peer, name)) == list(index.match(message).ordinals)
        for title, few, goal in (("distinct", DISTINCT_KEYS, GOALS[count]), ("repeated", REPEATED_KEYS, 2.0)):
            ours, theirs_us = beside(index.match, messages[:few], partial(_matched, peer), names[:few])
            compared_row(f"{few:,} {title} keys, {count:,} patterns", ours, "paho-mqtt", theirs_us, goal)
