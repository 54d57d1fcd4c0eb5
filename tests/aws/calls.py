"""A request on its way to a service, and who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a role of the template (by logical id or by the function that has it), and a name for traces."""

    role: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it reaches a service."""

    caller: Caller
    service: str
    operation: str
    parameters: Mapping[str, Any]
    now: int

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]
