"""Selects, counts and sorts the lanes that need attention."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import urlencode

from tagcast_client import AsyncClient, TagcastError
from tagcast_client.models import UrgentLane

from local.console.cached_list import together
from local.console.rendering import expires_soon

COUNTED_MAX = 100
COUNTED_FRESH_S, PATIENCE_S = 20.0, 0.15
GROUPS_SHOWN = 8
BY_HAND = ("suspended", "unverified")
NO_HOST = "pulled by its members"
NO_ATTEMPT = "no attempt yet"
LATEST = datetime.max.replace(tzinfo=UTC)
Name = tuple[str, str]
"""The name of a lane: its topic and its subscription."""


class LaneNeed(StrEnum):
    """Why the console lists a lane: a person must act, its head expires within an hour, it retries, or it is paused."""

    PERSON = "person"
    SOON = "soon"
    RETRIED = "retried"
    PAUSED = "paused"


NEED_WORDS: Mapping[str, tuple[str, str]] = {
    LaneNeed.PERSON: ("needs attention", "need attention"),
    LaneNeed.SOON: ("expires within an hour", "expire within an hour"),
    LaneNeed.RETRIED: ("retrying", "retrying"),
}


def need_words(name: str, lanes: int) -> str:
    """Return the words that follow a number of lanes with the need *name*. An unknown name is returned unchanged.

    >>> need_words("person", 1), need_words("soon", 2), need_words("paused", 0), need_words("?", 1)
    ('needs attention', 'expire within an hour', 'paused', '?')
    """
    one, many = NEED_WORDS.get(name, (name, name))
    return one if lanes == 1 else many


def need_of(lane: UrgentLane) -> LaneNeed:
    """Return the most urgent need of a lane: a person's action, an expiry within an hour, a pause, or retries."""
    if lane.state in BY_HAND:
        return LaneNeed.PERSON
    if lane.head is not None and expires_soon(lane.head.expires_at):
        return LaneNeed.SOON
    return LaneNeed.PAUSED if lane.state == "paused" else LaneNeed.RETRIED


def host_of(lane: UrgentLane) -> str:
    """Return the host of a lane's endpoint, or :data:`NO_HOST` for a group."""
    return lane.host or NO_HOST


def outcome_of(lane: UrgentLane) -> str:
    """Return the outcome of the head's last attempt; :data:`NO_ATTEMPT` if there was none."""
    return (lane.head and lane.head.last_outcome) or NO_ATTEMPT


def place(lane: UrgentLane) -> tuple[int, datetime, Name]:
    """Return the sort key of a lane. The most urgent need comes first, then the oldest head, then the name."""
    pending_since = LATEST if lane.head is None else lane.head.accepted_at
    return list(LaneNeed).index(need_of(lane)), pending_since, (lane.topic, lane.subscription)


@dataclass(frozen=True)
class Choice:
    """A selection of lanes. An empty field does not restrict it.

    *text* is a part of the topic's or subscription's name.
    """

    need: str = ""
    state: str = ""
    host: str = ""
    topic: str = ""
    outcome: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Choice:
        """Return the selection in the query of a URL."""
        return cls(**{each.name: query.get(each.name, "").strip() for each in fields(cls)})

    @property
    def parameters(self) -> dict[str, str]:
        """The non-empty fields: values by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name))}

    def takes(self, lane: UrgentLane) -> bool:
        """Return whether the selection includes a lane."""
        return (
            self.need in ("", need_of(lane))
            and self.state in ("", lane.state)
            and self.host in ("", host_of(lane))
            and self.topic in ("", lane.topic)
            and self.outcome in ("", outcome_of(lane))
            and self.text.lower() in f"{lane.topic} / {lane.subscription}".lower()
        )

    def path(self, **changes: str) -> str:
        """Return the URL path of the overview with this selection. *changes* replaces fields of the selection.

        >>> Choice(state="blocked").path(host="http://a:9"), Choice(state="blocked").path(state="")
        ('/?state=blocked&host=http%3A%2F%2Fa%3A9', '/')
        """
        parameters = replace(self, **changes).parameters
        return f"/?{urlencode(parameters)}" if parameters else "/"


@dataclass(frozen=True)
class Cause:
    """A group of lanes with the same host, topic or outcome; *name* is this value. *lanes* and *topics* are numbers.

    *since* is when the oldest head was accepted; None if no lane has a head. *states* and *outcomes* pair a value with
    its number of lanes, the most frequent value first. *need* is the most urgent need of the lanes.
    """

    name: str
    lanes: int
    topics: int
    since: datetime | None
    states: tuple[tuple[str, int], ...]
    outcomes: tuple[tuple[str, int], ...]
    need: LaneNeed


def group_by_cause(lanes: Iterable[UrgentLane], cause_of: Callable[[UrgentLane], str]) -> list[Cause]:
    """Group lanes by the value that *cause_of* returns, such as the host. The largest group is first."""
    groups: dict[str, list[UrgentLane]] = {}
    for lane in lanes:
        groups.setdefault(cause_of(lane), []).append(lane)
    found = [
        Cause(
            name,
            len(group),
            len({each.topic for each in group}),
            min((each.head.accepted_at for each in group if each.head), default=None),
            tuple(Counter(each.state for each in group).most_common()),
            tuple(Counter(map(outcome_of, group)).most_common(2)),
            min(map(need_of, group), key=list(LaneNeed).index),
        )
        for name, group in groups.items()
    ]
    return sorted(found, key=lambda cause: (-cause.lanes, cause.name))


def by_need(lanes: Iterable[UrgentLane]) -> dict[LaneNeed, Counter[str]]:
    """Count lanes by need, and within each need by state."""
    counts: dict[LaneNeed, Counter[str]] = {need: Counter() for need in LaneNeed}
    for lane in lanes:
        counts[need_of(lane)][lane.state] += 1
    return counts


class BacklogCounts:
    """Counts the backlogs of lanes, each up to :data:`COUNTED_MAX`, and caches the results."""

    def __init__(self, api: AsyncClient) -> None:
        self._api = api
        self._known: dict[Name, tuple[float, str]] = {}
        self._task: asyncio.Task[None] | None = None

    async def of(self, lanes: Sequence[UrgentLane]) -> Mapping[Name, str]:
        """Return the backlogs of *lanes* by name, as text, e.g. ``100+``. A lane without a result is missing.

        The call waits at most ``PATIENCE_S`` seconds. Counting continues, so a later call has more results.
        """
        names = [(lane.topic, lane.subscription) for lane in lanes]
        now = time.monotonic()
        self._known = {name: each for name, each in self._known.items() if now - each[0] < COUNTED_FRESH_S}
        missing = [name for name in names if name not in self._known]
        if missing and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._count(missing))
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=PATIENCE_S)
        return {name: self._known[name][1] for name in names if name in self._known}

    def forget(self) -> None:
        """Drop all counts, and cancel the count in progress. Call this after a change of lanes."""
        self._known = {}
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def stop(self) -> None:
        """Stop a running count."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _count(self, names: Sequence[Name]) -> None:
        async def count_backlog(name: Name) -> None:
            try:
                page = await self._api.list_backlog(*name, limit=COUNTED_MAX).page()
            except TagcastError:  # The lane is gone, or the next page shows that the API is down.
                return
            more = "" if page.next_cursor is None else "+"
            self._known[name] = time.monotonic(), f"{len(page.items)}{more}"

        await together(count_backlog, names)
