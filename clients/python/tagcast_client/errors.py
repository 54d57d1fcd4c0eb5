"""Every error of the client; all are a `TagcastError`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AcknowledgedLateError", "AlreadyExistsError", "BatchInterruptedError", "ConflictError", "DisagreementError",
    "Fault", "ForbiddenError", "InvalidError", "NotFoundError", "PreconditionFailedError", "ProblemError",
    "ServerError", "SigningError", "TagcastError", "ThrottledError", "TooLargeError", "UnexpectedAnswerError",
    "UnreachableError",
]  # fmt: skip


class TagcastError(Exception):
    """The root of all errors of the client."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to pickle and copy the error: without `__init__`, because *args* are not its arguments."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class UnreachableError(TagcastError):
    """No answer came from *url*. If *refused*, no connection was made. Otherwise the request may have arrived."""

    def __init__(self, url: str, reason: str, *, refused: bool) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason
        self.refused = refused


class SigningError(TagcastError):
    """The request cannot be signed.

    Credentials, profile or region are missing, a role was refused, botocore is missing, or the token is bad.
    """


class UnexpectedAnswerError(TagcastError):
    """The client cannot read the API's answer."""


class AcknowledgedLateError(TagcastError):
    """A listener worked longer than the visibility timeout, which could not be extended in time.

    The messages, by their *message_ids*, are pulled again.
    """

    def __init__(self, message_ids: Sequence[str]) -> None:
        shown = ", ".join(message_ids[:3]) + (", …" if len(message_ids) > 3 else "")
        super().__init__(f"acknowledged after the visibility timeout, so the messages are pulled again: {shown}")
        self.message_ids = tuple(message_ids)


@dataclass(frozen=True, slots=True)
class Fault:
    """One invalid value of a request. *pointer* is its JSON pointer. *code* is the kind of fault, for programs."""

    detail: str
    pointer: str
    code: str = ""


class ProblemError(TagcastError):
    """The API refused the request. *problem* is its answer (RFC 9457). *faults* has one fault for each invalid value.

    *code* is the kind of the problem, for programs. *request_id* finds the request in the log of the service. *code*
    and *request_id* are empty if another server answered.
    """

    def __init__(self, status: int, problem: dict[str, Any], text: str) -> None:
        self.status = status
        self.title = str(problem.get("title") or f"HTTP {status}")
        self.detail = str(problem.get("detail") or "")
        self.code = str(problem.get("code", ""))
        self.request_id = str(problem.get("request_id", ""))
        errors = problem.get("errors")
        self.faults = tuple(
            Fault(str(each.get("detail", "")), str(each.get("pointer", "")), str(each.get("code", "")))
            for each in (errors if isinstance(errors, list) else ())
            if isinstance(each, Mapping)
        )
        self.problem = problem
        self.text = text
        reason = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in self.faults) or self.detail
        where = f" (request {self.request_id})" if self.request_id else ""
        super().__init__((f"{status} {self.title}: {reason}" if reason else f"{status} {self.title}") + where)


class InvalidError(ProblemError):
    """400, 415, 422: the request is invalid; see *faults*."""


class ForbiddenError(ProblemError):
    """401, 403: the request is not signed, or its identity lacks the right."""


class NotFoundError(ProblemError):
    """404: the topic, subscription, message or route does not exist."""


class ConflictError(ProblemError):
    """409: the request conflicts with the present state, e.g. the topic still has subscriptions."""


class DisagreementError(ConflictError):
    """409: the group has another filter than this client, or is not ordered although the client requires order.

    *difference* lists the differences in sentences. *group* is the filter of the group, *yours* the filter of the
    client. *yours* is None if the API knows only the digest of the client's filter.
    """

    def __init__(self, status: int, problem: dict[str, Any], text: str) -> None:
        super().__init__(status, problem, text)
        self.group = problem.get("group")
        self.yours = problem.get("yours")
        self.difference = tuple(str(each) for each in problem.get("difference", ()))
        self.args = ("; ".join((str(self), *self.difference)),)


class PreconditionFailedError(ProblemError):
    """412: the resource changed since the given version."""


class AlreadyExistsError(PreconditionFailedError):
    """412: the resource already exists and is unchanged; see `update_…` and `ensure_…`."""


class TooLargeError(ProblemError):
    """413: the request or a body is larger than allowed."""


class ThrottledError(ProblemError):
    """429: too many requests, after all retries."""


class ServerError(ProblemError):
    """5xx: the service failed, after all retries. The service may have carried out the request."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionFailedError,
    413: TooLargeError,
    415: InvalidError,
    422: InvalidError,
    429: ThrottledError,
}


def problem_of(status: int, text: str) -> dict[str, Any]:
    """Return the problem in an error answer. An answer without a problem, e.g. of API Gateway, is converted to one.

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


def refusal(status: int, text: str, *, creates: bool = False) -> ProblemError:
    """Return the error for an answer that is not a success. If *creates*, the request was to create a resource.

    Then a 412 is an AlreadyExistsError.

    >>> refusal(404, '{"title": "Not found", "detail": "no topic t"}')
    NotFoundError('404 Not found: no topic t')
    """
    problem = problem_of(status, text)
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ProblemError)
    if creates and kind is PreconditionFailedError:
        kind = AlreadyExistsError
    if problem.get("code") == "disagreement":
        kind = DisagreementError
    return kind(status, problem, text)


class BatchInterruptedError(TagcastError):
    """A batch was split by the API's limits, and a part after the first failed.

    *results* are the results of the earlier parts. *rest* is the place of the first item without a result. The cause is
    in ``__cause__``. Items of the failed part may have been accepted.
    """

    def __init__(self, results: tuple[Any, ...], rest: int) -> None:
        super().__init__(f"the batch was interrupted: only the first {rest} items have results")
        self.results = results
        self.rest = rest
