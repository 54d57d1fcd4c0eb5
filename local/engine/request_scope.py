"""What the engine keeps of a request while it is served: whose it is, and of which region."""

from collections.abc import Mapping
from functools import lru_cache

CALLERS_KNOWN = 256
"""Of all requests, few have different callers: most say in every call what they said before."""


def enter(headers: Mapping[str, str]) -> None:
    """Set it, for the task that runs."""
    from ministack.core import responses

    access_key, region = _signed_by(headers.get("authorization", ""))
    responses.set_request_account_id(access_key)
    responses.set_request_region(region)


@lru_cache(CALLERS_KNOWN)
def _signed_by(authorization: str) -> tuple[str, str]:
    from ministack.core import router

    headers = {"authorization": authorization}
    return router.extract_access_key_id(headers), router.extract_region(headers)
