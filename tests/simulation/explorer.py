"""All interleavings of a small world over the shipped code: two messages, two subscribers, crashes, copies, a change.

Depth first over who moves next, with every state met once. A state is a value: the table's rows, the actors with
their logs, what the receivers saw, and what may still go wrong.
"""

import time
from dataclasses import dataclass, replace

from tests.simulation.ledger import Broken
from tests.simulation.moves import Bounds, beginning, following
from tests.simulation.small_world import check_end


@dataclass
class Walk:
    """What an exploration came to: *whole* says that nothing was left out."""

    states: int = 0
    moves: int = 0
    ends: int = 0
    whole: bool = False
    broken: Broken | None = None
    story: tuple[str, ...] = ()

    def told(self) -> str:
        extent = "all of them" if self.whole else "until the time was over"
        return f"{self.states:,} states, {self.moves:,} moves, {self.ends:,} ends, {extent}, broken: {self.broken}"


def explore(seconds: float, bounds: Bounds | None = None) -> Walk:
    """Walk all states that can be reached, for at most *seconds*; the first broken promise ends the walk."""
    walk = Walk()
    first = beginning(bounds or Bounds())
    met = {first.digest()}
    waiting = [first]
    until = time.perf_counter() + seconds
    while waiting and time.perf_counter() < until:
        state = waiting.pop()
        walk.states += 1
        moves = 0
        for name, make in following(state):
            moves += 1
            try:
                after = make()
            except Broken as broken:
                walk.broken, walk.story = broken, (*state.told, name)
                return walk
            digest = after.digest()
            if digest not in met:
                met.add(digest)
                waiting.append(replace(after, told=(*state.told, name)))
        walk.moves += moves
        if not any(not name.startswith("somebody") for name, _ in following(state)):
            walk.ends += 1
            try:
                check_end(state.rows)
            except Broken as broken:
                walk.broken, walk.story = broken, state.told
                return walk
    walk.whole = not waiting
    return walk
