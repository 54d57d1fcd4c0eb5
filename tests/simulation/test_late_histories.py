"""Promises of late entries under accidents, and that a planted bug breaks one of them."""

from __future__ import annotations

import pytest

from tests.simulation.group_history import BrokenPromiseError
from tests.simulation.late_history import LateHistory
from tests.simulation.planted.mutant import planted
from tests.simulation.planted_late import LATE_BUGS

HISTORIES = 12


def test_every_promise_of_late_entries_holds_under_accidents() -> None:
    for seed in range(HISTORIES):
        try:
            LateHistory(seed).play()
        except BrokenPromiseError as fault:
            pytest.fail(f"seed {seed}: {fault}")


@pytest.mark.parametrize("name", LATE_BUGS)
def test_a_planted_bug_of_late_entries_breaks_a_promise(name: str) -> None:
    mutant, seed = LATE_BUGS[name]

    with planted(mutant), pytest.raises(BrokenPromiseError):
        LateHistory(seed).play()
