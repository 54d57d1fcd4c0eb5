"""Planted bugs: each is a known way to break a promise, and each must be caught."""

from __future__ import annotations

from tests.simulation.planted import (
    accepting,
    batching,
    bodies,
    ending,
    first_round,
    halves,
    keeping,
    packs,
    redelivering,
    sections,
    side_by_side,
)
from tests.simulation.planted.mutant import Mutant

ROOMS = (
    accepting,
    first_round,
    halves,
    packs,
    sections,
    side_by_side,
    redelivering,
    batching,
    keeping,
    bodies,
    ending,
)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for room in ROOMS for mutant in room.MUTANTS)
