"""The one place where an error becomes an HTTP answer: RFC 9457 problem details."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
_SELF_EXPLAINING: tuple[tuple[type[Exception], str, str, int], ...] = (
    (MalformedError, "malformed", "Malformed request", 400),
    (ForbiddenError, "forbidden", "Forbidden", 403),
    (NotFoundError, "not-found", "Not found", 404),
    (PreconditionFailedError, "precondition-failed", "Precondition failed", 412),
    (DisagreementError, "disagreement", "The group has another filter", 409),
    (ConflictError, "conflict", "Conflict", 409),
    (TooLargeError, "too-large", "Too large", 413),
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

    kind: str
    title: str
    status: int
    detail: str
    faults: tuple[Fault, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    correlation_id: str | None = None
    more: tuple[tuple[str, object], ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the members of the problem document.

        >>> Problem("not-found", "Not found", 404, "topic t does not exist").as_json()["type"]
        'urn:tagcast:problem:not-found'
        """
        document: dict[str, object] = {
            "type": f"urn:tagcast:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.faults:
            document["errors"] = [{"detail": fault.detail, "pointer": f"#{fault.pointer}"} for fault in self.faults]
        if self.correlation_id is not None:
            document["correlation_id"] = self.correlation_id
        return document | dict(self.more)


def problem_of(error: Exception) -> Problem | None:
    """Return the answer to *error*, or None when it is none that a caller can act on.

    >>> problem_of(NotFoundError("topic", "t")).status
    404
    >>> problem_of(ValueError()) is None
    True
    """
    for kind, name, title, status in _SELF_EXPLAINING:
        if isinstance(error, kind):
            return Problem(name, title, status, str(error), more=_more(error))
    match error:
        case UnknownRouteError(allow=()):
            return Problem("not-found", "Not found", 404, "no such path")
        case UnknownRouteError():
            allow = ", ".join(error.allow)
            detail = f"this path answers {allow}"
            return Problem("method-not-allowed", "Method not allowed", 405, detail, headers=(("Allow", allow),))
        case InvalidRequestError():
            return invalid(error.faults)
        case InvalidFilterError():
            return invalid(fault.under("/filter") for fault in error.faults)
        case UnavailableError():
            return _unavailable(error.detail, error.retry_after_s)
        case ContendedError():
            return _unavailable("others are changing the same rows; try again", 1)
    return _too_many(error)


def _unavailable(detail: str, retry_after_s: int) -> Problem:
    retry_after = ("Retry-After", str(retry_after_s))
    return Problem("unavailable", "Service unavailable", 503, detail, headers=(retry_after,))


def _too_many(error: Exception) -> Problem | None:
    match error:
        case ThrottledError():
            detail, retry_after_s = error.detail, error.retry_after_s
        case ClientError() if _is_throttled(error):
            detail, retry_after_s = "the tables are asked for more than they give at the moment; try again", 1
        case _:
            return None
    return Problem("throttled", "Too many requests", 429, detail, headers=(("Retry-After", str(retry_after_s)),))


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

    >>> invalid([Fault("must be a text", "/tags/3")]).as_json()["errors"]
    [{'detail': 'must be a text', 'pointer': '#/tags/3'}]
    """
    found = tuple(faults)
    detail = "one value is invalid" if len(found) == 1 else f"{len(found)} values are invalid"
    return Problem("invalid", "Invalid values", 422, detail, found)


def too_large(fault: Fault) -> Problem:
    """Return the answer to one message of a batch whose body is over the topic's limit."""
    return Problem("too-large", "Too large", 413, fault.detail, (fault,))


def internal(correlation_id: str) -> Problem:
    """Return the answer to what nobody foresaw: nothing but an id to look for in the log."""
    return Problem(
        "internal",
        "Internal error",
        500,
        "something failed inside the service",
        correlation_id=correlation_id,
    )
