"""Types of values in answers, as the API document describes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, TypeAdapter, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from tagcast.model import EntryState, LaneState

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""An instant of RFC 3339 in UTC with milliseconds."""
UNVERIFIED = "unverified"
"""The state of a subscription whose endpoint has not agreed yet, and of its lane, unless somebody put that to sleep."""
EVENT_STATES = tuple(dict.fromkeys(("accepted", "unmatched", *map(str, EntryState), *map(str, LaneState))))
"""What an event of a tail tells of a message, a delivery or a lane."""
DELIVERY_STATES = (*map(str, EntryState), "unmatched")
"""By what the messages of a history may be chosen."""


@dataclass(frozen=True)
class SchemaOf:
    """What describes a value as one of *kind* in the document, whatever reads or makes it."""

    kind: Any

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema of the other type; pydantic asks for it."""
        return handler(TypeAdapter(self.kind).core_schema)


def one_of(words: Iterable[str]) -> Any:
    """Return what lets the document name all *words* that a text may be."""
    return WithJsonSchema({"type": "string", "enum": [str(word) for word in words]})


AnyEntryState = Annotated[str, one_of(EntryState)]
AnyLaneState = Annotated[str, one_of((*LaneState, UNVERIFIED))]
AnyEventState = Annotated[str, one_of(EVENT_STATES)]
