"""How often a flow changes the module while it runs through the core: ``python -m tests.architecture.module_changes``.

A reader who follows a flow changes the file as often. A call into another module of ``tagcast`` and the return
from it count as one each. Not counted are the codecs in ``rows``, the vocabulary that every reader knows
(:data:`VOCABULARY`), and a suspended call that goes on: nobody opens a file for these. *all* counts everything, calls
of properties, small readers and lambdas included, and a change of *room*, a folder of the core, in the same way.
The flows: what a publish to a known topic costs, a first round of one message for one subscriber who gets it or does
not, and the retry of the two messages of a blocked lane.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import tagcast
from tagcast.operating import lanes

from tests.fakes.world import FAIL, OK, FakeWorld

CORE = str(Path(tagcast.__file__).parent) + "/"
VOCABULARY = ("rows/", "concurrency/", "model", "ids", "errors", "subscription_settings", "instant", "ports")
"""What the figures leave out: codecs, words, and how work runs side by side."""
Changes = tuple[int, int, int]
"""Of modules without the vocabulary, of all modules, of rooms."""


class Trace:
    """The modules of the core in the order in which control came to them."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.calls = 0
        self._begun: dict[int, FrameType] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take a call or a return; as `sys.setprofile` wants it."""
        if not frame.f_code.co_filename.startswith(CORE):
            return
        if event == "call":
            self._called(frame)
        at: FrameType | None = frame
        if event == "return":
            at = frame.f_back
            while at is not None and not at.f_code.co_filename.startswith(CORE):
                at = at.f_back
        if event in ("call", "return") and at is not None:
            module = at.f_code.co_filename[len(CORE) : -len(".py")]
            if self.modules[-1:] != [module]:
                self.modules.append(module)

    def _called(self, frame: FrameType) -> None:
        """Count a call that crosses modules, the first time that it is entered."""
        if id(frame) in self._begun:
            return
        self._begun[id(frame)] = frame
        caller = frame.f_back
        while caller is not None and (not caller.f_code.co_filename.startswith(CORE) or _is_vocabulary(caller)):
            caller = caller.f_back
        if caller is not None and not _is_vocabulary(frame) and _module(caller) != _module(frame):
            self.calls += 1


def _module(frame: FrameType) -> str:
    return frame.f_code.co_filename[len(CORE) : -len(".py")]


def _is_vocabulary(frame: FrameType) -> bool:
    module = _module(frame)
    return any(module == each or (each.endswith("/") and module.startswith(each)) for each in VOCABULARY)


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
    return 2 * trace.calls, max(0, len(trace.modules) - 1), moved


def measured() -> dict[str, Changes]:
    """Return the changes of each flow, the second time that it runs: what is made at first use is made once."""
    _flows()
    return _flows()


def _flows() -> dict[str, Changes]:
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
    for name, (of_modules, of_all, of_rooms) in measured().items():
        print(f"{name:24}{of_modules:5} changes of module{of_all:6} of all{of_rooms:5} of room")
