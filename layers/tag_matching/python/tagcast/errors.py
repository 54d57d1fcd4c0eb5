"""The errors that a caller can act on. The API translates each into an answer."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error)
"""The errors of decoding a row in an unknown format."""


class TagcastError(Exception):
    """The base class of all errors of this package."""


class FaultCode(StrEnum):
    """The kind of a fault, for programs; the fault's detail is for people and may change."""

    REQUIRED = "required"
    UNKNOWN = "unknown"
    WRONG_TYPE = "wrong_type"
    TOO_SMALL = "too_small"
    TOO_LARGE = "too_large"
    NOT_ALLOWED = "not_allowed"
    WRONG_FORMAT = "wrong_format"
    SYNTAX = "syntax"
    CONFLICT = "conflict"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Fault:
    """One invalid value of a request.

    ``pointer`` is a JSON pointer relative to the checked value; the check of a larger value adds a prefix (see
    :meth:`under`).

    >>> Fault("too long", "/tags/0", FaultCode.TOO_LARGE).under("/filter").pointer
    '/filter/tags/0'
    """

    detail: str
    pointer: str
    code: FaultCode

    def under(self, prefix: str) -> "Fault":
        """Return the fault with *prefix* put before its pointer.

        *prefix* is the place of the checked value in a larger value.
        """
        return Fault(self.detail, prefix + self.pointer, self.code)


CURSOR_FAULT = Fault("is not a cursor of this list", "/cursor", FaultCode.WRONG_FORMAT)


class InvalidFilterError(TagcastError):
    """An invalid filter, with all of its faults."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__(faults)
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(f"{fault.pointer or '/'}: {fault.detail}" for fault in self.faults)


class FilterSyntaxError(InvalidFilterError):
    """An invalid expression, with its position (line and column count from 1).

    ``message`` is the error, ``hint`` the remedy; neither ends with a full stop. ``found`` and ``expected`` describe a
    violation of the grammar, for people. Both are empty for an error of another kind.

    >>> str(FilterSyntaxError("Unexpected '>'", 1, 26, found=">", hint="Expected a property or a value"))
    "Unexpected '>' at column 26. Expected a property or a value."
    >>> str(FilterSyntaxError("Comment without */", 2, 3))
    'Comment without */ at line 2, column 3.'
    """

    def __init__(
        self, message: str, line: int, column: int, found: str = "", expected: str = "", hint: str = ""
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.found = found
        self.expected = expected
        self.hint = hint
        super().__init__((self.fault,))
        self.args = (message, line, column, found, expected, hint)

    @property
    def fault(self) -> Fault:
        """This error as a :class:`Fault`, for the list of faults in an answer of the API."""
        return Fault(str(self), "/expression", FaultCode.SYNTAX)

    def __str__(self) -> str:
        place = f"column {self.column}" if self.line == 1 else f"line {self.line}, column {self.column}"
        return f"{self.message} at {place}." + (f" {self.hint}." if self.hint else "")


class FilterEvaluationError(TagcastError):
    """A filter failed on a message, so the filter's subscription does not get the message.

    ``message`` is the reason for the failure.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequestError(TagcastError):
    """A request with invalid values, with all of its faults; nothing is stored."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__(faults)
        self.faults = faults


class NotFoundError(TagcastError):
    """A resource that a request names does not exist. *what* is the kind of the resource, such as ``topic``."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{what} {name} does not exist")
        self.what = what
        self.name = name


class UnmatchedError(TagcastError):
    """The producer requires a match, but none of the topic's subscriptions matched. *subscriptions* is their number."""

    def __init__(self, subscriptions: int) -> None:
        super().__init__(f"none of {subscriptions} subscriptions matches")
        self.subscriptions = subscriptions


class ConflictError(TagcastError):
    """The current state of a resource forbids the request."""


class DisagreementError(ConflictError):
    """A member and its group differ in their filter or order. *difference* has one sentence for each difference.

    *group* is the group's filter, *yours* the member's filter. *yours* is None if only the digest of the member's
    filter is known.
    """

    def __init__(
        self,
        detail: str,
        group: Mapping[str, object] | None,
        yours: Mapping[str, object] | None,
        difference: tuple[str, ...],
    ) -> None:
        super().__init__(detail)
        self.group = group
        self.yours = yours
        self.difference = difference


class PreconditionFailedError(ConflictError):
    """The version that a conditional request requires is not the current version."""


class TooLargeError(TagcastError):
    """A body, a message with its state map, or a request or its answer exceeds a size limit."""


class UnavailableError(TagcastError):
    """A dependency of the request is unavailable; the same request may succeed *retry_after_s* seconds later.

    The request may still have been executed, fully or in part, as after any internal error.
    """

    def __init__(self, detail: str, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ThrottledError(TagcastError):
    """Too many simultaneous requests; nothing was done, and the same request may succeed a second later."""


class ConditionLostError(TagcastError):
    """A conditional write failed its condition, because another writer was faster, and wrote nothing."""


class ReplacedError(UnavailableError, ConditionLostError):
    """Another writer replaced the rows that the caller wanted to read.

    The caller must begin again to find the new rows.
    """


class ContendedError(ConditionLostError):
    """A write failed because other transactions kept writing the same rows. Its condition may or may not hold."""


class TableThrottledError(ContendedError):
    """A write failed because the table was throttled. Its condition may or may not hold."""
