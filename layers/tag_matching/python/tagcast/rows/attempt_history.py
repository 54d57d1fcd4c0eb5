"""What receipts remember of the attempts of deliveries that did not get through at once, in few bytes.

No archive is told of it, nor of what due rows remember, because it has what receivers said.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tagcast.model import Entry, EntryState, PastAttempt
from tagcast.rows.due import History, attempt_rows, deflated, packed, unpacked
from tagcast.rows.message import MessageRow, is_light

RECEIPT_BYTES_MAX = 16_384
"""A receipt remembers at most 16 KiB of attempts, because each delivery that ends writes the whole row."""
RECEIPT_ENTRY_BYTES_MAX = 2_048
UNTOLD = frozenset({"history", "histories"})
"""The attributes that no archive is told of."""


def remembering(before: MessageRow, after: MessageRow, entries: Mapping[int, Entry]) -> MessageRow:
    """Return *after* with the attempts of those *entries* that failed since *before*, if its row has room for them."""
    ended = before.map.owed - after.map.owed
    failed = {o: entry for o, entry in entries.items() if o in ended and entry.state is not EntryState.DELIVERED}
    row = replace(after, histories=added(after.histories, {o: e.history for o, e in failed.items() if e.history}))
    return row if is_light(row) else after


def added(histories: bytes, new: Mapping[int, History]) -> bytes:
    """Return what a receipt remembers when it is told of *new* histories, by ordinals, too.

    What was there stays. Where there is no room the responses of the new ones are forgotten, or all of them.
    """
    known = _known(histories)
    bounded = {ordinal: unpacked(packed(history, RECEIPT_ENTRY_BYTES_MAX)) for ordinal, history in new.items()}
    for told in (bounded, {ordinal: _silent(history) for ordinal, history in bounded.items()}):
        written = deflated(known | {str(ordinal): attempt_rows(history) for ordinal, history in told.items()})
        if len(written) <= RECEIPT_BYTES_MAX:
            return written
    return histories


def history_in(histories: bytes, ordinal: int) -> tuple[PastAttempt, ...]:
    """Return what a receipt remembers of one delivery.

    >>> history_in(added(b"", {3: [PastAttempt(1, 1_500, 20, "http 500", 500, "no")]}), 3)[0].response
    'no'
    """
    return tuple(PastAttempt(*row) for row in _known(histories).get(str(ordinal), ()))


def _known(histories: bytes) -> dict[str, Any]:
    return dict(json.loads(zlib.decompress(histories))) if histories else {}


def _silent(history: History) -> History:
    return [replace(each, response="") for each in history]
