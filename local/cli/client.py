"""One HTTP client for the API, wherever it runs: signed towards AWS, plain elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import urllib3

Json = dict[str, Any]

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 35.0


class Signer(Protocol):
    """Adds the headers that prove who is asking."""

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the complete headers of the signed request."""


@dataclass(frozen=True)
class Answer:
    """What the API said: the status, the text as it came, and the headers in lower case."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Json:
        """The answer as an object; empty when there was no body (204)."""
        if not self.text.strip():
            return {}
        parsed = json.loads(self.text)
        return parsed if isinstance(parsed, dict) else {"value": parsed}


class RefusedError(Exception):
    """The API refused the request; `problem` is its RFC 9457 answer, or the nearest to it."""

    def __init__(self, status: int, problem: Json, text: str) -> None:
        super().__init__(f"{status} {problem.get('title', '')}")
        self.status = status
        self.problem = problem
        self.text = text


class UnreachableError(Exception):
    """Nobody answered at the URL; `refused` when the port is shut, as when the stack is not running."""

    def __init__(self, url: str, reason: str, *, refused: bool) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason
        self.refused = refused


def path_of(*segments: str) -> str:
    """Join path segments, each quoted by itself.

    >>> path_of("topics", "a b", "messages")
    '/topics/a%20b/messages'
    """
    return "".join("/" + quote(segment, safe="") for segment in segments)


def problem_of(status: int, text: str) -> Json:
    """Read a refusal; API Gateway's own answers, `{"message": …}`, become a problem too.

    >>> problem_of(403, '{"message": "Forbidden"}')
    {'title': 'HTTP 403', 'status': 403, 'detail': 'Forbidden'}
    >>> problem_of(404, '{"title": "No such topic", "status": 404}')
    {'title': 'No such topic', 'status': 404}
    """
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and "title" in parsed:
        return parsed
    detail = text.strip()[:500]
    if isinstance(parsed, dict):
        detail = str(parsed.get("message") or parsed.get("Message") or detail)
    return {"title": f"HTTP {status}", "status": status, "detail": detail}


class Api:
    """The API at one URL."""

    def __init__(self, url: str, signer: Signer | None = None) -> None:
        self.url = url.rstrip("/")
        self._signer = signer
        self._pool = urllib3.PoolManager(
            retries=False,
            maxsize=4,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
        )

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; query values that are None are left out.

        Raises RefusedError for every status from 300, UnreachableError when nobody answers.
        """
        url = self.url + path
        wanted = {name: str(value) for name, value in (query or {}).items() if value is not None}
        if wanted:
            url += "?" + urlencode(wanted, quote_via=quote, safe="")
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = {"accept": "application/json", "user-agent": "tagcast-cli", **(headers or {})}
        if body is not None:
            sent["content-type"] = "application/json"
        if self._signer is not None:
            sent = self._signer(method, url, sent, content)
        try:
            got = self._pool.request(method, url, body=content or None, headers=sent, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            refused = isinstance(error, urllib3.exceptions.NewConnectionError)
            raise UnreachableError(self.url, str(error), refused=refused) from error
        text = got.data.decode("utf-8", "replace")
        if got.status >= 300:
            raise RefusedError(got.status, problem_of(got.status, text), text)
        return Answer(got.status, text, {name.lower(): value for name, value in got.headers.items()})

    def pages(self, path: str, limit: int | None = None, cursor: str | None = None) -> Iterator[Answer]:
        """The pages of a list, following `next_cursor` from the given one to the end."""
        while True:
            answer = self.call("GET", path, query={"limit": limit, "cursor": cursor})
            yield answer
            cursor = answer.json.get("next_cursor")
            if not cursor:
                return
