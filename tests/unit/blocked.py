"""A lane that is blocked."""

from __future__ import annotations

from typing import Any

from tests.fakes.world import FAIL, FakeWorld


def blocked(fake: FakeWorld, *bodies: str, name: str = "A", **settings: Any) -> list[str]:
    """Subscribe a receiver that fails, and let it fail at *bodies*; return their ids."""
    fake.subscribe(name, **settings)
    fake.pusher.behaviours[name] = lambda push: FAIL
    ids = fake.publish(*bodies)
    fake.deliver()
    return ids
