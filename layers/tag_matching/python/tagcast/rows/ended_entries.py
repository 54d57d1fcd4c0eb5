"""The ended entries of a round, packed into one attribute of its row."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tagcast.model import Entry, EntryState
from tagcast.rows.values import deflate_json, inflate_json

OUTCOME_BYTES_MAX = 200
"""An outcome takes at most 200 bytes of a row, as UTF-8 in JSON. A control character takes six."""
OUTCOME_BYTES = (OUTCOME_BYTES_MAX, 40, 0)
"""Bounds for the outcomes of entries that end together, in bytes. The first bound with which the row fits is used."""
ENTRY_BYTES = 8
"""An upper bound for the bytes of an entry without its outcome, if many entries are packed."""
_STATES = tuple(state.value for state in EntryState if state.is_terminal)
_ELLIPSIS = "…"


def bound_outcome(outcome: str | None, bytes_max: int = OUTCOME_BYTES_MAX) -> str | None:
    r"""Return *outcome* cut to *bytes_max* bytes, or None if *bytes_max* is 0. Lone surrogates become question marks.

    >>> bound_outcome("x" * 300)[-3:], bound_outcome("\x00" * 300).count("\x00")
    ('xx…', 32)
    >>> bound_outcome("\ud800"), bound_outcome(None)
    ('?', None)
    """
    if outcome is None or bytes_max <= 0:
        return None
    if len(outcome) * 2 <= bytes_max and outcome.isascii() and outcome.isprintable():
        return outcome
    storable = outcome.encode(errors="replace").decode()
    if _stored_bytes(storable) <= bytes_max:
        return storable
    left = bytes_max - len(_ELLIPSIS.encode())
    too_long = bisect_right(range(len(storable)), left, key=lambda end: _stored_bytes(storable[:end]))
    return storable[: max(0, too_long - 1)] + _ELLIPSIS


def _stored_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def shorten_outcomes(entries: Mapping[int, Entry], outcome_bytes_max: int) -> dict[int, Entry]:
    """Return the entries with their outcomes cut to *outcome_bytes_max* bytes. With 0 they get the outcome None."""
    return {ordinal: _shorten(entry, outcome_bytes_max) for ordinal, entry in entries.items()}


def _shorten(entry: Entry, outcome_bytes_max: int) -> Entry:
    outcome = bound_outcome(entry.last_outcome, outcome_bytes_max)
    return entry if outcome == entry.last_outcome else replace(entry, last_outcome=outcome)


def to_bytes(entries: Mapping[int, Entry], accepted_at: int) -> bytes:
    """Return the entries, sorted by ordinal, as deflated JSON without the ordinals.

    The caller stores the ordinals. The JSON has five lists: states, attempts, milliseconds from *accepted_at* to the
    last attempt, indices of outcomes, and the distinct outcomes.

    >>> one = {3: Entry(EntryState.DISCARDED, 4, 1_500, "http 500"), 7: Entry(EntryState.EXPIRED)}
    >>> inflate_json(to_bytes(one, 1_000))
    [[1, 2], [4, 0], [500, None], [0, None], ['http 500']]
    >>> of_bytes(to_bytes(one, 1_000), [3, 7], 1_000) == one
    True
    """
    ordered = [entry for _, entry in sorted(entries.items())]
    places: dict[str, int] = {}
    for entry in ordered:
        if entry.last_outcome is not None:
            places.setdefault(entry.last_outcome, len(places))
    columns = [
        [_STATES.index(entry.state.value) for entry in ordered],
        [entry.attempts for entry in ordered],
        [None if entry.last_attempt_at is None else entry.last_attempt_at - accepted_at for entry in ordered],
        [None if entry.last_outcome is None else places[entry.last_outcome] for entry in ordered],
        list(places),
    ]
    return deflate_json(columns)


def of_bytes(packed: bytes, ordinals: Iterable[int], accepted_at: int) -> dict[int, Entry]:
    """Return the entries packed by :func:`to_bytes`, by ordinal. *ordinals* are the entries' ordinals in any order."""
    states, attempts, since, places, outcomes = inflate_json(packed)
    return {
        ordinal: Entry(
            EntryState(_STATES[state]),
            made,
            None if after is None else after + accepted_at,
            None if place is None else outcomes[place],
        )
        for ordinal, state, made, after, place in zip(sorted(ordinals), states, attempts, since, places, strict=True)
    }
