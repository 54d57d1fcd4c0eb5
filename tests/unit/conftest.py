"""What most tests of the core begin with."""

import pytest

from tests.fakes.world import FakeWorld


@pytest.fixture
def fake() -> FakeWorld:
    """A world in memory with the topic test1."""
    fake = FakeWorld()
    fake.topic()
    return fake
