"""Translates errors to HTTP answers with problem details (RFC 9457). No other module does this."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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
    TableThrottledError,
    ThrottledError,
    TooLargeError,
    UnavailableError,
)
from tagcast.strict_json import MalformedError
from tagcast.tables import fitting

from tagcast_aws.api.http.authorization import ForbiddenError
from tagcast_aws.api.http.paging import encoded_size
from tagcast_aws.api.limits import ERRORS_BYTES_MAX, FAULT_TEXT_LENGTH_MAX, FAULTS_MAX
from tagcast_aws.store.conflicts import THROTTLED, codes_of

MEDIA_TYPE = "application/problem+json"
ABOUT_BLANK = "about:blank"
"""The type of every problem. The status and the code identify the problem (RFC 9457, 4.2.1)."""


class ProblemCode(StrEnum):
    """The kind of a problem, for programs, with the HTTP *status* and its *reason*, the title of the problem."""

    status: int
    reason: str

    def __new__(cls, name: str, status: int, reason: str) -> ProblemCode:
        """Return a member whose value is *name*."""
        made = str.__new__(cls, name)
        made._value_, made.status, made.reason = name, status, reason
        return made

    MALFORMED = "malformed", 400, "Bad Request"
    UNKNOWN_VERSION = "unknown_version", 400, "Bad Request"
    FORBIDDEN = "forbidden", 403, "Forbidden"
    NOT_FOUND = "not_found", 404, "Not Found"
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "Method Not Allowed"
    CONFLICT = "conflict", 409, "Conflict"
    DISAGREEMENT = "disagreement", 409, "Conflict"
    PRECONDITION_FAILED = "precondition_failed", 412, "Precondition Failed"
    TOO_LARGE = "too_large", 413, "Content Too Large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415, "Unsupported Media Type"
    INVALID = "invalid", 422, "Unprocessable Content"
    THROTTLED = "throttled", 429, "Too Many Requests"
    INTERNAL = "internal", 500, "Internal Server Error"
    UNAVAILABLE = "unavailable", 503, "Service Unavailable"


class UnsupportedMediaTypeError(Exception):
    """The headers of the request declare a body other than JSON."""


class UnknownVersionError(Exception):
    """The request asks for a version of the API that this service does not have."""


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
"""Errors whose text becomes the detail of the problem. The first matching class decides."""


class UnknownRouteError(Exception):
    """No route has the requested method and path. *allow* has the methods of the path; empty without such a path."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.allow = tuple(sorted(set(allow)))
        super().__init__(*self.allow)


@dataclass(frozen=True, slots=True)
class Problem:
    """The answer to a failed request, as problem details. *faults* become its ``errors``; *more* are extra fields."""

    code: ProblemCode
    detail: str
    faults: tuple[Fault, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, object], ...] = ()

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.code.status

    def as_json(self) -> dict[str, object]:
        """Return the fields of the problem document.

        >>> Problem(ProblemCode.NOT_FOUND, "topic t does not exist").as_json()["title"]
        'Not Found'
        """
        document: dict[str, object] = {
            "type": ABOUT_BLANK,
            "title": self.code.reason,
            "status": self.code.status,
            "code": self.code.value,
            "detail": self.detail,
        }
        if self.faults:
            errors = [
                {"code": fault.code.value, "detail": _short(fault.detail), "pointer": f"#{_short(fault.pointer)}"}
                for fault in self.faults
            ]
            document["errors"] = next(fitting(errors, FAULTS_MAX, ERRORS_BYTES_MAX, encoded_size))
        return document | dict(self.more)


def _short(text: str) -> str:
    """Return *text*, which may quote a request, cut to a length that fits an answer."""
    return text if len(text) <= FAULT_TEXT_LENGTH_MAX else f"{text[:FAULT_TEXT_LENGTH_MAX]}…"


def problem_of(error: Exception) -> Problem | None:
    """Return the answer to *error*. Return None for an unexpected error, of which callers learn no details.

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
            return Problem(ProblemCode.NOT_FOUND, "the path does not exist; GET /openapi.json lists the paths")
        case UnknownRouteError():
            allow = ", ".join(error.allow)
            return Problem(ProblemCode.METHOD_NOT_ALLOWED, f"this path allows {allow}", headers=(("Allow", allow),))
        case InvalidRequestError():
            return invalid_problem(error.faults)
        case InvalidFilterError():
            return invalid_problem(fault.under("/filter") for fault in error.faults)
    return _temporary(error)


def _temporary(error: Exception) -> Problem | None:
    match error:
        case UnavailableError():
            return _later(ProblemCode.UNAVAILABLE, str(error), error.retry_after_s)
        case ThrottledError():
            return _later(ProblemCode.THROTTLED, str(error))
        case _ if _is_throttled(error):
            return _later(ProblemCode.THROTTLED, "the tables are throttled at the moment; try again")
        case ContendedError():
            return _later(ProblemCode.UNAVAILABLE, "other requests are changing the same rows; try again")
    return None


def _later(code: ProblemCode, detail: str, retry_after_s: int = 1) -> Problem:
    return Problem(code, detail, headers=(("Retry-After", str(retry_after_s)),))


def problem_json(error: Exception) -> dict[str, object]:
    """Return the fields of the problem document for *error*, for which :func:`problem_of` must have an answer."""
    problem = problem_of(error)
    assert problem is not None
    return problem.as_json()


def _more(error: Exception) -> tuple[tuple[str, object], ...]:
    """Return additional members of the problem of *error*."""
    if not isinstance(error, DisagreementError):
        return ()
    return (("group", error.group), ("yours", error.yours), ("difference", list(error.difference)))


def _is_throttled(error: Exception) -> bool:
    """Return whether AWS throttled a read or write of the tables.

    >>> _is_throttled(ClientError({"Error": {"Code": "ThrottlingException"}}, "GetItem"))
    True
    """
    if isinstance(error, ClientError):
        return not THROTTLED.isdisjoint(codes_of(error))
    return isinstance(error, TableThrottledError)


def invalid_problem(faults: Iterable[Fault]) -> Problem:
    """Return the answer to a request with invalid values.

    >>> from tagcast.errors import FaultCode
    >>> invalid_problem([Fault("must be a text", "/tags/3", FaultCode.WRONG_TYPE)]).as_json()["errors"]
    [{'code': 'wrong_type', 'detail': 'must be a text', 'pointer': '#/tags/3'}]
    """
    found = tuple(faults)
    detail = "one value is invalid" if len(found) == 1 else f"{len(found)} values are invalid"
    return Problem(ProblemCode.INVALID, detail, found)
