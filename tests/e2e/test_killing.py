"""Processes are killed at random moments; `python -m tests.e2e.killing` does it for longer."""

from pathlib import Path

import pytest

from tests.e2e.killing import run

SOON_S = 20.0
"""A queue entry that nobody gave back would come after six minutes."""
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.mark.nightly
def test_no_delivery_is_lost_or_out_of_order_when_workers_are_killed(tmp_path: Path) -> None:
    outcome, _ = run("workers", 8, 1, tmp_path / "data")

    assert sum(outcome.kills.values()) >= 3
    assert outcome.acknowledged >= 20
    assert (outcome.lost, outcome.unexpected, outcome.out_of_order) == ([], [], [])


def test_what_was_acknowledged_outlives_a_kill_of_the_whole_stack_and_comes_soon(tmp_path: Path) -> None:
    outcome, _ = run("stack", 10, 2, tmp_path / "data")

    assert outcome.kills["the whole stack"] >= 1
    assert (outcome.lost, outcome.unexpected, outcome.out_of_order) == ([], [], [])
    assert (outcome.forgotten, outcome.unarchived) == ([], False)
    assert outcome.latest_s < SOON_S
