from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aws.contract import World, engine_world
from tests.aws.quiet import quiet
from tests.aws.small_account import SmallAccount


@pytest.fixture
def account() -> SmallAccount:
    """A box with one resource of each kind, one caller, and no accidents."""
    return SmallAccount()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The engine of the local stack, started once."""
    with engine_world(tmp_path_factory.mktemp("engine")) as world:
        yield world


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield
