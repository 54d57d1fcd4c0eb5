"""The faults a caller can act on. Each is translated once, at the edge, into an answer of the interface."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class TagcastError(Exception):
    """The root of every fault that this package raises on purpose."""


class FaultCode(StrEnum):
    """What kind of fault a value has, for programs; its detail is for people and may change."""

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

    ``pointer`` is a JSON pointer relative to the value that was checked; a check of a larger value puts a
    prefix before it (see :meth:`under`).

    >>> Fault("too long", "/tags/0", FaultCode.TOO_LARGE).under("/filter").pointer
    '/filter/tags/0'
    """

    detail: str
    pointer: str
    code: FaultCode

    def under(self, prefix: str) -> "Fault":
        """The same fault, seen from the value that holds the checked one at ``prefix``."""
        return Fault(self.detail, prefix + self.pointer, self.code)


class InvalidFilterError(TagcastError):
    """A filter that is refused when it is written, with every fault found."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__(faults)
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(f"{fault.pointer or '/'}: {fault.detail}" for fault in self.faults)


class FilterSyntaxError(InvalidFilterError):
    """An expression that is refused, with the place (line and column count from 1).

    ``message`` says what is wrong, ``hint`` what is allowed; neither has a full stop. ``found`` and ``expected`` are
    for people; they are empty when the fault is not a matter of grammar.

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
        """This error as one entry of an answer's list of faults."""
        return Fault(str(self), "/expression", FaultCode.SYNTAX)

    def __str__(self) -> str:
        place = f"column {self.column}" if self.line == 1 else f"line {self.line}, column {self.column}"
        return f"{self.message} at {place}." + (f" {self.hint}." if self.hint else "")


class FilterEvaluationError(TagcastError):
    """A filter that fails on one message, which is then not delivered; ``message`` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequestError(TagcastError):
    """A request with invalid values, every fault named; nothing of it is stored."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__(faults)
        self.faults = faults


class NotFoundError(TagcastError):
    """Something named in a request does not exist. *what* is its noun, such as ``topic``."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{what} {name} does not exist")
        self.what = what
        self.name = name


class UnmatchedError(TagcastError):
    """A message that none of the topic's *subscriptions* would receive, from a producer who asked to be told."""

    def __init__(self, subscriptions: int) -> None:
        super().__init__(f"none of {subscriptions} subscriptions matches")
        self.subscriptions = subscriptions


class ConflictError(TagcastError):
    """A request that the present state of its resource forbids."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class DisagreementError(ConflictError):
    """A member of a group that wants another filter than the group has; *difference* tells in sentences.

    *yours* is not told where only a digest of it is known.
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
    """A conditional request whose version is not the present one."""


class TooLargeError(TagcastError):
    """A body over its topic's limit."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class UnavailableError(TagcastError):
    """Something that a request needs does not do its part now; the same request may succeed *retry_after_s* later.

    What was asked for may be done all the same, wholly or in part, as after any fault inside a service.
    """

    def __init__(self, detail: str, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s


class ThrottledError(TagcastError):
    """More requests than are served at once; nothing was done, and the same one may succeed *retry_after_s* later."""

    def __init__(self, detail: str, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s


class ConditionLostError(TagcastError):
    """A conditional write that wrote nothing because somebody else was faster."""


class ContendedError(ConditionLostError):
    """A write that wrote nothing because others were writing the same rows all the while, whatever its condition."""
