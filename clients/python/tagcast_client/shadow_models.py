"""Answers of the API about shadows, as values, in the way of `models`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """How often the active filter and the shadow agreed, and how they differed."""

    evaluated: int
    both: int
    only_active: int
    only_shadow: int
    neither: int
    errors: int


@dataclass(frozen=True, slots=True)
class ShadowSample:
    """A message that one of the two filters would deliver and the other would not."""

    message_id: str
    way: str
