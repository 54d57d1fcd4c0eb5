"""The one codec between values and rows of the two tables: only this module knows attribute names (architecture §2)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from tagcast import ordinals
from tagcast.model import (
    ContentFormat,
    Draft,
    Endpoint,
    Entry,
    EntryState,
    Message,
    Ordering,
    Protocol,
    RetryPolicy,
    Strategy,
    Subscription,
    Topic,
)
from tagcast.ports import Row, Value
from tagcast.recent_changes import recent_of
from tagcast.state_map import StateMap

WAKE_SHARDS = 8
GARBAGE_S = 3 * 86_400
TOMBSTONE_S = 86_400 + 4 * 86_400 + GARBAGE_S
OUTCOME_CHARACTERS_MAX = 200
FILTER_ERROR_NAMES_MAX = 100
CONTENT_ATTRIBUTES = ("body",)


def _text(row: Row, name: str) -> str:
    return cast("str", row[name])


def _number(row: Row, name: str) -> int:
    return cast("int", row[name])


def _optional_text(row: Row, name: str) -> str | None:
    return cast("str | None", row.get(name))


def _optional_number(row: Row, name: str) -> int | None:
    return cast("int | None", row.get(name))


def _dense(row: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in row.items() if value is not None}


def topic_row(topic: Topic) -> Row:
    """Return the row of a topic."""
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "retention_s": topic.retention_s,
        "body_bytes_max": topic.body_bytes_max,
        "ordering": topic.ordering.value,
        "created_at": topic.created_at,
        "updated_at": topic.updated_at,
        "subscriptions_version": topic.subscriptions_version,
        "subscription_count": topic.subscription_count,
        "next_ordinal": topic.next_ordinal,
    }


def topic_of(row: Row) -> Topic:
    """Return the topic in a row."""
    return Topic(
        name=_text(row, "topic"),
        topic_id=_text(row, "topic_id"),
        retention_s=_number(row, "retention_s"),
        body_bytes_max=_number(row, "body_bytes_max"),
        ordering=Ordering(_text(row, "ordering")),
        created_at=_number(row, "created_at"),
        updated_at=_number(row, "updated_at"),
        subscriptions_version=_number(row, "subscriptions_version"),
        subscription_count=_number(row, "subscription_count"),
        next_ordinal=_number(row, "next_ordinal"),
        recent=recent_of(row),
    )


def subscription_row(subscription: Subscription) -> Row:
    """Return the row of a subscription; the archive leaves ``secret`` out."""
    return _dense(
        {
            "topic": subscription.topic,
            "name": subscription.name,
            "topic_id": subscription.topic_id,
            "ordinal": subscription.ordinal,
            "protocol": subscription.endpoint.protocol.value,
            "target": subscription.endpoint.target,
            "filter": None if subscription.filter is None else json.dumps(subscription.filter, sort_keys=True),
            "strategy": subscription.retry.strategy.value,
            "max_retries": subscription.retry.max_retries,
            "interval_s": subscription.retry.interval_s,
            "interval_s_max": subscription.retry.interval_s_max,
            "timeout_s": subscription.timeout_s,
            "content_format": subscription.content_format.value,
            "secret": subscription.secret,
            "version": subscription.version,
            "created_at": subscription.created_at,
            "updated_at": subscription.updated_at,
        }
    )


def subscription_of(row: Row) -> Subscription:
    """Return the subscription in a row."""
    filter_text = _optional_text(row, "filter")
    return Subscription(
        topic=_text(row, "topic"),
        name=_text(row, "name"),
        topic_id=_text(row, "topic_id"),
        ordinal=_number(row, "ordinal"),
        endpoint=Endpoint(Protocol(_text(row, "protocol")), _text(row, "target")),
        filter=None if filter_text is None else json.loads(filter_text),
        retry=RetryPolicy(
            strategy=Strategy(_text(row, "strategy")),
            max_retries=_number(row, "max_retries"),
            interval_s=_optional_number(row, "interval_s"),
            interval_s_max=_number(row, "interval_s_max"),
        ),
        timeout_s=_number(row, "timeout_s"),
        content_format=ContentFormat(_text(row, "content_format")),
        secret=_optional_text(row, "secret"),
        version=_number(row, "version"),
        created_at=_number(row, "created_at"),
        updated_at=_number(row, "updated_at"),
    )


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message with its state map, as one row; *version* is raised by every write."""

    message: Message
    map: StateMap
    subscriptions_version: int
    version: int
    filter_errors: tuple[str, ...] = ()
    filter_error_count: int = 0
    has_body: bool = True

    def settled(self, entries: Mapping[int, Entry], *, round_at: int | None = None) -> MessageRow:
        """Return the row after *entries* became terminal; the body goes with the last of them."""
        after = self.map.settle(entries, round_at=round_at)
        return replace(self, map=after, version=self.version + 1, has_body=self.has_body and after.pending > 0)


