import pytest
from tagcast_client.pytest_plugin import fake_tagcast, tagcast

from tests.clients.in_memory_api import InMemoryApi

__all__ = ["fake_tagcast", "tagcast"]


@pytest.fixture
def api() -> InMemoryApi:
    return InMemoryApi()
