"""The late entries of a state map as text in their message's row: which were added, when, and by which filter."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tagcast.state_map import AddedLater

LATE_MAX, LATE_BYTES = 100, 48
"""A message gets at most 100 late entries. Each takes at most 48 bytes besides what any owed entry takes."""


def late_text(late: Mapping[int, AddedLater]) -> str:
    """Return late entries as text.

    >>> late_text({7: AddedLater(1_800_000_000_000, 2)}), late_of(late_text({7: AddedLater(5, 2)}))
    ('{"7":[1800000000000,2]}', {7: AddedLater(added_at=5, filter_version=2)})
    """
    return json.dumps({o: [each.added_at, each.filter_version] for o, each in late.items()}, separators=(",", ":"))


def late_of(text: str) -> dict[int, AddedLater]:
    """Return the late entries in a text."""
    return {int(ordinal): AddedLater(*each) for ordinal, each in json.loads(text).items()}
