"""Promises of pull groups under accidents, and that a planted bug breaks one of them."""

from __future__ import annotations

import pytest

from tests.simulation.group_history import BrokenPromiseError, GroupHistory
from tests.simulation.planted.mutant import planted
from tests.simulation.planted_groups import GROUP_BUGS

HISTORIES, AT_ONCE = 40, 20


@pytest.mark.parametrize("first", range(0, HISTORIES, AT_ONCE))
def test_every_promise_of_a_group_holds_under_accidents(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        try:
            GroupHistory(seed).play()
        except BrokenPromiseError as fault:
            pytest.fail(f"seed {seed}: {fault}")


@pytest.mark.parametrize("name", GROUP_BUGS)
def test_a_planted_bug_of_groups_breaks_a_promise(name: str) -> None:
    mutant, seed = GROUP_BUGS[name]

    with planted(mutant), pytest.raises(BrokenPromiseError):
        GroupHistory(seed).play()
