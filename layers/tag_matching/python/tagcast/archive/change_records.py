"""Derives archive records (`record`) from a row change: flat records with an id by which duplicates are dropped.

The schema, field by field, is in ``docs/archive.md``. A record depends only on the row before and after the change, so
a change read twice gives identical records, byte for byte.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from urllib.parse import urlsplit

from tagcast.archive.record import Field, KeepsBody, Record, RecordKind, RowChange, record, split_columns
from tagcast.ids import accepted_at_of, ordinal_of, topic_id_of
from tagcast.model import Draft, Endpoint, EntryState, LaneState, Protocol, Subscription, SubscriptionSettings
from tagcast.outcome import NOT_OPENED
from tagcast.rows.due import DUES, PendingDelivery
from tagcast.rows.keys import RowKind, kind_of, topic_in_key
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.message import MESSAGES, MessageRow
from tagcast.rows.message_transitions import ENDS, LATE, ROUNDS, End, Origin
from tagcast.rows.state_map import Round
from tagcast.rows.subscription import FILTER_VERSIONS, SETTINGS, SUBSCRIPTIONS
from tagcast.rows.topic import SETTINGS as TOPIC_SETTINGS
from tagcast.rows.topic import TOPICS
from tagcast.setting import declared_json
from tagcast.tables import Row


def records_of(change: RowChange, keeps_body: KeepsBody) -> tuple[Record, ...]:
    """Return the archive records of *change*; most changes have none.

    *keeps_body* says of a topic's name whether the bodies of the topic's messages are archived. Raises KeyError or
    ValueError if a row in *change* is unreadable.
    """
    row = change.after or change.before
    assert row is not None
    kind = kind_of(row)
    if kind is RowKind.MESSAGE:
        return tuple(of_message(change, keeps_body))
    if kind is RowKind.FILTER_VERSION:
        return tuple(of_filter_version(change, topic_in_key(row)))
    make = _BY_KIND.get(kind)
    return () if make is None else tuple(make(change))


_COLUMNS = ("tags", "routing_key", "properties", "ordering_key", "content_type")
"""The attributes of a message that have a column of their own."""
AGAIN = "again"
"""The source of an end that replaced another end. Ends are written once, so this record shows a fault to the audit."""
SHORT_BYTES_MAX = 1_024
"""Text up to this length is archived as text, even if base64 would be shorter."""


def of_message(change: RowChange, keeps_body: KeepsBody) -> Iterator[Record]:
    """Yield the records of a change of a message's row.

    A new row yields the accepted message. A closed first round yields the deliveries that ended in it. A deleted row
    yields the deliveries that were still pending.
    """
    before = None if change.before is None else MESSAGES.value_of(change.before)
    after = None if change.after is None else MESSAGES.value_of(change.after)
    if before is None:
        assert after is not None
        yield _message_record(after, keeps_body(after.message.topic))
    elif after is None:
        for ordinal in sorted(before.map.pending if before.is_pending else ()):
            yield _removal_record(change, before, ordinal)
    else:
        for audience, done in after.rounds.items():
            known = before.rounds.get(audience)
            if done is not None and done != known:
                yield from _of_round(change, Origin.of(after), done, is_again=known is not None)


def of_round(change: RowChange) -> Iterator[Record]:
    """Yield the records of deliveries that ended in the first round of a wide message's section, when it is closed."""
    if change.after is not None:
        row = ROUNDS.value_of(change.after)
        known = None if change.before is None else ROUNDS.value_of(change.before).round
        if row.round is not None and row.round != known:
            yield from _of_round(change, row.origin, row.round, is_again=known is not None)


def _of_round(change: RowChange, origin: Origin, done: Round, *, is_again: bool) -> Iterator[Record]:
    for ordinal, entry in sorted(done.entries().items()):
        at = done.at if ordinal in done.finishes else None
        yield _end_record(change, End(origin, ordinal, entry), AGAIN if is_again else "r", at)


def of_end(change: RowChange) -> Iterator[Record]:
    """Yield the record of the end of a delivery that has a row of its own (:class:`.End`)."""
    if change.after is not None:
        yield _end_record(change, ENDS.value_of(change.after), "e" if change.before is None else AGAIN, None)


def of_late(change: RowChange) -> Iterator[Record]:
    """Yield the record of a late entry."""
    if change.after is not None and change.before is None:
        late, state = LATE.value_of(change.after), EntryState.PENDING.value
        yield _delivery(change, late.origin, late.ordinal, "l", state=state, attempts=0, **asdict(late.added))


def _message_record(row: MessageRow, keep_body: bool) -> Record:
    message, draft = row.message, row.message.draft
    return record(
        RecordKind.MESSAGES,
        f"{message.topic}.{message.message_id}",
        topic=message.topic,
        message_id=message.message_id,
        accepted_at=message.accepted_at,
        expires_at=message.expires_at,
        **_attributes(draft),
        replay_of=message.replay_of,
        subscriptions_version=row.subscriptions_version,
        matched=sorted(row.map.matched),
        filter_errors=list(row.filter_errors) or None,
        filter_error_count=row.filter_error_count,
        body_bytes=len(draft.body) if row.has_body else None,
        **(archived_body(draft) if keep_body and row.has_body else {}),
    )


