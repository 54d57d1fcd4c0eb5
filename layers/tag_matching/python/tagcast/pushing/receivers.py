"""What a process remembers of receivers: how the last push to each went, and with whom it therefore begins.

See docs/architecture.md, Pushing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import nlargest

from tagcast.ids import subscription_id
from tagcast.ports import World
from tagcast.pushing.push_slots import SLOTS, Rank

KNOWN_MAX = 10_000
"""So many receivers a process remembers the last push of."""
HEAD_STARTS = SLOTS // 2
"""So many slow receivers are begun with: the others find slots besides, however long those take."""


@dataclass(frozen=True, slots=True)
class LastPush:
    """How a receiver's next push ranks after the last one, and how long that took, in seconds."""

    rank: Rank
    took_s: float


NEVER = LastPush(Rank.UNKNOWN, 0.0)


class LastPushes(dict[str, LastPush]):
    """This process's last push to each subscription, by its id; it orders pushes, and nothing else."""

    def remember(self, receiver: str, last: LastPush) -> None:
        """Remember the *last* push to the subscription with the id *receiver*."""
        if len(self) >= KNOWN_MAX:
            self.clear()
        self[receiver] = last


def in_turn(world: World, topic_id: str, ordinals: Collection[int]) -> list[int]:
    """Return the *ordinals* of subscriptions of one topic in the order in which their pushes are begun.

    A batch ends with its slowest receiver, and each start takes time, so the slow ones go first. Between different
    subscriptions no order is promised.
    """
    if len(ordinals) < 2:
        return list(ordinals)
    known = world.memory.of(LastPushes)
    lasts = [(ordinal, known.get(subscription_id(topic_id, ordinal), NEVER)) for ordinal in sorted(ordinals)]
    return slowest_first([(ordinal, last.took_s if last.rank is Rank.TRUSTED else 0.0) for ordinal, last in lasts])


def slowest_first(took: Sequence[tuple[int, float]], head: int = HEAD_STARTS) -> list[int]:
    """Return the ordinals in *took*, beside the seconds that each took: first the *head* slowest, then the others.

    >>> slowest_first([(0, 0.1), (1, 3.0), (2, 0.0), (3, 9.0), (4, 0.2)], head=2)
    [3, 1, 0, 2, 4]
    """
    first = [ordinal for ordinal, _ in nlargest(head, took, key=lambda each: each[1])]
    others = set(first)
    return first + [ordinal for ordinal, _ in took if ordinal not in others]
