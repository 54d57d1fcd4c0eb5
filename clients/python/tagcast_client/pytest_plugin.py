"""Fixtures for pytest, available once the package is installed: `fake_tagcast`, and `tagcast`, its client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tagcast_client._sync.client import Client
from tagcast_client.testing import FakeApi


@pytest.fixture
def fake_tagcast() -> FakeApi:
    """An API in memory; its *published* lists the accepted messages."""
    return FakeApi()


@pytest.fixture
def tagcast(fake_tagcast: FakeApi) -> Iterator[Client]:
    """A client of `fake_tagcast`."""
    with fake_tagcast.client() as client:
        yield client
