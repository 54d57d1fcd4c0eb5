"""A console over a world in memory, in which a subscriber fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.world import FAIL
from tests.unit.console.visitor import Visitor

HOOK = "https://example.com/hook"


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    visitor = Visitor(tmp_path / "reports")
    visitor.api.create_topic("orders")
    visitor.api.create_subscription(
        "orders", "billing", HOOK, retry={"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 15}
    )
    visitor.api.create_subscription("orders", "mailer", HOOK, filter={"kind": "tags", "tags": ["paid"]})
    visitor.fakes.pusher.behaviours["billing"] = lambda push: FAIL
    yield visitor
    visitor.close()


@pytest.fixture
def ids(visitor: Visitor) -> list[str]:
    """Two messages of which billing failed the first."""
    found = visitor.fakes.publish("one", "two", topic="orders")
    visitor.fakes.deliver()
    return found
