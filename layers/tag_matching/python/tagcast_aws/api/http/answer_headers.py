"""The headers of every answer: the API version that the answer follows, and the id of the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast_aws.api.http.problems import UnknownVersionError

API_VERSION = "2026-11-25"
"""The version of the API. docs/http-api.md, Versions, lists the changes that one date allows."""
API_VERSIONS = (API_VERSION,)
"""The dates that a request may ask for."""
VERSION_HEADER = "tagcast-version"
REQUEST_ID_HEADER = "tagcast-request-id"
REPLAYED_HEADER = "idempotent-replayed"
"""This header is `true` if the answer repeats an earlier one."""


def request_id_of(event: Mapping[str, Any]) -> str:
    """Return the id of a request. API Gateway assigns it, or Lambda for a function URL."""
    return str(event.get("requestContext", {}).get("requestId", "unknown"))


def check_version(headers: Mapping[str, str]) -> None:
    """Raise UnknownVersionError if *headers* ask for an unknown version. Names in *headers* are in lower case."""
    asked = headers.get(VERSION_HEADER, API_VERSION)
    if asked not in API_VERSIONS:
        raise UnknownVersionError(f"{VERSION_HEADER} must be {' or '.join(API_VERSIONS)}, or be left out")


def answer_headers(request_id: str) -> dict[str, str]:
    """Return the headers of the answer to a request.

    >>> answer_headers("r-1")
    {'tagcast-version': '2026-11-25', 'tagcast-request-id': 'r-1'}
    """
    return {VERSION_HEADER: API_VERSION, REQUEST_ID_HEADER: request_id}
