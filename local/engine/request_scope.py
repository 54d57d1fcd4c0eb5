"""The engine's context of a request: its account and region."""

from collections.abc import Mapping
from functools import lru_cache

CALLERS_KNOWN = 256
"""Cached callers: most requests come from few."""


def enter(headers: Mapping[str, str]) -> None:
    """Set the context of the current task."""
    from ministack.core import responses

    access_key, region = _signed_by(headers.get("authorization", ""))
    responses.set_request_account_id(access_key)
    responses.set_request_region(region)


@lru_cache(CALLERS_KNOWN)
def _signed_by(authorization: str) -> tuple[str, str]:
    from ministack.core import router

    headers = {"authorization": authorization}
    return router.extract_access_key_id(headers), router.extract_region(headers)
