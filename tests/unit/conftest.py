"""What most tests of the core begin with."""

import pytest

from tests.fakes.calls import Before
from tests.fakes.memory_store import MemoryStore
from tests.fakes.virtual_time import VirtualTime
from tests.fakes.world import FakeWorld
from tests.unit.api.test_http_api import Client


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Before:
    return Before(monkeypatch)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def loop() -> VirtualTime:
    """The event loop of an asynchronous test for which no time passes."""
    return VirtualTime()


@pytest.fixture
def fake(store: MemoryStore) -> FakeWorld:
    """A world in memory with the topic test1."""
    fake = FakeWorld(store=store)
    fake.topic()
    return fake


@pytest.fixture
def api() -> Client:
    """The HTTP API, with the topic orders."""
    client = Client()
    assert client("PUT", "/topics/orders").status == 201
    return client
