"""Rows of groups: the members of each, and which subscriptions heartbeats made."""

from __future__ import annotations

from tagcast.membership import Member, Registration
from tagcast.rows.declaration import Declaration, Fields, InKey, Written, attribute
from tagcast.rows.keys import member_key, registration_key
from tagcast.tables import Delete, Key, Update

TTL_GRACE_S = 86_400
"""A member's row outlives its group by a day, because it says when the member was last seen."""


MEMBERS = Declaration(
    Member,
    member_key,
    "what a consumer of a group said last; `digest` stands for the filter that it wants",
    "a day after its group may go for silence",
    "manage (heartbeats); sweep says who is gone",
    client=Fields(client_id=InKey("sk"), version=attribute(named="client_version")),
    ttl=Written(lambda member: member.seen_at // 1000 + member.silence_s + TTL_GRACE_S),
)
REGISTRATIONS = Declaration(
    Registration,
    registration_key,
    "that heartbeats made this version of a subscription",
    "with the subscription, or when somebody changed that",
    "manage (the heartbeat that makes it, and each that joins); removed by sweep",
    group=attribute(named="name"),
    client=Fields(version=attribute(named="client_version")),
)


def member_gone(topic: str, group: str, member: Member) -> Update:
    """Return the write after which a member is gone, unless it has spoken since it was read."""
    key = member_key(topic, group, member.client.client_id)
    return Update(key, {"is_gone": 1}, expect={"seen_at": member.seen_at})


def renewal(known: Registration, now: int) -> Update:
    """Return the write that says that somebody joined, unless others did, or the group went, since *known* was read."""
    return Update(_key(known), {"renewed_at": max(now, known.renewed_at + 1)}, expect={"renewed_at": known.renewed_at})


def registration_delete(registration: Registration) -> Delete:
    """Return the write that forgets what a heartbeat made, unless somebody joined since it was read."""
    return Delete(_key(registration), {"renewed_at": registration.renewed_at})


def _key(registration: Registration) -> Key:
    return registration_key(registration.topic, registration.group, registration.subscription)
