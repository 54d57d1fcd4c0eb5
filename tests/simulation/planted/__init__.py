"""Planted bugs: each is a known way to break a promise, and each must be caught."""

from __future__ import annotations

from tests.simulation.planted import accepting, batching, ending, first_round, keeping, redelivering

MUTANTS = (
    *accepting.MUTANTS,
    *first_round.MUTANTS,
    *redelivering.MUTANTS,
    *batching.MUTANTS,
    *keeping.MUTANTS,
    *ending.MUTANTS,
)
