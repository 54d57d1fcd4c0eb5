"""Many lanes whose heads are the same message: no end waits for another, and no push is repeated."""

import pytest

from tests.fakes.herd import removal, stampede


@pytest.mark.parametrize("number", [10, 60, 200])
def test_the_ends_of_lanes_that_wake_together_meet_in_no_row(number: int) -> None:
    herd = stampede(number, 4_096)

    assert herd.extra == 0
    assert (herd.counts["conflicts"], herd.counts["conditions lost"]) == (0, 0)
    assert herd.seconds < 2, "they wake within half a second"


def test_a_large_body_makes_no_end_slower() -> None:
    herd = stampede(20, 60_000)

    assert (herd.extra, herd.counts["throttled"]) == (0, 0)
    assert herd.seconds < 2


def test_what_removed_subscriptions_owe_ends_many_at_once() -> None:
    came = removal(30, 60, at_once=8)

    assert came.attempts == 30, "what was attempted before is told"
    assert came.seconds < 3
    assert came.worker_s < 20
