"""Bugs of the two forms that a body has in its row."""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

LONG = Aim(long=0.9, heavy=0.0)
WIDE = Aim(long=0.9, heavy=0.0, wide=1.0)

MUTANTS = (
    Mutant(
        "of a deflated body only its beginning is pushed",
        "tagcast.rows.message:_body_in",
        'inflated(cast("bytes", deflated))',
        'inflated(cast("bytes", deflated))[:256]',
        LONG,
    ),
    Mutant(
        "a deflated body is pushed as it is stored",
        "tagcast.rows.message:_body_in",
        'inflated(cast("bytes", deflated))',
        "deflated",
        LONG,
    ),
    Mutant(
        "a body is stored in both of its forms",
        "tagcast.rows.message:_body_of",
        "if value.has_body and value.deflated is None",
        "if value.has_body",
        LONG,
    ),
    Mutant(
        "a deflated body outlives the last entry",
        "tagcast.rows.message_writes:_map_write",
        "gone += BODY_ATTRIBUTES if",
        'gone += ("body",) if',
        LONG,
    ),
    Mutant(
        "the deflated body of a wide message outlives the last section",
        "tagcast.rows.message_writes:_tally_writes",
        "gone = () if after.has_body else BODY_ATTRIBUTES",
        'gone = () if after.has_body else ("body",)',
        WIDE,
    ),
    Mutant(
        "a body that is stored as it is is read as none",
        "tagcast.rows.message:_body_in",
        'cast("bytes", row.get("body") or b"")',
        'b""',
        LONG,
    ),
)
