"""Requests, and the actions that answer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tagcast.ports import World

from tagcast_aws.cmq.limits import OFFSET_MAX, PAGE_DEFAULT
from tagcast_aws.cmq.parameters import Parameters
from tagcast_aws.runtime.settings import Home

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CmqRequest:
    """One authenticated request to a deployment."""

    world: World
    home: Home
    given: Parameters

    def part(self, items: Sequence[T], most: int) -> Sequence[T]:
        """Return the page of *items* that the parameters ``offset`` and ``limit`` select, at most *most* items."""
        offset = self.given.integer("offset", 0, OFFSET_MAX) or 0
        limit = self.given.integer("limit", 0, most)
        return items[offset : offset + (PAGE_DEFAULT if limit is None else limit)]


@dataclass(frozen=True, slots=True)
class Action:
    """The function of an action, and its parameters in addition to :data:`OF_EVERY_ACTION`; ``.n`` marks an array."""

    serve: Callable[[CmqRequest], dict[str, object]]
    parameters: tuple[str, ...]


OF_EVERY_ACTION = (
    *("action", "clientRequestId"),
    *("Nonce", "Region", "RequestClient", "SecretId", "Signature", "SignatureMethod", "Timestamp", "Token"),
)
"""Parameters that CMQ clients send with every request; Region, RequestClient and Token have no effect."""


def seconds(instant: int) -> int:
    """Convert an instant from ms to whole seconds, CMQ's unit."""
    return instant // 1000
