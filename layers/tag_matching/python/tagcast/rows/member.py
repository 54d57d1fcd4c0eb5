"""Rows of groups with heartbeats: the members, and the registrations of the groups' subscriptions."""

from __future__ import annotations

from tagcast.membership import Client, Member, Registration
from tagcast.rows.codec import Codec, RowPart, named_part, row_format
from tagcast.rows.keys import member_key, registration_key
from tagcast.tables import ABSENT, Delete, Key, Put, Update

TTL_GRACE_S = 86_400
"""A member's row outlives a silent group by a day, because the group's silence is measured from the last heartbeat."""


MEMBERS = row_format(
    member_key,
    Codec(
        Member,
        {
            "client": RowPart(
                lambda client: {"member_version": client.version},
                lambda row: Client(row["sk"], row["member_version"]),
            )
        },
    ),
    lambda member: {"ttl": member.seen_at // 1000 + member.silence_s + TTL_GRACE_S},
)
REGISTRATIONS = row_format(
    registration_key,
    Codec(
        Registration,
        {
            "group": named_part("name"),
            "client": RowPart(
                lambda client: {"member_id": client.member_id, "member_version": client.version},
                lambda row: Client(row["member_id"], row["member_version"]),
            ),
        },
    ),
)


def member_gone(topic: str, group: str, member: Member) -> Update:
    """Return the write that marks a member as gone. It fails if the member sent a heartbeat after *member* was read."""
    key = member_key(topic, group, member.client.member_id)
    return Update(key, {"is_gone": 1}, expect={"seen_at": member.seen_at})


def member_delete(topic: str, group: str, member: Member) -> Delete:
    """Return the write that deletes a gone member. It fails if the member sent a heartbeat after *member* was read."""
    return Delete(member_key(topic, group, member.client.member_id), {"seen_at": member.seen_at})


def renewal(known: Registration, now: int) -> Update:
    """Return the write that records in the registration *known* that a member joined.

    The write fails if another member joined, or the registration was deleted, after *known* was read.
    """
    return Update(_key(known), {"renewed_at": max(now, known.renewed_at + 1)}, expect={"renewed_at": known.renewed_at})


def registration_delete(registration: Registration) -> Delete:
    """Return the write that deletes a registration. It fails if a member joined after *registration* was read."""
    return Delete(_key(registration), {"renewed_at": registration.renewed_at})


def registration_put(registration: Registration) -> Put:
    """Return the write that registers a subscription at its first heartbeat. The write fails if the row exists."""
    named = (registration.topic, registration.group, registration.subscription)
    return REGISTRATIONS.put(registration, *named, expect={"pk": ABSENT})


def registration_deletes(topic: str, subscription: str) -> tuple[Delete, ...]:
    """Return the writes that delete the registration of *subscription*, if it has one.

    The name may be that of a group or, as ``GROUP-SUFFIX``, that of one broadcasting member. Both keys are deleted.
    """
    group = subscription.rpartition("-")[0]
    return tuple(Delete(registration_key(topic, each, subscription)) for each in (subscription, group) if each)


def _key(registration: Registration) -> Key:
    return registration_key(registration.topic, registration.group, registration.subscription)
