"""How often a flow changes the module while it runs through the core: ``python -m tests.architecture.module_changes``.

Whoever follows a flow by reading changes the file as often. A call into another module of ``tagcast`` and the return
from it count as one each, whatever lies between that is not the core's; so do calls of properties and of small readers,
comprehensions and lambdas. A change of *room* (a folder of the core, or a module beside the folders) is counted the
same way: within a room the reader stays in the same folder. The flows: what a publish to a known topic costs, a first
round of one message for one subscriber who gets it or does not, and the retry of the two messages of a blocked lane.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import tagcast
from tagcast.operating import lanes

from tests.fakes.world import FAIL, OK, FakeWorld

CORE = str(Path(tagcast.__file__).parent) + "/"
Changes = tuple[int, int]
"""Of modules, of rooms."""


class Trace:
    """The modules of the core in the order in which control came to them."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take a call or a return; as `sys.setprofile` wants it."""
        if not frame.f_code.co_filename.startswith(CORE):
            return
        at: FrameType | None = frame
        if event == "return":
            at = frame.f_back
            while at is not None and not at.f_code.co_filename.startswith(CORE):
                at = at.f_back
        if event in ("call", "return") and at is not None:
            module = at.f_code.co_filename[len(CORE) : -len(".py")]
            if self.modules[-1:] != [module]:
                self.modules.append(module)


def changes(flow: Callable[[], object]) -> Changes:
    """Let *flow* run and count."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        flow()
    finally:
        sys.setprofile(None)
    rooms = [module.partition("/")[0] for module in trace.modules]
    moved = sum(one != other for one, other in pairwise(rooms))
    return max(0, len(trace.modules) - 1), moved


def measured() -> dict[str, Changes]:
    """Return the changes of each flow."""
    fake = FakeWorld()
    fake.topic()
    fake.subscribe("A", "apple")
    fake.subscribe("B", filter={"kind": "sql92", "expression": "price > 100"})
    fake.publish("0", tags=["apple"])
    fake.deliver()
    found = {
        "publish": changes(lambda: fake.publish("1", tags=["apple"])),
        "delivered fan-out": changes(fake.deliver),
    }
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("2", tags=["apple"])
    found["failed fan-out"] = changes(fake.deliver)
    fake.publish("3", tags=["apple"])
    fake.deliver()
    fake.pusher.behaviours["A"] = lambda push: OK
    lanes.retry_now(fake.world, "test1", "A")
    found["retry of two messages"] = changes(lambda: fake.run_workflows(until=fake.clock.instant + 60_000))
    assert fake.pusher.received["A"] == ["0", "1", "2", "3"]
    return found


if __name__ == "__main__":
    for name, (of_modules, of_rooms) in measured().items():
        print(f"{name:24}{of_modules:5} changes of module{of_rooms:5} of room")
