"""Rows of waiting requests: the places of a topic, and until when each is taken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from tagcast.rows.keys import waiting_key
from tagcast.tables import ABSENT, Row, Store, Update

KEPT_S = 3_600
"""A row is of no use once all its places are free; the time to live takes it some time later."""


class WaitingFor(StrEnum):
    """What a request waits for, each of which has places of its own; the word stands before their numbers."""

    MESSAGES = "pull"
    EVENTS = "tail"


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a topic; it is free when *until* is over, or None."""

    topic: str
    kind: WaitingFor
    number: int
    until: int | None = None

    @property
    def attribute(self) -> str:
        """Return the name under which its row has it."""
        return f"{self.kind}_{self.number}"


def places(store: Store, topic: str, kind: WaitingFor, most: int) -> tuple[Place, ...]:
    """Return the first *most* places of a topic."""
    row: Row = store.get(waiting_key(topic)) or {}
    empty = (Place(topic, kind, number) for number in range(most))
    return tuple(Place(topic, kind, each.number, cast("int | None", row.get(each.attribute))) for each in empty)


def taking_update(place: Place, until: int) -> Update:
    """Return the write that takes a place *until* then, unless somebody else was faster."""
    changes = {place.attribute: until, "ttl": until // 1000 + KEPT_S}
    expect = {place.attribute: ABSENT if place.until is None else place.until}
    return Update(waiting_key(place.topic), changes, expect=expect)


def leaving_update(place: Place) -> Update:
    """Return the write that leaves a place, unless somebody took it after its time."""
    return Update(waiting_key(place.topic), {}, remove=(place.attribute,), expect={place.attribute: place.until})