def _attributes(draft: Draft) -> dict[str, Field]:
    found = declared_json(draft) | {"properties": dict(draft.properties) or None}
    return split_columns(found, _COLUMNS, "attributes")


def archived_body(draft: Draft) -> dict[str, Field]:
    """Return the columns for the body: as text, or as base64 if the body is no text.

    In JSON a control character takes six bytes, so a text may be longer than its base64. Then a text of more than a
    kilobyte becomes base64, too, because a Firehose record has at most 1,000 KiB.

    >>> archived_body(Draft(b"hello")), archived_body(Draft(bytes(3_000)))["body_is_text"]
    ({'body': 'hello'}, True)
    """
    encoded = base64.b64encode(draft.body).decode()
    if not draft.is_text:
        return {"body_base64": encoded}
    text = draft.body.decode()
    if len(json.dumps(text, ensure_ascii=False).encode()) <= max(len(encoded), SHORT_BYTES_MAX):
        return {"body": text}
    return {"body_base64": encoded, "body_is_text": True}


def _end_record(change: RowChange, end: End, source: str, round_at: int | None) -> Record:
    """Return the record of an ended delivery. Ends in different kinds of rows (*source*) have different ids."""
    entry = end.entry
    return _delivery(
        change,
        end.origin,
        end.ordinal,
        source,
        state=entry.state.value,
        attempts=entry.attempts,
        last_attempt_at=entry.last_attempt_at,
        outcome=entry.last_outcome,
        round_at=round_at,
    )


def _removal_record(change: RowChange, row: MessageRow, ordinal: int) -> Record:
    """Return the record of a pending delivery whose message row was removed before the delivery ended."""
    state = row.map.entry(ordinal).state.value
    return _delivery(change, Origin.of(row), ordinal, "x", state=state, attempts=0, removed_by=change.remover)


def _delivery(change: RowChange, origin: Origin, ordinal: int, source: str, **columns: Field) -> Record:
    return record(
        RecordKind.DELIVERIES,
        f"{origin.topic}.{origin.message_id}.{ordinal}.{source}",
        # Without asdict, which triples the time of each record.
        topic=origin.topic,
        message_id=origin.message_id,
        ordinal=ordinal,
        subscriptions_version=origin.subscriptions_version,
        accepted_at=origin.accepted_at,
        expires_at=origin.expires_at,
        changed_at=change.changed_at,
        **columns,
    )


def of_due(change: RowChange) -> Iterator[Record]:
    """Yield a record when a delivery joins a backlog, after a failed attempt, and when its row's time to live ends.

    The end of a delivery is archived from the rows of its message, not from its due row. A due row that only moved,
    because the subscription's secrets cannot be read, shows no new attempt and yields nothing.
    """
    before = None if change.before is None else DUES.value_of(change.before)
    due = before if change.after is None else DUES.value_of(change.after)
    assert due is not None
    if change.after is None and not change.removed_by_ttl:
        return
    is_known = before.attempts == due.attempts if before else due.attempts > 0 and due.last_outcome == NOT_OPENED
    if change.after is not None and is_known:
        return
    removed_by = change.remover if change.after is None else None
    yield _waiting(change, due, removed_by)


def _waiting(change: RowChange, due: PendingDelivery, removed_by: str | None) -> Record:
    ordinal = ordinal_of(due.subscription_id)
    place = f"x{due.position}" if removed_by else f"d{due.position}.{due.attempts}"
    return record(
        RecordKind.DELIVERIES,
        f"{due.subscription_id}.{due.message_id}.{place}",
        topic_id=topic_id_of(due.subscription_id),
        message_id=due.message_id,
        ordinal=ordinal,
        state=EntryState.BLOCKED.value,
        attempts=due.attempts,
        last_attempt_at=due.last_attempt_at,
        outcome=due.last_outcome,
        position=due.position,
        accepted_at=accepted_at_of(due.message_id),
        expires_at=due.expires_at,
        changed_at=change.changed_at,
        removed_by=removed_by,
    )


def of_lane(change: RowChange) -> Iterator[Record]:
    """Yield a record if the state or the generation of a lane changed. A lane whose row was deleted is active again.

    The deletion of a tombstone, the lane of a deleted subscription, yields nothing.
    """
    before = None if change.before is None else LANES.value_of(change.before)
    after = None if change.after is None else LANES.value_of(change.after)
    if after is None:
        assert before is not None
        if before.state is not LaneState.REMOVED:
            yield _lane(change, before, LaneState.ACTIVE, before)
    elif before is None or (before.state, before.generation) != (after.state, after.generation):
        yield _lane(change, after, after.state, before)


