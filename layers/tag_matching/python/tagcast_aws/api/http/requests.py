"""An HTTP request as routes see it, read from an API Gateway event and validated."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Generic, TypeVar
from urllib.parse import unquote

from tagcast.errors import (
    CURSOR_FAULT,
    Fault,
    FaultCode,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    TooLargeError,
)
from tagcast.filters.compiled import pointer_part
from tagcast.strict_json import MalformedError
from tagcast.trace_context import TraceContext, read_trace

from tagcast_aws.api.http.authorization import Rights
from tagcast_aws.api.http.paging import decode_cursor
from tagcast_aws.api.http.problems import UnsupportedMediaTypeError
from tagcast_aws.api.limits import (
    ENTITY_TAGS,
    FAULTS_MAX,
    IDEMPOTENCY_KEY,
    MEMBER_ID,
    MESSAGE_ID,
    NAME,
    PAGE_DEFAULT,
    PAGE_MAX,
    REQUEST_BYTES_MAX,
)

B = TypeVar("B")

_JSON_TYPE = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json\s*(?:;\s*charset=\"?utf-8\"?\s*)?;?", re.IGNORECASE)
_ENTITY_TAGS = re.compile(ENTITY_TAGS)
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')
_PATTERNS = {
    "message_id": (re.compile(MESSAGE_ID), "must be 20 decimal digits"),
    "member_id": (re.compile(MEMBER_ID), f"must match {MEMBER_ID}"),
}
_NAME = re.compile(NAME)


@dataclass(frozen=True)
class Request(Generic[B]):
    """A request, the argument of a route's function. Its path parameters and its body are validated.

    The methods validate query parameters and headers when they are called. *content* is the body as bytes. *rights* are
    those of the caller's token. They are None if IAM authorized the request, or if the route is public.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes
    body: B
    rights: Rights | None

    @cached_property
    def topic(self) -> str:
        """The topic in the path."""
        return self.path["topic"]

    @cached_property
    def subscription(self) -> str:
        """The subscription in the path."""
        return self.path["subscription"]

    def page(self, place: str = "") -> tuple[int, str | None]:
        """Return the limit and the cursor of a list. The cursor is None for the first page.

        *place* is the pattern of valid cursors. If it is empty, the caller checks the cursor. Raises
        InvalidRequestError with the faults of limit and cursor.
        """
        faults: list[Fault] = []
        limit = self.number("limit", 1, PAGE_MAX, PAGE_DEFAULT, faults)
        cursor = self.cursor(faults)
        if place and cursor is not None and not re.fullmatch(place, cursor):
            faults.append(CURSOR_FAULT)
        if faults:
            raise InvalidRequestError(tuple(faults))
        return limit, cursor

    def number(self, name: str, least: int, most: int, default: int, faults: list[Fault]) -> int:
        """Return the integer query parameter *name*; *default* if it is missing or invalid.

        A value that is not an integer from *least* to *most* adds a fault to *faults*.
        """
        text = self.query.get(name, str(default))
        if re.fullmatch(r"[0-9]{1,4}", text) and least <= int(text) <= most:
            return int(text)
        faults.append(Fault(f"must be an integer from {least} to {most}", f"/{name}", FaultCode.NOT_ALLOWED))
        return default

    def cursor(self, faults: list[Fault]) -> str | None:
        """Return the cursor of a list; None if it is missing or invalid. An invalid cursor adds a fault to *faults*."""
        if "cursor" not in self.query:
            return None
        cursor = decode_cursor(self.query["cursor"])
        if cursor is None:
            faults.append(CURSOR_FAULT)
        return cursor

    def word(self, name: str, pattern: str, faults: list[Fault]) -> str | None:
        """Return the query parameter *name*; None if it is missing. A value unlike *pattern* adds a fault."""
        text = self.query.get(name)
        if text is not None and not re.fullmatch(pattern, text):
            faults.append(Fault(f"must match {pattern}", f"/{name}", FaultCode.WRONG_FORMAT))
        return text

    def choice(self, name: str, words: Collection[str], faults: list[Fault]) -> str | None:
        """Return the query parameter *name*; None if it is missing. A value that is not in *words* adds a fault."""
        text = self.query.get(name)
        if text is not None and text not in words:
            faults.append(Fault(f"must be one of {', '.join(words)}", f"/{name}", FaultCode.NOT_ALLOWED))
        return text

    def flag(self, name: str) -> bool:
        """Return whether the query parameter *name* is ``true``. A missing parameter is false.

        Raises InvalidRequestError if the value is neither ``true`` nor ``false``.
        """
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise InvalidRequestError((Fault("must be true or false", f"/{name}", FaultCode.NOT_ALLOWED),))
        return text == "true"

    def idempotency_key(self) -> str | None:
        """Return the header Idempotency-Key; None if it is missing. Raises MalformedError if the key is invalid."""
        key = self.headers.get("idempotency-key")
        if key is not None and not re.fullmatch(IDEMPOTENCY_KEY, key):
            raise MalformedError("Idempotency-Key must have 1-128 printable ASCII characters")
        return key

    @property
    def trace(self) -> TraceContext | None:
        """The trace in the request's headers; None if they have no valid trace."""
        return read_trace(self.headers.get("traceparent"), self.headers.get("tracestate"))

    def fingerprint(self) -> str:
        """Return a digest of path and body. Two requests with the same idempotency key must have the same digest."""
        path = "/".join(self.path.values()).encode()
        return sha256(path + b"\n" + self.content).hexdigest()

    def if_match(self) -> tuple[str, ...] | None:
        """Return the versions in the header If-Match, or None without this header. ``*`` allows any existing version.

        Weak versions (``W/"3"``) are left out, because they never match. Raises MalformedError.
        """
        text = self.headers.get("if-match")
        if text is None or text.strip() == "*":
            return None if text is None else ("*",)
        if not _ENTITY_TAGS.fullmatch(text.strip()):
            raise MalformedError('If-Match must be * or a list of quoted versions such as "3"')
        return tuple(tag for weak, tag in _TAG.findall(text) if not weak)

    def if_none_match(self) -> bool:
        """Return whether the request requires that the resource does not exist yet (``If-None-Match: *``).

        Raises MalformedError for any other value of the header.
        """
        text = self.headers.get("if-none-match")
        if text is not None and text.strip() != "*":
            raise MalformedError("If-None-Match must be *")
        return text is not None

    def version(self, what: str, present: Callable[[], int], *, may_create: bool = False) -> int | None:
        """Return the version that the resource must still have at the write; None if the request has no condition.

        0 means that the resource must not exist. *present* returns the current version, or raises NotFoundError. *what*
        names the resource in errors. Raises PreconditionFailedError if the condition already fails. A resource that
        does not exist fails the condition only if the request *may_create* it. Other requests raise NotFoundError, as
        without a condition (RFC 9110, 13.2.1).
        """
        allowed, is_new = self.if_match(), self.if_none_match()
        if allowed is None and not is_new:
            return None
        try:
            found = present()
        except NotFoundError as missing:
            if not may_create or missing.what != what:
                raise
            if allowed is None:
                return 0
            raise PreconditionFailedError(f"the {what} does not exist") from None
        if is_new:
            raise PreconditionFailedError(f"the {what} already exists")
        if allowed != ("*",) and str(found) not in (allowed or ()):
            raise PreconditionFailedError(f"the {what} has version {found}")
        return found


