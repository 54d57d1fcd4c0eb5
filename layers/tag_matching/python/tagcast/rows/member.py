"""Rows of groups: their members, and the subscriptions that heartbeats created."""

from __future__ import annotations

from tagcast.membership import Client, Member, Mode, Registration
from tagcast.rows.keys import member_key, registration_key
from tagcast.rows.kind import Attributes, RowFormat
from tagcast.rows.values import dense
from tagcast.tables import ABSENT, Delete, Key, Put, Update, Value

TTL_GRACE_S = 86_400
"""A member's row outlives its group by a day, so that the group's silence is measured from its last heartbeat."""


def _member_row(member: Member) -> dict[str, Value]:
    return dense(
        {
            "member_version": member.client.version,
            "digest": member.digest,
            "joined_at": member.joined_at,
            "seen_at": member.seen_at,
            "silence_s": member.silence_s,
            "is_gone": 1 if member.is_gone else None,
            "is_ordered": 1 if member.is_ordered else None,
            "is_refused": 1 if member.is_refused else None,
            "ttl": member.seen_at // 1000 + member.silence_s + TTL_GRACE_S,
        }
    )


def _member_in(row: Attributes) -> Member:
    return Member(
        client=Client(row["sk"], row["member_version"]),
        digest=row["digest"],
        joined_at=row["joined_at"],
        seen_at=row["seen_at"],
        silence_s=row["silence_s"],
        is_gone="is_gone" in row,
        is_ordered="is_ordered" in row,
        is_refused="is_refused" in row,
    )


MEMBERS = RowFormat(member_key, _member_row, _member_in)


def _registration_row(registration: Registration) -> dict[str, Value]:
    return {
        "topic": registration.topic,
        "name": registration.group,
        "subscription": registration.subscription,
        "mode": registration.mode.value,
        "member_id": registration.client.member_id,
        "member_version": registration.client.version,
        "version": registration.version,
        "silence_s": registration.silence_s,
        "renewed_at": registration.renewed_at,
    }


def _registration_in(row: Attributes) -> Registration:
    return Registration(
        topic=row["topic"],
        group=row["name"],
        subscription=row["subscription"],
        mode=Mode(row["mode"]),
        client=Client(row["member_id"], row["member_version"]),
        version=row["version"],
        silence_s=row["silence_s"],
        renewed_at=row["renewed_at"],
    )


REGISTRATIONS = RowFormat(registration_key, _registration_row, _registration_in)


def member_gone(topic: str, group: str, member: Member) -> Update:
    """Return the write that marks a member as gone, unless a heartbeat came since the read."""
    key = member_key(topic, group, member.client.member_id)
    return Update(key, {"is_gone": 1}, expect={"seen_at": member.seen_at})


def member_delete(topic: str, group: str, member: Member) -> Delete:
    """Return the write that deletes a gone member, unless a heartbeat came since the read."""
    return Delete(member_key(topic, group, member.client.member_id), {"seen_at": member.seen_at})


def renewal(known: Registration, now: int) -> Update:
    """Return the write that records a new member. It fails if another joined or the group was deleted since *known*."""
    return Update(_key(known), {"renewed_at": max(now, known.renewed_at + 1)}, expect={"renewed_at": known.renewed_at})


def registration_delete(registration: Registration) -> Delete:
    """Return the write that deletes a registration, unless a member joined since the read."""
    return Delete(_key(registration), {"renewed_at": registration.renewed_at})


def registration_put(registration: Registration) -> Put:
    """Return the write of the first *registration* of an existing subscription."""
    named = (registration.topic, registration.group, registration.subscription)
    return REGISTRATIONS.put(registration, *named, expect={"pk": ABSENT})


def registration_deletes(topic: str, subscription: str) -> tuple[Delete, ...]:
    """Return the writes that delete the registrations of a subscription, of either mode."""
    group = subscription.rpartition("-")[0]
    return tuple(Delete(registration_key(topic, each, subscription)) for each in (subscription, group) if each)


def _key(registration: Registration) -> Key:
    return registration_key(registration.topic, registration.group, registration.subscription)
