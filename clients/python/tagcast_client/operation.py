"""One request to the API as a value: its content, the reader of its answer, and whether it is repeatable."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx

from tagcast_client.decoding import decode
from tagcast_client.errors import InvalidError, UnexpectedAnswerError
from tagcast_client.instants import json_default

T = TypeVar("T")
IDEMPOTENCY_KEY_MAX = 128
URL_VARIABLE = "TAGCAST_URL"
"""The environment variable with the URL of the API, for the command line, too."""
SEGMENT_MAX = 1_000
"""The maximum characters of a name in a path. Every name of the API is shorter."""
_SURROGATE = re.compile("[\ud800-\udfff]")
Json = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API: the status, the unchanged text, and the headers with lower-case names."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object of the answer. It is empty for an answer without a body (204).

        Raises UnexpectedAnswerError if the answer is not a JSON object.
        """
        if not self.text.strip():
            return {}
        try:
            parsed = json.loads(self.text)
        except ValueError as fault:
            raise UnexpectedAnswerError(f"the API's answer is not JSON: {self.text[:200]!r}") from fault
        return parsed if isinstance(parsed, dict) else {"value": parsed}


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One request and *read*, the reader of its answer.

    If *repeatable*, the request may be repeated after a lost answer. *gone_is_done* is for deletions: if a repetition
    gets 404, an earlier request has deleted the resource, so the deletion counts as done.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    body: Mapping[str, Any] | None = field(default=None, repr=False)  # It may have secrets, and pytest prints it.
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    gone_is_done: bool = False

    @property
    def target(self) -> str:
        """The path and its query. A blank becomes ``%20``, because AWS computes another signature for a plus sign.

        >>> Operation("GET", "/topics/a/history", nothing, query={"tag": "new order"}).target
        '/topics/a/history?tag=new%20order'
        """
        try:
            return f"{self.path}?{urlencode(self.query, quote_via=quote)}" if self.query else self.path
        except UnicodeEncodeError as fault:
            raise _invalid(f"{fault.object!r} is not text in UTF-8") from fault

    @property
    def content(self) -> bytes | None:
        """The body encoded as JSON, or None without a body. A lone surrogate, which JSON allows, is escaped."""
        if self.body is None:
            return None
        try:
            return json.dumps(self.body, ensure_ascii=False, default=json_default).encode()
        except UnicodeEncodeError:
            return json.dumps(self.body, default=json_default).encode()

    @property
    def wait_s(self) -> int:
        """The seconds for which the API waits for messages or events before it answers."""
        waits = str((self.body or self.query).get("wait_seconds"))
        return int(waits) if waits.isdecimal() else 0

    @property
    def creates(self) -> bool:
        """Whether the API refuses the request if the resource exists."""
        return "If-None-Match" in self.headers


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. *next_cursor* is the cursor of the next page, or None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None


def checked_url(url: str) -> str:
    """Return the URL of an API without its trailing slash. Raises ValueError for an invalid URL.

    >>> checked_url("http://127.0.0.1:8080/")
    'http://127.0.0.1:8080'
    """
    example = f"for example http://127.0.0.1:8080, or set {URL_VARIABLE}"
    if "@" in url:  # A password in the URL would be in messages and logs.
        raise ValueError(f"the URL of the API must not have a user name, a password or an @, {example}")
    if not url:
        raise ValueError(f"the URL of the API is required, {example}")
    try:
        parsed = urlsplit(url)
        host, _ = parsed.hostname, parsed.port
    except ValueError as fault:
        raise ValueError(f"{url!r} is not the URL of an API ({fault}), {example}") from fault
    if parsed.scheme not in ("http", "https") or not host:
        raise ValueError(f"{url!r} is not the URL of an API: it must begin with http:// or https://, {example}")
    if any(not "!" <= character <= "~" for character in url) or parsed.query or parsed.fragment:
        raise ValueError(f"{url!r} is not the URL of an API: it must not have spaces, a query or a fragment, {example}")
    try:
        host.encode("idna"), httpx.URL(url).host
    except (ValueError, httpx.InvalidURL) as fault:  # An empty or long part, a wrong address.
        raise ValueError(f"{url!r} is not the URL of an API: {host!r} is not a host, {example}") from fault
    return url.rstrip("/")


