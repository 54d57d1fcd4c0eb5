"""Bugs of an update: what the processes of the new release do while those of the older one have to read it."""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

MIXED = Aim(mixed_releases=1.0, mixed=True)
TOGETHER = Aim(mixed_releases=1.0, batches=True)
WIDE = Aim(mixed_releases=1.0, wide=1.0)
LONG = Aim(mixed_releases=1.0, long=0.9, heavy=0.0)
REPEATED = Aim(mixed_releases=1.0, batches=True, mixed=True, keyed=0.9, steered=0.0)
PUBLISHING = "tagcast.delivery.publishing"

MUTANTS = (
    Mutant(
        "halves are queued while the release before knows none",
        f"{PUBLISHING}:_in_order",
        "(in_order and world.plain_queueing)",
        "False",
        MIXED,
    ),
    Mutant(
        "packs are queued while the release before knows none",
        f"{PUBLISHING}:_queue",
        "if world.plain_queueing:",
        "if False:",
        TOGETHER,
    ),
    Mutant(
        "rows carry packs while the release before knows none",
        f"{PUBLISHING}:_packs",
        "if size == 1 or world.plain_queueing:",
        "if size == 1:",
        TOGETHER,
    ),
    Mutant(
        "maps have sections while the release before knows none",
        f"{PUBLISHING}:_is_wide",
        "len(matched) > world.section_max and not world.plain_queueing",
        "len(matched) > world.section_max",
        WIDE,
    ),
    Mutant(
        "bodies are deflated while the release before inflates none",
        f"{PUBLISHING}:_accept",
        "is_plain=world.plain_queueing",
        "is_plain=False",
        LONG,
    ),
    Mutant(
        "what the last row of another request was to carry is acknowledged without an entry",
        f"{PUBLISHING}:_queue",
        "packed(topic.ordering, [row]))",
        "(packed(topic.ordering, [row]) if row.packs is None else row.packs))",
        REPEATED,
    ),
)
