"""What may go wrong with a call: errors that a service answers, and accidents that a history brings about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.aws.calls import Call


@dataclass
class ApiError(Exception):
    """An error as a service answers it: the name of its shape (or its code), a message, and members besides."""

    shape: str
    message: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)
    status: int = 400


class UnplayedError(NotImplementedError):
    """The box does not play what was asked of it: nobody may take that for an answer of AWS."""


class UnansweredError(Exception):
    """No answer comes; the client waits until its read timeout is over."""


class DisconnectedError(Exception):
    """The connection breaks: the client learns at once that no answer comes."""


class UnreachableError(Exception):
    """No connection is made, so that nothing is done."""


class Kind(Enum):
    """The accidents that any call may meet."""

    THROTTLED = auto()
    FAILED_BEFORE = auto()
    """A 5xx, and nothing was done."""
    FAILED_AFTER = auto()
    """A 5xx, although it was done."""
    LOST_ANSWER = auto()
    """It was done, then the connection broke."""
    UNANSWERED = auto()
    """It was done, and no answer comes until the client's read timeout."""
    UNREACHABLE = auto()


class Accidents(Protocol):
    """Decides what goes wrong; it is asked once for each request that reaches AWS, botocore's retries included."""

    def strike(self, call: Call) -> Kind | None:
        """What befalls the whole call."""

    def spoiled(self, call: Call, count: int) -> Collection[int]:
        """Which of the *count* entries of a batch are not carried out: failed entries, unprocessed keys or items."""


class NoAccidents:
    """Nothing goes wrong that the rules of AWS do not ask for."""

    def strike(self, call: Call) -> Kind | None:
        return None

    def spoiled(self, call: Call, count: int) -> Collection[int]:
        return ()


@dataclass
class Outages(NoAccidents):
    """Services that fail over intervals of virtual time."""

    intervals: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, service: str, start: int, end: int) -> None:
        """Let every call of *service* in [start, end) fail."""
        self.intervals.append((service, start, end))

    def strike(self, call: Call) -> Kind | None:
        is_away = any(service == call.service and start <= call.now < end for service, start, end in self.intervals)
        return Kind.FAILED_BEFORE if is_away else None
