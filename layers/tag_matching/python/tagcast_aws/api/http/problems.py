"""The one place where an error becomes an HTTP answer: RFC 9457 problem details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from botocore.exceptions import ClientError
from tagcast.errors import (
    ConflictError,
    ContendedError,
    DisagreementError,
    Fault,
    InvalidFilterError,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    ThrottledError,
    TooLargeError,
    UnavailableError,
)
from tagcast.strict_json import MalformedError

from tagcast_aws.api.http.authorization import ForbiddenError

MEDIA_TYPE = "application/problem+json"
ABOUT_BLANK = "about:blank"
"""The type of every problem: what it means is said by its status and its code (RFC 9457, 4.2.1)."""


class ProblemCode(StrEnum):
    """What kind of problem an answer is, for programs."""

    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown_version"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    DISAGREEMENT = "disagreement"
    PRECONDITION_FAILED = "precondition_failed"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID = "invalid"
    THROTTLED = "throttled"
    INTERNAL = "internal"
    UNAVAILABLE = "unavailable"


_OF_CODES: Mapping[ProblemCode, tuple[int, str]] = {
    ProblemCode.MALFORMED: (400, "Bad Request"),
    ProblemCode.UNKNOWN_VERSION: (400, "Bad Request"),
    ProblemCode.FORBIDDEN: (403, "Forbidden"),
    ProblemCode.NOT_FOUND: (404, "Not Found"),
    ProblemCode.METHOD_NOT_ALLOWED: (405, "Method Not Allowed"),
    ProblemCode.CONFLICT: (409, "Conflict"),
    ProblemCode.DISAGREEMENT: (409, "Conflict"),
    ProblemCode.PRECONDITION_FAILED: (412, "Precondition Failed"),
    ProblemCode.TOO_LARGE: (413, "Content Too Large"),
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: (415, "Unsupported Media Type"),
    ProblemCode.INVALID: (422, "Unprocessable Content"),
    ProblemCode.THROTTLED: (429, "Too Many Requests"),
    ProblemCode.INTERNAL: (500, "Internal Server Error"),
    ProblemCode.UNAVAILABLE: (503, "Service Unavailable"),
}
"""The status of each code, and its title, which HTTP gives it."""


class UnsupportedMediaTypeError(Exception):
    """A body that says that it is something else than JSON."""


class UnknownVersionError(Exception):
    """A request for a version of the API that this service does not know."""


_SELF_EXPLAINING: tuple[tuple[type[Exception], ProblemCode], ...] = (
    (MalformedError, ProblemCode.MALFORMED),
    (UnknownVersionError, ProblemCode.UNKNOWN_VERSION),
    (ForbiddenError, ProblemCode.FORBIDDEN),
    (NotFoundError, ProblemCode.NOT_FOUND),
    (PreconditionFailedError, ProblemCode.PRECONDITION_FAILED),
    (DisagreementError, ProblemCode.DISAGREEMENT),
    (ConflictError, ProblemCode.CONFLICT),
    (TooLargeError, ProblemCode.TOO_LARGE),
    (UnsupportedMediaTypeError, ProblemCode.UNSUPPORTED_MEDIA_TYPE),
)
"""Errors whose text is the detail of their problem; the first that fits counts."""
_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        # As reasons of a cancelled transaction:
        "ProvisionedThroughputExceeded",
        "ThrottlingError",
    }
)


class UnknownRouteError(Exception):
    """No route has this path; or some have, but only with the methods in *allow*."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.allow = tuple(sorted(set(allow)))
        super().__init__(*self.allow)


