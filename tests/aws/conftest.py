from __future__ import annotations

import pytest

from tests.aws.small_account import SmallAccount


@pytest.fixture
def account() -> SmallAccount:
    """A box with one resource of each kind, one caller, and no accidents."""
    return SmallAccount()
