"""Planted bugs: each is a known way to break a promise, and each must be caught."""

from __future__ import annotations

from tests.simulation.planted import (
    accepting,
    batching,
    bodies,
    ending,
    first_round,
    halves,
    independent,
    keeping,
    packs,
    redelivering,
    sections,
)
from tests.simulation.planted.mutant import Mutant

ROOMS = (
    accepting,
    first_round,
    halves,
    independent,
    packs,
    sections,
    redelivering,
    batching,
    keeping,
    bodies,
    ending,
)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for room in ROOMS for mutant in room.MUTANTS)
