"""One setting of a topic or a subscription, for programs that list all settings: options, forms, help texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, as the API's document describes it. *extra* has the document's ``x-`` keys, without this prefix."""

    name: str
    type: Literal["integer", "number", "string", "boolean", "object", "array", "any"]
    help: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    default: Any = None
    is_write_only: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
