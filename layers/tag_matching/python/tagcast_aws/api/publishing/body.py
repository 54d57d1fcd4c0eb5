"""Request bodies with messages: a single message, a batch, and archived messages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.config import JsonDict, JsonValue
from pydantic_core import PydanticCustomError
from tagcast.delivery.dead_letter import DEAD_LETTER
from tagcast.delivery.publishing import ArchivedOriginal
from tagcast.errors import Fault, FaultCode
from tagcast.filters.compiled import pointer_part
from tagcast.model import Draft
from tagcast.trace_context import read_trace

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body, limit_field_count, separately_validated
from tagcast_aws.api.http.declared import Wire, Wires, body_base, settings_from_body

_CONTROLS = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))


def _plain(text: str) -> str:
    if not _CONTROLS.isdisjoint(text):
        raise PydanticCustomError(FaultCode.WRONG_FORMAT.value, "must not have control characters")
    return text


def _distinct(tags: list[str]) -> list[str]:
    kept = list(dict.fromkeys(tags))
    if len(kept) > limits.TAGS_MAX:
        raise PydanticCustomError(FaultCode.TOO_LARGE.value, f"must have at most {limits.TAGS_MAX} different tags")
    return kept


def _routing_key(key: str) -> str:
    if len(key.encode()) > limits.ROUTING_KEY_BYTES_MAX:
        raise PydanticCustomError(FaultCode.TOO_LARGE.value, f"must have at most {limits.ROUTING_KEY_BYTES_MAX} bytes")
    if key.count(".") > limits.ROUTING_KEY_DOTS_MAX:
        raise PydanticCustomError(FaultCode.TOO_LARGE.value, f"must have at most {limits.ROUTING_KEY_DOTS_MAX} dots")
    if "" in key.split("."):
        raise PydanticCustomError(FaultCode.WRONG_FORMAT.value, "must not have an empty word")
    return key


def _properties(pairs: dict[str, str]) -> dict[str, str]:
    if sum(len(name) + len(value.encode()) for name, value in pairs.items()) > limits.PROPERTIES_BYTES_MAX:
        detail = f"must have at most {limits.PROPERTIES_BYTES_MAX} bytes in all"
        raise PydanticCustomError(FaultCode.TOO_LARGE.value, detail)
    return pairs


_PLAIN = Field(json_schema_extra={"not": {"pattern": limits.CONTROLS}})
Tag = Annotated[str, StringConstraints(min_length=1, max_length=limits.TAG_LENGTH_MAX), AfterValidator(_plain), _PLAIN]
Tags = Annotated[
    list[Tag],
    Field(max_length=limits.TAGS_SENT_MAX, json_schema_extra={"format": "tags"}),
    AfterValidator(_distinct),
]
RoutingKey = Annotated[
    str,
    AfterValidator(_routing_key),
    Field(
        json_schema_extra={
            "format": "routing-key",
            "maxLength": limits.ROUTING_KEY_BYTES_MAX,
            "pattern": rf"^[^.]+(\.[^.]+){{0,{limits.ROUTING_KEY_DOTS_MAX}}}$",
        }
    ),
]
PropertyName = Annotated[str, StringConstraints(pattern=limits.PROPERTY_NAME)]
PropertyValue = Annotated[str, StringConstraints(max_length=limits.PROPERTY_LENGTH_MAX)]
Properties = Annotated[
    dict[PropertyName, PropertyValue],
    limit_field_count(limits.PROPERTIES_MAX, "properties"),
    AfterValidator(_properties),
    WithJsonSchema(
        {
            "type": "object",
            "format": "properties",
            "propertyNames": {"pattern": limits.PROPERTY_NAME},
            "additionalProperties": {"type": "string", "maxLength": limits.PROPERTY_LENGTH_MAX},
            "maxProperties": limits.PROPERTIES_MAX,
        }
    ),
]
OrderingKey = Annotated[
    str, StringConstraints(min_length=1, max_length=limits.ORDERING_KEY_LENGTH_MAX), AfterValidator(_plain), _PLAIN
]
Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64", "pattern": limits.BASE64})]


def _bodies(kind: str) -> JsonDict:
    """Return the schema of a message whose two body fields have the JSON type *kind*; ``null`` includes absent ones."""
    both: JsonDict = {"properties": {"body": {"type": kind}, "body_base64": {"type": kind}}}
    return both if kind == "null" else both | {"required": ["body", "body_base64"]}


WIRES: Wires = {
    "tags": Wire(Tags, tuple, default=lambda: []),
    "routing_key": Wire(RoutingKey),
    "properties": Wire(Properties, default=lambda: {}),
    "ordering_key": Wire(OrderingKey),
}
if TYPE_CHECKING:
    _Attributes = Body
else:
    _Attributes = body_base(Draft, WIRES)


class TestedMessage(_Attributes):
    """A message on which a filter is tested. It may have a body as text, a body as base64, or none."""

    __test__ = False
    model_config = ConfigDict(json_schema_extra={"allOf": [{"not": _bodies("string")}]})

    body: str | None = None
    body_base64: Base64 | None = None

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return a fault if the message has two bodies, or if ``body_base64`` is not base64; else an empty list."""
        encoded = value.get("body_base64")
        if encoded is not None and value.get("body") is not None:
            return [Fault("must not be given together with body", "/body_base64", FaultCode.CONFLICT)]
        if isinstance(encoded, str) and _decode_base64(encoded) is None:
            return [Fault("must be base64", "/body_base64", FaultCode.WRONG_FORMAT)]
        return []

    def draft(self) -> Draft:
        """Convert the message to the core's :class:`Draft`."""
        content = (self.body or "").encode() if self.body_base64 is None else _decode_base64(self.body_base64)
        return Draft(
            body=content or b"",
            is_text=self.body_base64 is None,
            **settings_from_body(Draft, self, WIRES),
        )


