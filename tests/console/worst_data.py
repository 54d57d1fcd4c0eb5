"""The worst that the API's limits allow: the widest names, tags, properties and bodies, made from a seed."""

import random
from collections.abc import Mapping
from urllib.parse import urlencode

from tagcast_client import Accepted, BackoffRetry, Client, NewMessage

WIDEST_NAME = "W" * 64
"""A name of letters that are wide, without a place to break it."""
TAG_CHARS, TAGS, PROPERTIES, PROPERTIES_BYTES, VALUE_CHARS, URL_CHARS = 64, 10, 50, 16_384, 1_024, 2_048
HOSTILE = "<script>document.title = 'owned'</script>\x1b]0;owned\x07 \u202egnp.exe <img src=x onerror=alert(1)>"
ALPHABETS = ("W", "&<>\"'", "\u202e\u200b|", "Ⱥ漢ﷺ", "aA0_ ", "💥", "Z\u0301\u0302\u0303\u0304")
"""What is wide, what has to be escaped, what turns the direction, what has no breaks, what stacks."""


def text(dice: random.Random, characters: int) -> str:
    """Return a text of one of the alphabets, with no break in it most often."""
    alphabet = dice.choice(ALPHABETS)
    return "".join(dice.choice(alphabet) for _ in range(characters)).strip() or "W" * characters


def tags(dice: random.Random) -> tuple[str, ...]:
    """Return as many tags as a message may have, each as long as it may be."""
    return tuple(dict.fromkeys(text(dice, TAG_CHARS) for _ in range(TAGS)))


def properties(dice: random.Random) -> dict[str, str]:
    """Return as many properties as a message may have, and nearly as many bytes; one value is as long as it may be."""
    made: dict[str, str] = {"W" * 64: "W" * VALUE_CHARS}
    left = PROPERTIES_BYTES - 64 - VALUE_CHARS
    for number in range(PROPERTIES - 1):
        name, value = f"{'p' * 60}{number:02d}", text(dice, 50)
        left -= len(name.encode()) + len(value.encode())
        if left < 0:
            break
        made[name] = value
    return made


def widest_message(seed: int) -> NewMessage:
    dice = random.Random(seed)
    return NewMessage(
        HOSTILE + text(dice, 4_000),
        tags(dice),
        routing_key="W" * 64,
        properties=properties(dice),
        content_type="text/" + "W" * 100,
    )


def widest_played(api: Client, failing: str) -> Mapping[str, str]:
    """Make the widest topic, subscriptions to an endpoint that fails, and messages; return the pages by name."""
    name, long = WIDEST_NAME, "W" * (URL_CHARS - len(failing))
    expression = " OR ".join(f"{'p' * 60}{n:02d} = '{'W' * 60}'" for n in range(8))
    api.create_topic(name)
    seldom: BackoffRetry = {"strategy": "BACKOFF_RETRY", "max_retries": 100, "interval_seconds": 3_600}
    api.create_subscription(name, name, failing + long, retry=seldom)
    api.create_subscription(
        name, "tags", failing, retry=seldom, filter={"kind": "tags", "tags": list(tags(random.Random(1)))}
    )
    api.create_subscription(name, "sql", failing, filter={"kind": "sql92", "expression": expression})
    api.create_subscription(name, "V" * 64, {"protocol": "pull"})
    sent = api.publish_batch(name, [widest_message(seed) for seed in range(8)])
    ids = [each.message_id for each in sent if isinstance(each, Accepted)]
    assert len(ids) == len(sent), [each for each in sent if not isinstance(each, Accepted)]
    api.set_shadow(name, "sql", {"kind": "sql92", "expression": expression.replace("OR", "AND")})
    topic, lane = f"/topics/{name}", f"/topics/{name}/subscriptions/{name}"
    filled = urlencode({"topic": name, "tag": "W" * 64, "property": f"{'W' * 64}={'W' * 200}", "subscription": name})
    return {
        "overview-chosen": f"/?{urlencode({'topic': name, 'text': name, 'host': failing})}",
        "topics-found": f"/topics?text={name}",
        "topic-widest": topic,
        "lane-widest": lane,
        "lane-sql": f"{topic}/subscriptions/sql",
        "lane-group": f"{topic}/subscriptions/{'V' * 64}",
        "skip-widest": f"{lane}/skip",
        "search-widest": f"/search?topic={name}",
        "history-widest": f"/topics/{name}/history",
        "search-none": f"/search?{filled}",
        "workbench-widest": f"/workbench?topic={name}&subscription=sql",
        "shadow-widest": f"{topic}/subscriptions/sql/shadow",
        "tail-widest": f"/tail?topic={name}",
        **{f"message-{seed}": f"{topic}/messages/{each}?why={name}" for seed, each in enumerate(ids)},
    }
