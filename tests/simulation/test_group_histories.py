"""Promises of pull groups under accidents, and what breaks them when a bug is planted."""

from __future__ import annotations

import pytest

from tests.simulation.group_history import BrokenPromiseError, GroupHistory

HISTORIES, SEEDS_MAX = 120, 400


@pytest.mark.parametrize("first", range(0, HISTORIES, 30))
def test_every_promise_of_a_group_holds_under_accidents(first: int) -> None:
    for seed in range(first, first + 30):
        try:
            GroupHistory(seed).play()
        except BrokenPromiseError as fault:
            pytest.fail(f"seed {seed}: {fault}")
