"""Events of a topic: problems with its deliveries, published to its ``events_topic`` as CloudEvents.

See docs/semantics.md, Events. Events are derived from the records of the archive, so each event is also in the archive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from tagcast.archive.record import Record, RecordKind
from tagcast.archive.tail import Share
from tagcast.errors import NotFoundError, TooLargeError
from tagcast.instant import rfc3339
from tagcast.model import Draft, EntryState, LaneState

if TYPE_CHECKING:
    from tagcast.ports import Clock, Store, World

KNOWN_S = 5.0
"""A process caches a topic for 5 seconds."""
BURST, EVENTS_PER_S = 100, 10
"""A process publishes at most 10 events of a topic a second on average, with bursts of 100."""
TYPE_PREFIX = "tagcast."
CONTENT_TYPE = "application/cloudevents+json"


class EventType(StrEnum):
    """The types of events. An event is published as a message whose tag is the type."""

    LANE_BLOCKED = "lane.blocked"
    LANE_LOST_CONTACT = "lane.lost_contact"
    LANE_SUSPENDED = "lane.suspended"
    LANE_RECOVERED = "lane.recovered"
    DELIVERY_DISCARDED = "delivery.discarded"
    DELIVERY_EXPIRED = "delivery.expired"
    ENDPOINT_UNVERIFIED = "endpoint.unverified"


_OF_LANE = {
    LaneState.BLOCKED: EventType.LANE_BLOCKED,
    LaneState.LOST_CONTACT: EventType.LANE_LOST_CONTACT,
    LaneState.SUSPENDED: EventType.LANE_SUSPENDED,
}
_OF_END = {
    EntryState.DISCARDED: EventType.DELIVERY_DISCARDED,
    EntryState.EXPIRED: EventType.DELIVERY_EXPIRED,
}


def type_of(record: Record) -> EventType | None:
    """Return the event type of a record; None for most records.

    >>> lane = {"state": "retrying", "previous_state": "lost_contact"}
    >>> str(type_of(Record(RecordKind.LANES, lane)))
    'lane.recovered'
    """
    fields = record.fields
    match record.kind:
        case RecordKind.LANES:
            before, after = (LaneState(fields[name]) for name in ("previous_state", "state"))
            return _type_of_lane(before, after)
        case RecordKind.DELIVERIES:
            return _OF_END.get(EntryState(fields["state"]))
        case RecordKind.SUBSCRIPTIONS if record.is_newly_unverified:
            return EventType.ENDPOINT_UNVERIFIED
    return None


def _type_of_lane(before: LaneState, after: LaneState) -> EventType | None:
    if after is before:
        return None
    if before in _OF_LANE and after not in _OF_LANE:
        return EventType.LANE_RECOVERED
    return _OF_LANE.get(after)


@dataclass(slots=True)
class EventPublisher:
    """Publishes one process's events to each topic's ``events_topic``.

    *make_world* is called only when an event is published, because most processes publish none. With *to_bus*, each
    event is also put on the account's event bus.
    """

    store: Store
    clock: Clock
    make_world: Callable[[], World]
    to_bus: bool = False
    _known: dict[str, tuple[float, str | None]] = field(default_factory=dict)
    _shares: dict[str, Share] = field(default_factory=dict)
    _omitted: dict[str, int] = field(default_factory=dict)

    def publish(self, record: Record) -> None:
        """Publish the event of *record*, if the record is an event and its topic has an ``events_topic``.

        A repeated call with the same record publishes no second message until the first one expires. Events above the
        topic's rate are omitted and counted (``EventsOmitted``); the next published event contains their number. An
        event is lost if its events topic is missing or refuses its size (``EventsLost``). Raises the errors of the
        tables; then the stream repeats the change.
        """
        kind = type_of(record)
        if kind is None:
            return
        topic, now = record.fields["topic"], self.clock.monotonic()
        events_topic = self._events_topic(topic, now)
        if events_topic is None:
            return
        world = self.make_world()
        share = self._shares.setdefault(topic, Share(at=now, burst=BURST, per_s=EVENTS_PER_S, left=BURST))
        if not share.take(1, now):
            self._omitted[topic] = self._omitted.get(topic, 0) + 1
            world.telemetry.count("EventsOmitted")
            return
        event = event_of(record, kind, _subscription_of(world, record), self._omitted.get(topic, 0))
        self._publish(world, events_topic, event, str(record.fields["record_id"]))
        self._omitted.pop(topic, None)

    def _publish(self, world: World, events_topic: str, event: Mapping[str, object], record_id: str) -> None:
        # Imported here: the archive starts faster without the modules of publishing.
        from tagcast.delivery.publishing import Idempotency, publish_by_relay

        try:
            publish_by_relay(world, events_topic, draft_of(event), Idempotency(f"event {record_id}", record_id))
        except (NotFoundError, TooLargeError):
            world.telemetry.count("EventsLost")
        if self.to_bus:
            world.event_bus.publish(event)

    def _events_topic(self, topic: str, now: float) -> str | None:
        from tagcast.rows import stored

        known = self._known.get(topic)
        if known is None or now >= known[0] + KNOWN_S:
            found = stored.topic(self.store, topic)
            known = self._known[topic] = now, None if found is None else found.settings.events_topic
        return known[1]


def _subscription_of(world: World, record: Record) -> str | None:
    """Return the name of a record's subscription, even if it was deleted; None if the name is not stored any more."""
    from tagcast.registry.directory import subscription_at
    from tagcast.rows import stored

    if "subscription" in record.fields:
        return cast("str", record.fields["subscription"])
    topic, ordinal = record.fields["topic"], record.fields["ordinal"]
    try:
        found = subscription_at(world, topic, ordinal)
    except NotFoundError:
        return None
    return stored.subscription_name(world.store, topic, ordinal) if found is None else found.name


def event_of(record: Record, kind: EventType, subscription: str | None, omitted: int) -> Mapping[str, object]:
    """Return the event of *record* as a CloudEvent 1.0 in JSON. *omitted* events were omitted just before.

    *subscription* is the name of the subscription; None if the name is not stored any more.
    """
    fields = record.fields
    data = {
        "topic": fields["topic"],
        "subscription": subscription,
        "message_id": fields.get("message_id"),
        "state": fields.get("state"),
        "previous_state": fields.get("previous_state"),
        "attempts": fields.get("attempts"),
        "last_outcome": fields.get("outcome"),
        "reason": fields.get("unverified"),
        "omitted_before": omitted or None,
    }
    return {
        "specversion": "1.0",
        "type": f"{TYPE_PREFIX}{kind}",
        "source": f"/topics/{fields['topic']}",
        "subject": subscription or f"ordinal {fields['ordinal']}",
        "id": fields["record_id"],
        "time": rfc3339(fields["changed_at"]),
        "datacontenttype": "application/json",
        "data": {name: value for name, value in data.items() if value is not None},
    }


def draft_of(event: Mapping[str, object]) -> Draft:
    """Return an event as a message. Its tag is the event's type; its properties are the topic and the subscription."""
    data = cast("Mapping[str, str]", event["data"])
    return Draft(
        body=json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode(),
        tags=(cast("str", event["type"]).removeprefix(TYPE_PREFIX),),
        properties={name: data[name] for name in ("topic", "subscription") if name in data},
        content_type=CONTENT_TYPE,
    )