def path_of(*segments: str) -> str:
    """Return a path of quoted segments.

    Raises InvalidError for an empty segment, ``.`` and ``..``, which would lead to the path of another resource. Raises
    InvalidError also for a segment that is too long or not valid Unicode, and TypeError for one that is not text.

    >>> path_of("topics", "a b", "messages")
    '/topics/a%20b/messages'
    """
    for segment in segments:
        if not isinstance(segment, str):  # E.g. None, of an environment variable that is not set.
            raise TypeError(f"a name or an id is a text, not {segment!r}")
        if segment in ("", ".", "..") or len(segment) > SEGMENT_MAX or _SURROGATE.search(segment):
            shown = segment if len(segment) <= SEGMENT_MAX else segment[:20] + "…"
            raise _invalid(f"{shown!r} is not the name of a topic or a subscription, nor the id of a message")
    return "".join("/" + quote(segment, safe="") for segment in segments)


def _invalid(detail: str) -> InvalidError:
    """Return the error of a request that is refused without being sent."""
    return InvalidError(422, {"title": "Unprocessable Content", "status": 422, "code": "invalid", "detail": detail}, "")


def query_of(values: Mapping[str, str | float | None]) -> dict[str, str]:
    """Return query parameters as text; parameters that are None are left out.

    >>> query_of({"bodies": True, "limit": 5, "cursor": None})
    {'bodies': 'true', 'limit': '5'}
    """
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def drop_none(**fields: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def idempotency(key: str | None) -> str:
    """Return *key*, or a new key if *key* is None. Raises ValueError for a key that is not valid in a header.

    A key that is not text raises TypeError.

    >>> idempotency("order-7")
    'order-7'
    >>> idempotency("é")
    Traceback (most recent call last):
        ...
    ValueError: an idempotency key has 1 to 128 printable ASCII characters
    """
    if key is None:
        return str(uuid.uuid4())
    if not isinstance(key, str):
        raise TypeError(f"an idempotency key is a text, not {key!r}")
    if not (key.isascii() and key.isprintable() and 1 <= len(key) <= IDEMPOTENCY_KEY_MAX):
        raise ValueError(f"an idempotency key has 1 to {IDEMPOTENCY_KEY_MAX} printable ASCII characters")
    return key


def part_key(key: str, place: int) -> str:
    """Return the idempotency key of the part of a batch that begins at *place*.

    Each part is a request with its own key. The first part's key is *key*. Later keys are digests, because a suffix
    could make a key too long.

    >>> part_key("order-7", 0), len(part_key("order-7", 100))
    ('order-7', 64)
    """
    return sha256(f"{key}+{place}".encode()).hexdigest() if place else key


def if_match(version: int | None) -> dict[str, str]:
    """Return the headers that make a change conditional on a version; no headers if *version* is None."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def reads(kind: type[T]) -> Callable[[Answer], T]:
    """Return a function that reads an answer as an object of type *kind*."""
    return lambda answer: decode(kind, answer.json)


def reads_list(kind: type[T], key: str) -> Callable[[Answer], tuple[T, ...]]:
    """Return a function that reads the list under *key* in an answer; its items are of type *kind*."""
    return lambda answer: tuple(decode(kind, each) for each in list_of(answer, key))


def list_of(answer: Answer, key: str) -> list[Any]:
    """Return the list under *key* in an answer. Raises UnexpectedAnswerError, e.g. for an empty answer of a proxy."""
    found = answer.json.get(key)
    if not isinstance(found, list):
        raise UnexpectedAnswerError(f"the API's answer has no list {key!r}: {answer.text[:200]!r}")
    return found


def reads_page(kind: type[T], key: str) -> Callable[[Answer], Page[T]]:
    """Return a function that reads one page of the list under *key* in an answer; its items are of type *kind*."""
    read = reads_list(kind, key)
    return lambda answer: Page(read(answer), answer.json.get("next_cursor"))


def reads_object(answer: Answer) -> Mapping[str, Any]:
    """Return the JSON object of an answer, unchanged."""
    return answer.json


def nothing(answer: Answer) -> None:
    """Read an answer without a body. Raises UnexpectedAnswerError for any body, e.g. a web page of a proxy."""
    if answer.text.strip():
        raise UnexpectedAnswerError(f"the API's answer has a body: {answer.text[:200]!r}")
