"""What the local stack says when it has too much to do."""

from __future__ import annotations

from local.sources.sources import SAY_AGAIN_S, WAITING_MAX, Overload

TOLD = f"overloaded: {WAITING_MAX + 1} events wait for a worker; the sweep waits for less"


def test_each_overload_is_told_at_once_and_again_after_a_minute_however_soon_it_follows() -> None:
    said: list[str] = []
    waiting = [WAITING_MAX + 1]
    overload = Overload(lambda: waiting[0], said.append)

    assert overload.puts_off(0.0)
    assert overload.puts_off(SAY_AGAIN_S - 1)
    assert said == [TOLD]
    assert overload.puts_off(SAY_AGAIN_S)
    waiting[0] = WAITING_MAX
    assert not overload.puts_off(SAY_AGAIN_S + 1)
    assert not overload.puts_off(SAY_AGAIN_S + 2)
    waiting[0] = WAITING_MAX + 1
    assert overload.puts_off(SAY_AGAIN_S + 3)
    assert said == [TOLD, TOLD, "no longer overloaded", TOLD]
