"""The parts of a message that a pattern may read: the body, the properties, or an envelope like EventBridge's."""

import re
from collections.abc import Mapping
from enum import StrEnum

from tagcast.filters.compiled import FilterInput
from tagcast.filters.event_pattern.event import Decimals, Event, Value, event_in, number_in, object_in
from tagcast.strict_json import JSON_VALUES_MAX, MalformedError, parse

BODY_UNKNOWN = "the body is deleted"
NO_ATTRIBUTES = "the message has no properties; SNS requires at least one, even for exists: false"
ENVELOPE_NAMES = ("version", "id", "source", "account", "time", "region", "detail-type")
EVENT_VALUES_MAX = JSON_VALUES_MAX + 100
"""The most values of an event: those of the body, and in an envelope also the tags and :data:`ENVELOPE_NAMES`."""
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


class PatternScope(StrEnum):
    """The part of a message that a pattern reads."""

    BODY = "body"
    PROPERTIES = "properties"
    ENVELOPE = "envelope"


def event_of(message: FilterInput, scope: PatternScope, *, are_attributes: bool = False) -> Event | str:
    """Return the event that a pattern of *scope* reads from *message*. If there is none, return a text with the reason.

    If *are_attributes*, properties are read like SNS message attributes (:func:`attributes`). A message without
    properties then has no event, because in SNS even "exists": false does not match a message without attributes.
    """
    if scope is PatternScope.PROPERTIES:
        if not are_attributes:
            return _texts(message.properties)
        return attributes(message.properties) if message.properties else NO_ATTRIBUTES
    body = message.body
    if body is None:
        return BODY_UNKNOWN
    if scope is PatternScope.BODY:
        return event_in(body)
    detail = object_in(body)
    return detail if isinstance(detail, str) else Event.of(envelope(message, detail))


def envelope(message: FilterInput, detail: Mapping[str, object]) -> dict[str, object]:
    """Return a message as an EventBridge event. *detail* is the JSON object of the body.

    The fields source, detail-type, id, time, account, region and version are the properties of these names. A field
    whose property is missing is left out, but detail-type is then the routing key. The field resources has the tags.

    >>> from types import SimpleNamespace
    >>> message = SimpleNamespace(tags=("arn:1",), routing_key="order.new", properties={"source": "shop"})
    >>> envelope(message, {"n": 1})
    {'detail-type': 'order.new', 'source': 'shop', 'resources': ['arn:1'], 'detail': {'n': 1}}
    """
    key = {} if message.routing_key is None else {"detail-type": message.routing_key}
    named = {name: text for name in ENVELOPE_NAMES if (text := message.properties.get(name)) is not None}
    return {**key, **named, "resources": list(message.tags), "detail": detail}


def attributes(properties: Mapping[str, str]) -> Event:
    """Return an event of *properties*, read like SNS message attributes.

    A text with a JSON list of scalars becomes several values. A decimal text becomes a :class:`Decimals`, unless a
    double would lose digits.

    >>> attributes({"price": "7.5e1", "tags": '["a", "b"]', "name": "x"}).values
    {'price': [Decimals(text='7.5e1', number=75.0)], 'tags': ['a', 'b'], 'name': ['x']}
    """
    event = Event()
    for name, text in properties.items():
        if text.startswith("["):
            try:
                listed = parse(text.encode("utf-8", "surrogatepass"))
            except MalformedError:
                listed = None
            if isinstance(listed, list) and not any(isinstance(each, list | dict) for each in listed):
                for each in listed:
                    event.put_scalar(name, each)
                continue
        event.put(name, _attribute(text))
    return event


def _attribute(text: str) -> Value:
    number = number_in(text) if _DECIMAL.fullmatch(text) else None
    return Decimals(text, number) if isinstance(number, float) else text


def _texts(properties: Mapping[str, str]) -> Event:
    event = Event()
    for name, text in properties.items():
        event.put(name, text)
    return event
