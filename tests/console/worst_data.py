"""The worst that the API's limits allow: the widest names, tags, properties and bodies, made from a seed."""

from __future__ import annotations

import random

from tagcast_client import NewMessage

WIDEST_NAME = "W" * 64
"""A name of letters that are wide, without a place to break it."""
TAG_CHARS, TAGS, PROPERTIES, PROPERTIES_BYTES, VALUE_CHARS = 64, 10, 50, 16_384, 1_024
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
    """Return a message that is as wide as one may be."""
    dice = random.Random(seed)
    return NewMessage(
        HOSTILE + text(dice, 4_000),
        tags(dice),
        routing_key="W" * 64,
        properties=properties(dice),
        content_type="text/" + "W" * 100,
    )
