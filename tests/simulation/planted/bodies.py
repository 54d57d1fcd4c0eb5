"""Bugs of the two forms that a body has in its row."""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

LONG = Aim(long=0.9, heavy=0.0)
WIDE = Aim(long=0.9, heavy=0.0, wide=1.0)

MUTANTS = (
    Mutant(
        "of a deflated body only its beginning is pushed",
        "tagcast.rows.message:_message_in",
        "inflated(packed)",
        "inflated(packed)[:256]",
        LONG,
    ),
    Mutant(
        "a deflated body is pushed as it is stored",
        "tagcast.rows.message:_message_in",
        "inflated(packed)",
        "packed",
        LONG,
    ),
    Mutant(
        "a body is stored in both of its forms",
        "tagcast.rows.message:_message_row",
        "draft.body if value.has_body and value.deflated is None else None",
        "draft.body if value.has_body else None",
        LONG,
    ),
    Mutant(
        "a deflated body outlives the last entry",
        "tagcast.rows.log:_body_of",
        "else BODY_ATTRIBUTES",
        'else ("body",)',
        LONG,
    ),
    Mutant(
        "a body that is stored as it is is read as none",
        "tagcast.rows.message:_message_in",
        'get("body", b"")',
        'b""',
        LONG,
    ),
)
