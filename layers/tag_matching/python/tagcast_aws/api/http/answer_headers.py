"""The headers of every answer: the version of the API that it follows, and the id of its request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast_aws.api.http.problems import UnknownVersionError

API_VERSION = "2026-11-25"
"""What an answer means; docs/http-api.md, Versions, says what may change under one date."""
API_VERSIONS = (API_VERSION,)
"""The dates that a request may ask for."""
VERSION_HEADER = "tagcast-version"
REQUEST_ID_HEADER = "tagcast-request-id"
REPLAYED_HEADER = "idempotent-replayed"
"""Is `true` on an answer that repeats an earlier one."""


def request_id_of(event: Mapping[str, Any]) -> str:
    """Return the id of a request, which API Gateway, or Lambda for a URL of a function, gave it."""
    return str(event.get("requestContext", {}).get("requestId", "unknown"))


def check_version(headers: Mapping[str, str]) -> None:
    """Raise UnknownVersionError if a request, its *headers* named in small letters, asks for an unknown version."""
    asked = headers.get(VERSION_HEADER, API_VERSION)
    if asked not in API_VERSIONS:
        raise UnknownVersionError(f"{VERSION_HEADER} must be {' or '.join(API_VERSIONS)}, or be left out")


def answer_headers(request_id: str) -> dict[str, str]:
    """Return the headers of the answer to a request.

    >>> answer_headers("r-1")
    {'tagcast-version': '2026-11-25', 'tagcast-request-id': 'r-1'}
    """
    return {VERSION_HEADER: API_VERSION, REQUEST_ID_HEADER: request_id}
