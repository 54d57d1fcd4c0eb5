"""A copy of a large topic's subscriptions in one object of the index bucket. Subscriptions are decoded on demand.

A process without the topic in its cache loads the object and reads only later changes. Reading the rows of 100,000
subscriptions takes seconds, and some ten thousand read units of one key. DynamoDB gives all processes together 3,000
read units per second for one key. See docs/limits.md, Hot keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tagcast.model import Subscription, Topic
from tagcast.ports import World
from tagcast.rows.subscription import KeptSubscription, filters_kept, subscriptions_kept

K = TypeVar("K", int, str)

KEPT_MIN = 1_000
"""A topic with fewer subscriptions is read faster from the table."""
FORMAT = "tagcast-subscriptions-1"
PIECE = 250
"""Subscriptions are decoded 250 together, by neighbouring ordinals."""


@dataclass(frozen=True, slots=True)
class StoredSubscriptions:
    """A stored copy of all subscriptions of a topic at *version*. *in_order* has the ordinals of ordered ones.

    Some subscriptions may be newer than *version*. The topic's row lists them as changes after this version. *digest*
    is a hash of the copy's subscriptions.
    """

    version: int
    digest: str
    by_ordinal: Mapping[int, Subscription]
    by_name: Mapping[str, Subscription]
    in_order: frozenset[int]


def load(world: World, topic: Topic) -> StoredSubscriptions | None:
    """Return the last stored copy of *topic*; None if there is no usable copy."""
    content = world.index_archive.load(_name(topic))
    return None if content is None else _open(content)


def _open(content: bytes) -> StoredSubscriptions | None:
    first, _, rest = content.partition(b"\n")
    try:
        form, version, digest, ordinals, names, in_order = json.loads(unpack_line(first))
    except (zlib.error, ValueError, TypeError):  # Damaged, or of another format: read the table.
        return None
    if form != FORMAT or digest != hashlib.sha256(rest).hexdigest():
        return None
    apart = _Pieces(ordinals[::PIECE], rest.split(b"\n"))
    by_ordinal = _LazySubscriptions(dict(zip(ordinals, ordinals, strict=True)), apart, {})
    by_name = _LazySubscriptions(dict(zip(names, ordinals, strict=True)), apart, {})
    return StoredSubscriptions(version, digest, by_ordinal, by_name, frozenset(in_order))


def save(world: World, topic: Topic, subscriptions: Collection[KeptSubscription]) -> StoredSubscriptions:
    """Store a copy of *topic*'s *subscriptions* (all of them) in the index bucket, and return the copy.

    Some subscriptions may be newer than the version of *topic*. The topic's row lists these as later changes.
    """
    ordered = sorted(subscriptions)
    ordinals, names = [each.ordinal for each in ordered], [each.name for each in ordered]
    in_order = [each.ordinal for each in ordered if each.keeps_order]
    pieces = [ordered[start : start + PIECE] for start in range(0, len(ordered), PIECE)]
    rest = b"\n".join(pack_line(f"[{','.join(each.content for each in piece)}]") for piece in pieces)
    about = [FORMAT, topic.subscriptions_version, hashlib.sha256(rest).hexdigest(), ordinals, names, in_order]
    content = pack_line(json.dumps(about)) + b"\n" + rest
    world.index_archive.save(_name(topic), content)
    kept = _open(content)
    assert kept is not None
    return kept


def filters(by_ordinal: Mapping[int, Subscription]) -> Mapping[int, Mapping[str, object] | None]:
    """Return the filters of subscriptions by ordinal. Other fields of stored subscriptions are not decoded."""
    if isinstance(by_ordinal, _LazySubscriptions):
        return by_ordinal.filters()
    return {ordinal: subscription.settings.filter for ordinal, subscription in by_ordinal.items()}


def apply_changes(
    known: Mapping[K, Subscription], now: Mapping[K, Subscription], gone: Collection[K]
) -> Mapping[K, Subscription]:
    """Return *known* with the new and changed subscriptions in *now*, and without the keys in *gone*.

    Subscriptions of a stored copy stay encoded until they are read.
    """
    if isinstance(known, _LazySubscriptions):
        return known.with_changes(now, gone)
    return {**{key: each for key, each in known.items() if key not in gone}, **now}


class _Pieces:
    """Stored subscriptions in pieces; *first_ordinals* has the first ordinal of each piece."""

    def __init__(self, first_ordinals: Sequence[int], pieces: Sequence[bytes]) -> None:
        self._first_ordinals, self._pieces = first_ordinals, pieces
        self._known: dict[int, Subscription] = {}

    def one(self, ordinal: int) -> Subscription:
        if ordinal not in self._known:
            piece = self._pieces[bisect_right(self._first_ordinals, ordinal) - 1]
            self._known |= subscriptions_kept(unpack_line(piece))
        return self._known[ordinal]

    def filters(self) -> dict[int, Mapping[str, object] | None]:
        found: dict[int, Mapping[str, object] | None] = {}
        for piece in self._pieces:
            found |= filters_kept(unpack_line(piece))
        return found


class _LazySubscriptions(Mapping[K, Subscription]):
    """Subscriptions by key. Each is decoded on demand from the piece with its ordinal, unless it is newer."""

    def __init__(
        self, ordinals: Mapping[K, int], pieces: _Pieces, newer: Mapping[K, Subscription] | None = None
    ) -> None:
        self._ordinals: Mapping[K, int] = ordinals
        self._pieces = pieces
        self._newer: Mapping[K, Subscription] = newer or {}

    def __getitem__(self, key: K) -> Subscription:
        ordinal = self._ordinals[key]
        return self._newer[key] if key in self._newer else self._pieces.one(ordinal)

    def __iter__(self) -> Iterator[K]:
        return iter(self._ordinals)

    def __len__(self) -> int:
        return len(self._ordinals)

    def with_changes(self, now: Mapping[K, Subscription], gone: Collection[K]) -> _LazySubscriptions[K]:
        ordinals = {**self._ordinals, **{key: each.ordinal for key, each in now.items()}}
        for key in set(gone) - now.keys():
            ordinals.pop(key, None)
        return _LazySubscriptions(ordinals, self._pieces, {**self._newer, **now})

    def filters(self) -> dict[K, Mapping[str, object] | None]:
        kept = self._pieces.filters()
        return {
            key: self._newer[key].settings.filter if key in self._newer else kept[ordinal]
            for key, ordinal in self._ordinals.items()
        }


def pack_line(content: str) -> bytes:
    """Return *content* deflated and in base64, so that it is one line of a stored object."""
    return base64.b64encode(zlib.compress(content.encode(), level=1))


def unpack_line(line: bytes) -> bytes:
    """Return the content of *line*, which :func:`pack_line` made."""
    return zlib.decompress(base64.b64decode(line))


def _name(topic: Topic) -> str:
    return f"{topic.topic_id}/subscriptions"
