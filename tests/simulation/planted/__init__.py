"""Planted bugs: each is a known way to break a promise, and each must be caught."""

from __future__ import annotations

from tests.simulation.planted import accepting, ending, first_round, halves, keeping, redelivering

MUTANTS = (
    *accepting.MUTANTS,
    *first_round.MUTANTS,
    *halves.MUTANTS,
    *redelivering.MUTANTS,
    *keeping.MUTANTS,
    *ending.MUTANTS,
)
