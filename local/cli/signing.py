"""Requests to AWS are signed with the caller's profile (Signature Version 4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from botocore.auth import SigV4Auth

_EXECUTE_API = re.compile(r"\.execute-api\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")
_AWS = re.compile(r"\.amazonaws\.com(?:\.cn)?$")


class SigningError(Exception):
    """The request cannot be signed: no credentials, no such profile, or no region."""


def is_aws(url: str) -> bool:
    """Whether requests to this URL are to be signed.

    >>> is_aws("https://abc.execute-api.eu-west-1.amazonaws.com/prod")
    True
    >>> is_aws("http://127.0.0.1:8080"), is_aws("https://amazonaws.com.example.org")
    (False, False)
    """
    return _AWS.search(urlsplit(url).hostname or "") is not None


def region_of(url: str) -> str | None:
    """The region an API Gateway host names itself, if it does.

    >>> region_of("https://abc.execute-api.eu-west-1.amazonaws.com/prod")
    'eu-west-1'
    """
    found = _EXECUTE_API.search(urlsplit(url).hostname or "")
    return found.group(1) if found else None


class AwsSigner:
    """Signs with the credentials of `profile` (the default chain when None), loaded at the first request.

    Raises SigningError when there is nothing to sign with.
    """

    def __init__(self, url: str, profile: str | None, region: str | None) -> None:
        self._url = url
        self._profile = profile
        self._region = region

    @cached_property
    def _auth(self) -> SigV4Auth:
        # Imported here: the SDK takes longer to load than a request to a local stack takes.
        from botocore.auth import SigV4Auth
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        try:
            session = Session(profile=self._profile)
            credentials = session.get_credentials()
            region = self._region or region_of(self._url) or session.get_config_variable("region")
        except BotoCoreError as error:
            raise SigningError(str(error)) from error
        if credentials is None:
            raise SigningError("no AWS credentials found; name a profile with --profile or set AWS_PROFILE")
        if not region:
            raise SigningError("no AWS region found; name one with --region or set AWS_DEFAULT_REGION")
        return SigV4Auth(credentials, "execute-api", str(region))

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the headers of the request with its signature."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        request = AWSRequest(method=method, url=url, headers=dict(headers), data=body)
        try:
            self._auth.add_auth(request)
        except BotoCoreError as error:
            raise SigningError(str(error)) from error
        return {str(name): str(value) for name, value in request.headers.items()}
