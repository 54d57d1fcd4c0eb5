"""Records of the archive, written by hand: each function gives one that breaks no promise by itself."""

from datetime import date
from typing import Any

from glue_jobs.io.arguments import instant_of

DAY = "2026-11-20"
NOON = instant_of(date(2026, 11, 20)) + 12 * 3_600_000
LIFE_MS = 86_400_000
TOPIC_ID = "07529362882576777999"
APPLE = '{"kind": "tags", "tags": ["apple"]}'
PEAR = '{"kind": "tags", "tags": ["pear"]}'
Record = dict[str, Any]


def message_id(number: int, at: int = NOON) -> str:
    return f"{(at << 22) + number:020d}"


def message(
    number: int, topic: str = "fruit", *, at: int = NOON, matched: tuple[int, ...] = (0,), **more: Any
) -> Record:
    known = message_id(number, at)
    return {
        "record_id": f"{topic}.{known}",
        "schema_version": 1,
        "topic": topic,
        "message_id": known,
        "accepted_at": at,
        "expires_at": at + LIFE_MS,
        "tags": ["apple"],
        "subscriptions_version": 1,
        "matched": list(matched),
        "filter_error_count": 0,
        **more,
    }


def end(of: Record, ordinal: int = 0, state: str = "delivered", *, after_ms: int = 50, **more: Any) -> Record:
    at = of["accepted_at"] + after_ms
    attempts = more.pop("attempts", 1 if state == "delivered" else 0)
    tried = {} if not attempts else {"last_attempt_at": at}
    version = more.pop("row_version", 2)
    return {
        "record_id": f"{of['topic']}.{of['message_id']}.{ordinal}.v{version}",
        "schema_version": 1,
        "topic": of["topic"],
        "message_id": of["message_id"],
        "ordinal": ordinal,
        "state": state,
        "attempts": attempts,
        **tried,
        "outcome": "http 200" if state == "delivered" else None,
        "subscriptions_version": 1,
        "accepted_at": of["accepted_at"],
        "expires_at": of["expires_at"],
        "changed_at": at // 1000 * 1000,
        **more,
    }


def added(of: Record, *, version: int = 1) -> Record:
    late = end(of, state="pending", after_ms=90_000, added_at=of["accepted_at"] + 90_000, filter_version=version)
    return {**late, "record_id": f"{of['topic']}.{of['message_id']}.0.l"}


def topic_id(topic: str) -> str:
    return f"{TOPIC_ID}-{topic}"


def wait(
    of: Record, ordinal: int = 0, *, attempts: int = 0, position: int = 0, after_ms: int = 50, **more: Any
) -> Record:
    at = of["accepted_at"] + after_ms
    place = f"{position:020d}"
    return {
        "record_id": f"{topic_id(of['topic'])}.{ordinal}.{of['message_id']}.d{place}.{attempts}",
        "schema_version": 1,
        "topic_id": topic_id(of["topic"]),
        "message_id": of["message_id"],
        "ordinal": ordinal,
        "state": "blocked",
        "attempts": attempts,
        "last_attempt_at": at if attempts else None,
        "outcome": "http 500" if attempts else None,
        "position": place,
        "accepted_at": of["accepted_at"],
        "expires_at": of["expires_at"],
        "changed_at": at // 1000 * 1000,
        **more,
    }


def lane(
    topic: str, at: int, state: str = "blocked", previous: str = "active", generation: int = 1, ordinal: int = 0
) -> Record:
    return {
        "record_id": f"{topic}.{ordinal}.{generation}.0.{state}",
        "schema_version": 1,
        "topic": topic,
        "topic_id": topic_id(topic),
        "ordinal": ordinal,
        "state": state,
        "previous_state": previous,
        "generation": f"{generation:020d}",
        "previous_generation": None
        if previous == "active"
        else f"{generation if state == 'active' else generation - 1:020d}",
        "changed_at": at // 1000 * 1000,
    }


def settings(topic: str = "fruit", ordinal: int = 0, *, at: int = NOON - LIFE_MS, **more: Any) -> Record:
    version = more.pop("version", 1)
    return {
        "record_id": f"{topic}.{ordinal}.{version}.settings",
        "schema_version": 1,
        "part": "settings",
        "topic": topic,
        "topic_id": topic_id(topic),
        "subscription": f"s{ordinal}",
        "ordinal": ordinal,
        "version": version,
        "protocol": "https",
        "endpoint": "https://hooks.test",
        "strategy": "BACKOFF_RETRY",
        "max_retries": 3,
        "interval_s": 60,
        "interval_s_max": 512,
        "timeout_s": 15,
        "content_format": "json",
        "created_at": at,
        "changed_at": at,
        **more,
    }


def filter_version(
    topic: str = "fruit",
    ordinal: int = 0,
    filter: str | None = None,
    since: int = 1,
    version: int = 1,
    at: int = NOON - LIFE_MS,
) -> Record:
    return {
        "record_id": f"{topic}.{ordinal}.{version}.filter",
        "schema_version": 1,
        "part": "filter",
        "topic": topic,
        "subscription": f"s{ordinal}",
        "ordinal": ordinal,
        "version": version,
        "filter": filter,
        "since": since,
        "changed_at": at,
    }


def subscribed(topic: str, ordinal: int = 0, filter: str | None = None, **more: Any) -> list[Record]:
    return [settings(topic, ordinal, **more), filter_version(topic, ordinal, filter)]


def removed(topic: str, at: int, ordinal: int = 0) -> Record:
    return {
        **settings(topic, ordinal),
        "record_id": f"{topic}.{ordinal}.1.removed",
        "part": "removed",
        "changed_at": at,
    }
