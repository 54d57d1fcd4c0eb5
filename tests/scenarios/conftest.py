"""The scenarios run on a stack of their own, started as the end-to-end tests start theirs."""

from tests.e2e.conftest import stack

__all__ = ["stack"]