def _lane(change: RowChange, lane: Lane, state: LaneState, before: Lane | None) -> Record:
    return record(
        RecordKind.LANES,
        f"{lane.subscription_id}.{lane.generation}.{lane.claim}.{state.value}",
        topic=lane.topic,
        topic_id=topic_id_of(lane.subscription_id),
        ordinal=ordinal_of(lane.subscription_id),
        state=state.value,
        previous_state=(LaneState.ACTIVE if before is None else before.state).value,
        generation=lane.generation,
        previous_generation=None if before is None else before.generation,
        next_attempt_at=None if state is LaneState.ACTIVE else lane.next_attempt_at,
        changed_at=change.changed_at,
    )


_LEFT_OUT = {each.name for each in fields(SubscriptionSettings) if not each.repr} | {"sealed"}
"""The settings that are not archived: secrets, and the reference to sealed secrets."""
_SETTINGS_COLUMNS = (
    *("filter", "protocol", "endpoint", "strategy", "max_retries", "interval_s", "interval_s_max", "timeout_s"),
    "start_from",
    "unverified",
)
"""The settings with columns of their own, because jobs read them. The column `settings` has all other settings."""


def of_topic(change: RowChange) -> Iterator[Record]:
    """Yield the settings of a topic when it is created or updated."""
    if change.after is None:
        return
    topic, before = TOPICS.value_of(change.after), change.before
    if before is not None and TOPICS.value_of(before).updated_at == topic.updated_at:
        return
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{topic.topic_id}.{topic.updated_at}.topic",
        part="topic",
        topic=topic.name,
        topic_id=topic.topic_id,
        **split_columns(TOPIC_SETTINGS.attributes(topic.settings), ("ordering",), "settings"),
        changed_at=topic.updated_at,
    )


def of_subscription(change: RowChange) -> Iterator[Record]:
    """Yield the record of a new version of a subscription, without secrets, or the record of its deletion."""
    row = change.after or change.before
    assert row is not None
    subscription = SUBSCRIPTIONS.value_of(row)
    removed = change.after is None
    line = record(
        RecordKind.SUBSCRIPTIONS,
        f"{subscription.subscription_id}.{subscription.version}.{'removed' if removed else 'settings'}",
        part="removed" if removed else "settings",
        topic=subscription.topic,
        topic_id=subscription.topic_id,
        subscription=subscription.name,
        ordinal=subscription.ordinal,
        version=subscription.version,
        **_settings_fields(subscription),
        created_at=subscription.created_at,
        changed_at=change.changed_at if removed else subscription.updated_at,
    )
    yield replace(line, is_newly_unverified=not removed and _is_newly_unverified(subscription, change.before))


def _is_newly_unverified(subscription: Subscription, before: Row | None) -> bool:
    """Return whether *subscription* became unverified: its row *before* is None, verified, or of another endpoint."""
    if subscription.settings.unverified is None or before is None:
        return subscription.settings.unverified is not None
    known = SUBSCRIPTIONS.value_of(before).settings
    return known.unverified is None or known.endpoint != subscription.settings.endpoint


def _settings_fields(subscription: Subscription) -> dict[str, Field]:
    """Return the settings of a subscription, without secrets."""
    endpoint = subscription.settings.endpoint
    place = Endpoint(endpoint.protocol, _without_secrets(endpoint))
    chosen = SETTINGS.attributes(replace(subscription.settings, endpoint=place))
    shown = {"endpoint" if name == "target" else name: it for name, it in chosen.items() if name not in _LEFT_OUT}
    return split_columns(shown, _SETTINGS_COLUMNS, "settings")


def _without_secrets(endpoint: Endpoint) -> str:
    """Return the address of an endpoint. The user, path and query of a URL may be secrets and are left out.

    >>> _without_secrets(Endpoint(Protocol.HTTPS, "https://me:word@hooks.test:8443/T0/B1?token=x"))
    'https://hooks.test:8443'
    """
    if endpoint.protocol not in (Protocol.HTTP, Protocol.HTTPS):
        return endpoint.target
    parts = urlsplit(endpoint.target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def of_filter_version(change: RowChange, topic: str) -> Iterator[Record]:
    """Yield the record of a stored version of a filter, with the first topic version that uses it.

    The deletion of a version yields nothing.
    """
    if change.after is None:
        return
    version = FILTER_VERSIONS.value_of(change.after)
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{version.topic_id}.{version.ordinal}.{version.version}.filter",
        part="filter",
        topic=topic,
        topic_id=version.topic_id,
        subscription=version.name,
        ordinal=version.ordinal,
        version=version.version,
        filter=None if version.filter is None else json.dumps(version.filter, sort_keys=True),
        since=version.since,
        changed_at=version.changed_at,
    )


_BY_KIND: Mapping[RowKind, Callable[[RowChange], Iterator[Record]]] = {
    RowKind.ROUND: of_round,
    RowKind.END: of_end,
    RowKind.LATE: of_late,
    RowKind.DUE: of_due,
    RowKind.LANE: of_lane,
    RowKind.TOPIC: of_topic,
    RowKind.SUBSCRIPTION: of_subscription,
}