def message_row(value: MessageRow) -> Row:
    """Return the whole row of a message as it is accepted."""
    message, draft = value.message, value.message.draft
    return _dense(
        {
            "topic": message.topic,
            "message_id": message.message_id,
            "body": draft.body if value.has_body else None,
            "is_text": int(draft.is_text),
            "tags": list(draft.tags) or None,
            "routing_key": draft.routing_key,
            "properties": dict(draft.properties) or None,
            "ordering_key": draft.ordering_key,
            "content_type": draft.content_type,
            "accepted_at": message.accepted_at,
            "expires_at": message.expires_at,
            "replay_of": message.replay_of,
            "subscriptions_version": value.subscriptions_version,
            "filter_errors": list(value.filter_errors[:FILTER_ERROR_NAMES_MAX]) or None,
            "filter_error_count": value.filter_error_count or None,
            "ttl": message.expires_at // 1000 + GARBAGE_S,
            **map_attributes(value),
        }
    )


def map_attributes(value: MessageRow) -> dict[str, Value]:
    """Return the attributes that change while a message is delivered."""
    state_map = value.map
    delivered = sorted(state_map.finishes)
    return _dense(
        {
            "matched": ordinals.pack(state_map.matched),
            "owed": ordinals.pack(state_map.owed) if state_map.owed else None,
            "pending": state_map.pending,
            "round": "open" if state_map.round_open else "done",
            "round_at": state_map.round_at,
            "finished": ordinals.pack(delivered) if delivered else None,
            "finishes": struct.pack(f">{len(delivered)}H", *(state_map.finishes[o] for o in delivered))
            if delivered
            else None,
            "exceptions": _entries_text(state_map.settled) if state_map.settled else None,
            "version": value.version,
        }
    )


def map_removals(value: MessageRow) -> tuple[str, ...]:
    """Return the attributes that have to go when *value* is written over an older version of its row."""
    gone = () if value.map.owed else ("owed",)
    return gone if value.has_body else (*gone, *CONTENT_ATTRIBUTES)


def _entries_text(entries: Mapping[int, Entry]) -> str:
    compact = {
        str(ordinal): [entry.state.value, entry.attempts, entry.last_attempt_at, bounded(entry.last_outcome)]
        for ordinal, entry in sorted(entries.items())
    }
    return json.dumps(compact, separators=(",", ":"))


def _entries_of(text: str | None) -> dict[int, Entry]:
    if text is None:
        return {}
    return {
        int(ordinal): Entry(EntryState(state), attempts, last_attempt_at, last_outcome)
        for ordinal, (state, attempts, last_attempt_at, last_outcome) in json.loads(text).items()
    }


def bounded(outcome: str | None) -> str | None:
    """Return an outcome that is short enough to be kept.

    >>> bounded("x" * 300)[-3:], bounded(None)
    ('xx…', None)
    """
    if outcome is None or len(outcome) <= OUTCOME_CHARACTERS_MAX:
        return outcome
    return outcome[: OUTCOME_CHARACTERS_MAX - 1] + "…"


def message_row_of(row: Row) -> MessageRow:
    """Return the message and state map in a row."""
    body = cast("bytes | None", row.get("body"))
    draft = Draft(
        body=body or b"",
        is_text=bool(row["is_text"]),
        tags=tuple(cast("Iterable[str]", row.get("tags") or ())),
        routing_key=_optional_text(row, "routing_key"),
        properties=cast("Mapping[str, str]", row.get("properties") or {}),
        ordering_key=_optional_text(row, "ordering_key"),
        content_type=_optional_text(row, "content_type"),
    )
    message = Message(
        topic=_text(row, "topic"),
        message_id=_text(row, "message_id"),
        draft=draft,
        accepted_at=_number(row, "accepted_at"),
        expires_at=_number(row, "expires_at"),
        replay_of=_optional_text(row, "replay_of"),
    )
    delivered = sorted(ordinals.unpack(cast("bytes", row["finished"]))) if row.get("finished") else []
    offsets = struct.unpack(f">{len(delivered)}H", cast("bytes", row.get("finishes") or b""))
    return MessageRow(
        message=message,
        map=StateMap(
            matched=ordinals.unpack(cast("bytes", row["matched"])),
            owed=ordinals.unpack(cast("bytes", row["owed"])) if row.get("owed") else frozenset(),
            round_open=row["round"] == "open",
            round_at=_optional_number(row, "round_at"),
            finishes=dict(zip(delivered, offsets, strict=True)),
            settled=_entries_of(_optional_text(row, "exceptions")),
        ),
        subscriptions_version=_number(row, "subscriptions_version"),
        version=_number(row, "version"),
        filter_errors=tuple(cast("Iterable[str]", row.get("filter_errors") or ())),
        filter_error_count=_optional_number(row, "filter_error_count") or 0,
        has_body=body is not None,
    )