_ONE_BODY: list[JsonValue] = [{"not": _bodies(kind)} for kind in ("string", "null")]
_NO_LETTER: JsonDict = {"properties": {"properties": {"propertyNames": {"not": {"pattern": f"^{DEAD_LETTER}"}}}}}


class MessageBody(TestedMessage):
    """A message to publish: a body as text or as base64, attributes for filters, and a trace.

    An invalid trace is ignored.
    """

    model_config = ConfigDict(json_schema_extra={"allOf": [*_ONE_BODY, _NO_LETTER]})

    traceparent: str | None = None
    tracestate: str | None = None

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return the faults of a :class:`TestedMessage`, and further faults of a message to publish.

        A missing body is a fault, and so is each property that only the service may set.
        """
        faults = super().cross_faults(value)
        if value.get("body") is None and value.get("body_base64") is None:
            faults = [Fault("is required (or body_base64)", "/body", FaultCode.REQUIRED)]
        return faults + cls._letter_faults(value.get("properties"))

    @classmethod
    def _letter_faults(cls, properties: object) -> list[Fault]:
        names = properties if isinstance(properties, Mapping) else ()
        return [
            Fault("is set by the service only", f"/properties/{pointer_part(name)}", FaultCode.NOT_ALLOWED)
            for name in names
            if str(name).startswith(DEAD_LETTER)
        ]

    @classmethod
    def is_required(cls) -> bool:
        """Return True, because a message needs one of two fields. The model declares both of them as optional."""
        return True

    def draft(self) -> Draft:
        """Convert the message to the core's :class:`Draft`, with its trace."""
        return replace(super().draft(), trace=read_trace(self.traceparent, self.tracestate))


class BatchBody(Body):
    """Messages to publish. Each item is validated separately, as :class:`MessageBody`."""

    item_models: ClassVar[tuple[type[Body], ...]] = (MessageBody,)

    messages: Annotated[list[Any], separately_validated(MessageBody)]


class ReplayedMessage(MessageBody):
    """An archived message to publish again. ``replay_of`` is its original id. Dead letters are allowed, too."""

    model_config = ConfigDict(json_schema_extra={"allOf": _ONE_BODY})

    replay_of: Annotated[str, StringConstraints(pattern=limits.MESSAGE_ID)]

    @classmethod
    def _letter_faults(cls, properties: object) -> list[Fault]:
        return []

    def original(self) -> ArchivedOriginal:
        """Convert the archived message to the core's :class:`ArchivedOriginal`."""
        return ArchivedOriginal(self.draft(), self.replay_of)


class ReplayBody(Body):
    """Archived messages to publish again. Each item is validated separately, as :class:`ReplayedMessage`."""

    item_models: ClassVar[tuple[type[Body], ...]] = (ReplayedMessage,)

    messages: Annotated[list[Any], separately_validated(ReplayedMessage)]


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except ValueError:
        return None
