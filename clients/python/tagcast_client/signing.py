"""Authenticates requests: Signature Version 4 with AWS credentials, or a bearer token."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any
from urllib.parse import urlsplit

import httpx

from tagcast_client.errors import SigningError

_DOMAIN = r"amazonaws\.(?:com(?:\.cn)?|eu)"
_EXECUTE_API = re.compile(rf"\.execute-api\.([a-z0-9-]+)\.(?:vpce\.)?{_DOMAIN}$")
_FUNCTION_URL = re.compile(r"\.lambda-url\.([a-z0-9-]+)\.on\.aws$")
_AWS = re.compile(rf"\.{_DOMAIN}$|{_FUNCTION_URL.pattern}")
_SIGNED = ("content-type", "host", "idempotency-key", "if-match")
"""The signed headers. Proxies may change other headers."""
TOKEN_RULE = "a token must not be empty, and must not contain spaces or line breaks"
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Requests to this machine bypass the proxies of the environment, and may have a token without TLS."""


def is_aws(url: str) -> bool:
    """Return whether requests to this URL are signed by default.

    >>> is_aws("https://abc.execute-api.eu-west-1.amazonaws.com/prod"), is_aws("https://abc.lambda-url.eu-west-1.on.aws/")
    (True, True)
    >>> is_aws("http://127.0.0.1:8080"), is_aws("https://amazonaws.com.example.org")
    (False, False)
    """
    return _AWS.search(urlsplit(url).hostname or "") is not None


def region_of(url: str) -> str | None:
    """Return the AWS region in the host name of an API or a function. Return None if the name has no region.

    >>> region_of("https://abc.execute-api.eusc-de-east-1.amazonaws.eu/prod")
    'eusc-de-east-1'
    """
    host = urlsplit(url).hostname or ""
    found = _EXECUTE_API.search(host) or _FUNCTION_URL.search(host)
    return found.group(1) if found else None


def service_of(url: str) -> str:
    """Return the AWS service that checks the signature of requests to this URL.

    >>> service_of("https://abc.lambda-url.eu-west-1.on.aws/"), service_of("https://api.example.org")
    ('lambda', 'execute-api')
    """
    return "lambda" if _FUNCTION_URL.search(urlsplit(url).hostname or "") else "execute-api"


def is_token(text: str) -> bool:
    """Return whether *text* is a token that a header can contain.

    With any other token, the HTTP library would raise an error that quotes the token.

    >>> is_token("eyJ.eyJ.c2ln"), is_token("eyJ.eyJ.c2ln\\n"), is_token("")
    (True, False, False)
    """
    return text != "" and all("!" <= character <= "~" for character in text)


class _HeaderAuth(httpx.Auth):
    """Adds headers to each request. An asynchronous client makes them in a thread if this *may_wait* for others."""

    requires_request_body = True
    may_wait = True

    @abstractmethod
    def _headers(self, request: httpx.Request) -> dict[str, str]:
        """Return the headers to add. Raises SigningError if the request must not be sent."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the headers. Raises SigningError if the request must not be sent."""
        request.headers.update(self._headers(request))
        yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add the headers. Raises SigningError if the request must not be sent."""
        await request.aread()
        added = await asyncio.to_thread(self._headers, request) if self.may_wait else self._headers(request)
        request.headers.update(added)
        yield request


class BearerToken(_HeaderAuth):
    """Sends a bearer token of the deployment's issuer. *token* may be a function, called before every request.

    An asynchronous client calls the function in a thread. The token is sent only by https, or to this machine, because
    plain http would show the token to the network.
    """

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._token = token
        self.may_wait = not isinstance(token, str)

    def _headers(self, request: httpx.Request) -> dict[str, str]:
        if request.url.scheme == "http" and request.url.host not in LOCAL_HOSTS:
            raise SigningError(f"a token is sent by https only, not to http://{request.url.host}")
        token = self._token if isinstance(self._token, str) else self._token()
        if not is_token(token):
            raise SigningError(TOKEN_RULE)
        return {"authorization": f"Bearer {token}"}


class SigV4(_HeaderAuth):
    """Signs requests with the AWS credentials of *profile*, by default those of AWS's default chain.

    The credentials are loaded at the first request. Needs the extra ``tagcast-client[aws]``. Without *region*, the
    region comes from the URL or the profile.
    """

    def __init__(self, profile: str | None = None, region: str | None = None) -> None:
        self._profile = profile
        self._region = region
        self._session: Any = None

    def _headers(self, request: httpx.Request) -> dict[str, str]:
        # Imported here, because the import takes longer than a request to a local stack.
        try:
            from botocore.auth import SigV4Auth
            from botocore.awsrequest import AWSRequest
            from botocore.exceptions import BotoCoreError, ClientError
            from botocore.session import Session
        except ImportError as fault:
            raise SigningError("requests to AWS need botocore: pip install 'tagcast-client[aws]'") from fault
        url = str(request.url)
        try:
            self._session = self._session or Session(profile=self._profile)
            credentials = self._session.get_credentials()
            region = self._region or region_of(url) or self._session.get_config_variable("region")
            if credentials is None:
                raise SigningError("no AWS credentials found; give a profile or set AWS_PROFILE")
            if not region:
                raise SigningError("no AWS region found; give one or set AWS_DEFAULT_REGION")
            headers = {name: request.headers[name] for name in _SIGNED if name in request.headers}
            signed = AWSRequest(request.method, url, headers=headers, data=request.content)
            SigV4Auth(credentials, service_of(url), str(region)).add_auth(signed)
        except (BotoCoreError, ClientError) as fault:  # A ClientError is of STS, which refuses a role.
            raise SigningError(str(fault)) from fault
        return {str(name): str(value) for name, value in signed.headers.items()}