def content_of(event: Mapping[str, object], headers: Mapping[str, str]) -> bytes:
    """Return the bytes of the request's body, which may be empty.

    Raises UnsupportedMediaTypeError if the headers declare another type than JSON, and TooLargeError.
    """
    content = body_bytes_of(event)
    if not content:
        return content
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaTypeError("Content-Encoding must be identity")
    if not _JSON_TYPE.fullmatch(headers.get("content-type", "application/json").strip()):
        raise UnsupportedMediaTypeError("Content-Type must be application/json in UTF-8")
    if len(content) > REQUEST_BYTES_MAX:
        raise TooLargeError(f"the body has {len(content)} bytes; at most {REQUEST_BYTES_MAX} are allowed")
    return content


def body_bytes_of(event: Mapping[str, object]) -> bytes:
    """Return the bytes of the request's body, of any type. Raises MalformedError for invalid base64."""
    body = event.get("body") or ""
    assert isinstance(body, str)
    if not event.get("isBase64Encoded"):
        return body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        raise MalformedError("the body is not base64") from None


def checked_names(path: Mapping[str, str]) -> tuple[dict[str, str], list[Fault]]:
    """Return the decoded path parameters, and their faults.

    >>> [fault.detail for fault in checked_names({"topic": "9lives"})[1]]
    ['must match ^[A-Za-z][A-Za-z0-9_-]{0,63}$']
    """
    names = {name: unquote(text) for name, text in path.items()}
    faults = []
    for name, text in names.items():
        pattern, detail = _PATTERNS.get(name, (_NAME, f"must match {NAME}"))
        if not pattern.fullmatch(text):
            faults.append(Fault(detail, f"/{name}", FaultCode.WRONG_FORMAT))
    return names, faults


def query_faults(query: Mapping[str, str], known: Sequence[str]) -> list[Fault]:
    """Return a fault for each query parameter that the route does not have.

    >>> [fault.detail for fault in query_faults({"page": "2", "limit": "9"}, ("limit", "cursor"))]
    ['is not a known parameter; allowed: limit, cursor']
    """
    others = f"allowed: {', '.join(known)}" if known else "allowed: none"
    unknown = [name for name in query if name not in known]
    detail = f"is not a known parameter; {others}"
    return [Fault(detail, f"/{pointer_part(name)}", FaultCode.UNKNOWN) for name in unknown[:FAULTS_MAX]]