@dataclass(frozen=True, slots=True)
class Problem:
    """One answer that is not a success; *faults* become its ``errors``, *more* members of its own."""

    code: ProblemCode
    detail: str
    faults: tuple[Fault, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, object], ...] = ()

    @property
    def status(self) -> int:
        """The status of the answer."""
        return _OF_CODES[self.code][0]

    def as_json(self) -> dict[str, object]:
        """Return the members of the problem document.

        >>> Problem(ProblemCode.NOT_FOUND, "topic t does not exist").as_json()["title"]
        'Not Found'
        """
        status, title = _OF_CODES[self.code]
        document: dict[str, object] = {
            "type": ABOUT_BLANK,
            "title": title,
            "status": status,
            "code": self.code.value,
            "detail": self.detail,
        }
        if self.faults:
            document["errors"] = [
                {"code": fault.code.value, "detail": fault.detail, "pointer": f"#{fault.pointer}"}
                for fault in self.faults
            ]
        return document | dict(self.more)


def problem_of(error: Exception) -> Problem | None:
    """Return the answer to *error*, or None when it is none that a caller can act on.

    >>> problem_of(NotFoundError("topic", "t")).status
    404
    >>> problem_of(ValueError()) is None
    True
    """
    for kind, code in _SELF_EXPLAINING:
        if isinstance(error, kind):
            return Problem(code, str(error), more=_more(error))
    match error:
        case UnknownRouteError(allow=()):
            return Problem(ProblemCode.NOT_FOUND, "the path does not exist")
        case UnknownRouteError():
            allow = ", ".join(error.allow)
            return Problem(ProblemCode.METHOD_NOT_ALLOWED, f"this path allows {allow}", headers=(("Allow", allow),))
        case InvalidRequestError():
            return invalid(error.faults)
        case InvalidFilterError():
            return invalid(fault.under("/filter") for fault in error.faults)
        case UnavailableError():
            return _unavailable(error.detail, error.retry_after_s)
        case ContendedError():
            return _unavailable("other requests are changing the same rows; try again", 1)
    return _too_many(error)


def _unavailable(detail: str, retry_after_s: int) -> Problem:
    retry_after = ("Retry-After", str(retry_after_s))
    return Problem(ProblemCode.UNAVAILABLE, detail, headers=(retry_after,))


def _too_many(error: Exception) -> Problem | None:
    match error:
        case ThrottledError():
            detail, retry_after_s = error.detail, error.retry_after_s
        case ClientError() if _is_throttled(error):
            detail, retry_after_s = "the tables are throttled at the moment; try again", 1
        case _:
            return None
    return Problem(ProblemCode.THROTTLED, detail, headers=(("Retry-After", str(retry_after_s)),))


def _more(error: Exception) -> tuple[tuple[str, object], ...]:
    """Return what the answer to *error* says besides its detail."""
    if not isinstance(error, DisagreementError):
        return ()
    return (("group", error.group), ("yours", error.yours), ("difference", list(error.difference)))


def _is_throttled(error: ClientError) -> bool:
    """Say whether AWS refused for the load alone; a cancelled transaction tells by its reasons.

    >>> _is_throttled(ClientError({"Error": {"Code": "ThrottlingException"}}, "PutItem"))
    True
    """
    reasons = cast("Any", error.response).get("CancellationReasons") or ()
    codes = {error.response["Error"]["Code"], *(reason.get("Code") for reason in reasons)}
    return not _THROTTLED.isdisjoint(codes)


def invalid(faults: Iterable[Fault]) -> Problem:
    """Return the answer to a request with invalid values.

    >>> from tagcast.errors import FaultCode
    >>> invalid([Fault("must be a text", "/tags/3", FaultCode.WRONG_TYPE)]).as_json()["errors"]
    [{'code': 'wrong_type', 'detail': 'must be a text', 'pointer': '#/tags/3'}]
    """
    found = tuple(faults)
    detail = "one value is invalid" if len(found) == 1 else f"{len(found)} values are invalid"
    return Problem(ProblemCode.INVALID, detail, found)


def too_large(fault: Fault) -> Problem:
    """Return the answer to one message of a batch whose body is over the topic's limit."""
    return Problem(ProblemCode.TOO_LARGE, fault.detail, (fault,))


def internal() -> Problem:
    """Return the answer to what nobody foresaw: the log says more, in the lines of the request's id."""
    return Problem(ProblemCode.INTERNAL, "an internal error occurred")
