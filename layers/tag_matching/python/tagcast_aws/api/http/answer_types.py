"""Types of values in answers, as the API document describes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, TypeAdapter, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from tagcast.model import EntryState, LaneState
from typing_extensions import TypedDict

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""An instant of RFC 3339 in UTC with milliseconds."""
UNVERIFIED = "unverified"
"""The state of a subscription whose endpoint is not verified yet, and of its lane unless paused or suspended."""
EVENT_STATES = tuple(dict.fromkeys(("accepted", "unmatched", *map(str, EntryState), *map(str, LaneState))))
"""The states of messages, deliveries and lanes in the events of a tail."""
DELIVERY_STATES = (*map(str, EntryState), "unmatched")
"""The states by which a history can be filtered."""


class RefusedAnswer(TypedDict):
    """The result of a refused item of a batch. ``error`` has the problem details."""

    error: dict[str, Any]


@dataclass(frozen=True)
class SchemaOf:
    """Annotates a type, so that the API document shows the schema of *kind* instead of the type's own schema."""

    kind: Any

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema of *kind*. Pydantic calls this method."""
        return handler(TypeAdapter(self.kind).core_schema)


def one_of(words: Iterable[str]) -> Any:
    """Return an annotation for a text. With it, the API document lists *words* as the allowed values."""
    return WithJsonSchema({"type": "string", "enum": [str(word) for word in words]})


AnyEntryState = Annotated[str, one_of(EntryState)]
AnyLaneState = Annotated[str, one_of((*LaneState, UNVERIFIED))]
AnyEventState = Annotated[str, one_of(EVENT_STATES)]
