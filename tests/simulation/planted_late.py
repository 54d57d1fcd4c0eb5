"""Bugs of late entries and of bodies that are kept, each with the history in which it was caught last."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

FILLING = "tagcast.delivery.filling"
LATE_BUGS: dict[str, tuple[Mutant, int]] = {
    mutant.name: (mutant, seed)
    for mutant, seed in (
        (
            Mutant(
                "what a publish had decided is decided again",
                f"{FILLING}:_is_kept",
                "if row.subscriptions_version >= filling.since or message.accepted_at < filling.accepted_from:",
                "if message.accepted_at < filling.accepted_from:",
                also=("tests.fakes.memory_store:kept_rows", ">= before_version", "< 0"),
            ),
            28,
        ),
        (
            Mutant(
                "a late entry is added without its due row",
                f"{FILLING}:_add_together",
                ", due_put(due)]",
                "]",
            ),
            11,
        ),
        (
            Mutant(
                "whoever lost the lane adds to it",
                f"{FILLING}:_add_together",
                "writes: list[Write] = [lease.check()]",
                "writes: list[Write] = []",
            ),
            612,
        ),
        (
            Mutant(
                "late entries are added while publishes are under way",
                f"{FILLING}:fill",
                "if now < filling.begins_at:",
                "if False:",
            ),
            18,
        ),
        (
            Mutant(
                "only the first page of what is kept is added",
                f"{FILLING}:fill",
                "is_over = found.cursor is None",
                "is_over = True",
            ),
            11,
        ),
        (
            Mutant(
                "what others write just then is not added",
                f"{FILLING}:_add",
                "        if len(ids) > 1:\n            break\n",
                "        return\n",
            ),
            62,
        ),
        (
            Mutant(
                "everything kept is added, whatever the filter says",
                f"{FILLING}:_matches",
                "return group.ordinal in matched.ordinals",
                "return True",
            ),
            0,
        ),
        (
            Mutant(
                "a late entry names the first version of the filter",
                f"{FILLING}:_add_together",
                "AddedLater(world.clock.now(), group.version)",
                "AddedLater(world.clock.now(), 1)",
            ),
            7,
        ),
        (
            Mutant(
                "late entries stand behind what was published since",
                f"{FILLING}:_add_together",
                "position=LATE_POSITION",
                'position="9" * 20',
            ),
            20,
        ),
        (
            Mutant(
                "who resumes a group forgets what it was to be given",
                "tagcast.operating.lanes:resume",
                "if head or lane.is_filling:",
                "if head:",
            ),
            47,
        ),
        (
            Mutant(
                "a body that is kept goes with the last entry",
                "tagcast.rows.log:_body_of",
                "() if row.is_kept else",
                "() if False else",
            ),
            12,
        ),
        (
            Mutant(
                "a body that is kept stays for ever",
                "tagcast.rows.log:removal",
                "if not row.is_kept:",
                "if True:",
            ),
            0,
        ),
        (
            Mutant(
                "a member that is refused for its order may pull",
                "tagcast.registry.members:check_filter",
                "member.is_ordered and not subscription.settings.ordered",
                "False",
            ),
            85,
        ),
        (
            Mutant(
                "a member that disagrees is not remembered as one",
                "tagcast.registry.members:record_heartbeat",
                "digest=digest(heartbeat.filter)",
                'digest=""',
            ),
            4,
        ),
    )
}
