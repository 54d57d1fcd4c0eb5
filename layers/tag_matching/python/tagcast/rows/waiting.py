"""Rows that limit the waiting requests of a topic: each waiting request takes one of the topic's places."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from tagcast.rows.keys import waiting_key
from tagcast.tables import ABSENT, Row, Store, Update

KEPT_S = 3_600
"""Seconds that a row stays after all its places are free; the time to live deletes the row later."""


class WaitingFor(StrEnum):
    """The kind of event that a request waits for. The attribute names of the request's places begin with this value."""

    MESSAGES = "pull"
    EVENTS = "tail"


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """A place for one waiting request of a topic. It is taken until *until*, and free if *until* is None or past."""

    topic: str
    kind: WaitingFor
    number: int
    until: int | None = None

    @property
    def attribute(self) -> str:
        """The attribute name in the row."""
        return f"{self.kind}_{self.number}"


def places(store: Store, topic: str, kind: WaitingFor, most: int) -> tuple[WaitingPlace, ...]:
    """Return the *most* places of a topic for requests that wait for *kind*, both free and taken ones."""
    row: Row = store.get(waiting_key(topic)) or {}
    empty = (WaitingPlace(topic, kind, number) for number in range(most))
    return tuple(WaitingPlace(topic, kind, each.number, cast("int | None", row.get(each.attribute))) for each in empty)


def taking_update(place: WaitingPlace, until: int) -> Update:
    """Return the write that takes a free place until *until*. It fails if another request took the place meanwhile."""
    changes = {place.attribute: until, "ttl": until // 1000 + KEPT_S}
    expect = {place.attribute: ABSENT if place.until is None else place.until}
    return Update(waiting_key(place.topic), changes, expect=expect)


def leaving_update(place: WaitingPlace) -> Update:
    """Return the write that frees a place. It fails if another request took the place after *place.until*."""
    return Update(waiting_key(place.topic), {}, remove=(place.attribute,), expect={place.attribute: place.until})
