"""Rows of groups: the members of each, and which subscriptions heartbeats made."""

from __future__ import annotations

from tagcast.membership import Client, Member, Mode, Registration
from tagcast.rows.keys import member_key, registration_key
from tagcast.rows.values import number, text
from tagcast.tables import Delete, Key, Put, Row, Update, Value

TTL_GRACE_S = 86_400
"""A member's row outlives its group by a day, because it says when the member was last seen."""


def member_put(topic: str, group: str, member: Member) -> Put:
    """Return the write of a member, in place of what it said before."""
    row: dict[str, Value] = {
        "client_version": member.client.version,
        "digest": member.digest,
        "joined_at": member.joined_at,
        "seen_at": member.seen_at,
        "silence_s": member.silence_s,
        "ttl": member.seen_at // 1000 + member.silence_s + TTL_GRACE_S,
    }
    if member.is_ordered:
        row["is_ordered"] = 1
    return Put(member_key(topic, group, member.client.client_id), row)


def member_of(row: Row) -> Member:
    """Return the member in a row."""
    return Member(
        client=Client(text(row, "sk"), text(row, "client_version")),
        digest=text(row, "digest"),
        joined_at=number(row, "joined_at"),
        seen_at=number(row, "seen_at"),
        silence_s=number(row, "silence_s"),
        is_gone="is_gone" in row,
        is_ordered="is_ordered" in row,
    )


def member_gone(topic: str, group: str, member: Member) -> Update:
    """Return the write after which a member is gone, unless it has spoken since it was read."""
    key = member_key(topic, group, member.client.client_id)
    return Update(key, {"is_gone": 1}, expect={"seen_at": member.seen_at})


def registration_put(registration: Registration) -> Put:
    """Return the write that lists a subscription as made by a heartbeat."""
    return Put(_key(registration), registration_row(registration))


def renewal(known: Registration, now: int) -> Update:
    """Return the write that says that somebody joined, unless others did, or the group went, since *known* was read."""
    return Update(_key(known), {"renewed_at": max(now, known.renewed_at + 1)}, expect={"renewed_at": known.renewed_at})


def registration_row(registration: Registration) -> Row:
    """Return the row of a registration."""
    return {
        "topic": registration.topic,
        "name": registration.group,
        "subscription": registration.subscription,
        "mode": registration.mode.value,
        "client_id": registration.client.client_id,
        "client_version": registration.client.version,
        "version": registration.version,
        "silence_s": registration.silence_s,
        "renewed_at": registration.renewed_at,
    }


def registration_of(row: Row) -> Registration:
    """Return the registration in a row."""
    return Registration(
        topic=text(row, "topic"),
        group=text(row, "name"),
        subscription=text(row, "subscription"),
        mode=Mode(text(row, "mode")),
        client=Client(text(row, "client_id"), text(row, "client_version")),
        version=number(row, "version"),
        silence_s=number(row, "silence_s"),
        renewed_at=number(row, "renewed_at"),
    )


def registration_delete(registration: Registration) -> Delete:
    """Return the write that forgets what a heartbeat made, unless somebody joined since it was read."""
    return Delete(_key(registration), {"renewed_at": registration.renewed_at})


def _key(registration: Registration) -> Key:
    return registration_key(registration.topic, registration.group, registration.subscription)
