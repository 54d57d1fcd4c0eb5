"""The use case of publishing: accept messages, decide who is owed them, store both in one write, queue them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import cast

from tagcast.directory import Snapshot, snapshot
from tagcast.errors import ConditionLostError, ConflictError, Fault, TooLargeError
from tagcast.keys import claim_key, message_key
from tagcast.model import Draft, Message, Ordering, Topic
from tagcast.ports import ABSENT, Expectation, Put, QueueEntry, Row, World
from tagcast.rows import FILTER_ERROR_NAMES_MAX, MessageRow, message_row, message_row_of
from tagcast.shadowing import observe
from tagcast.state_map import StateMap

IDEMPOTENCY_S = 300


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a producer: who the message is, how long it lives, how many subscriptions it matched."""

    message_id: str
    accepted_at: int
    expires_at: int
    matched: int


@dataclass(frozen=True, slots=True)
class Original:
    """An archived message that is to be published again, with the id that it had."""

    draft: Draft
    message_id: str


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A producer's key for one request and the digest of what it asked for."""

    key: str
    fingerprint: str


def check_draft(topic: Topic, draft: Draft) -> Fault | None:
    """Return what is wrong with *draft* for *topic*, if anything: its body may be too large."""
    if len(draft.body) <= topic.body_bytes_max:
        return None
    return Fault(f"the body has {len(draft.body)} bytes; the topic allows {topic.body_bytes_max}", "/body")


def publish(
    world: World, topic: str, drafts: Sequence[Draft], idempotency: Idempotency | None = None
) -> tuple[Accepted, ...]:
    """Accept every draft, in order, or raise before anything is stored.

    Raises NotFoundError, TooLargeError, or ConflictError when the idempotency key was used for another request.
    A message is accepted once its row is written; a queue that fails now is repaired by the relay.
    """
    return _accept_all(world, snapshot(world, topic), [(draft, None) for draft in drafts], idempotency)


def replay(
    world: World,
    topic: str,
    subscription: str,
    originals: Sequence[Original],
    idempotency: Idempotency | None = None,
) -> tuple[Accepted, ...]:
    """Publish archived messages again, for one subscription: as new messages with ids and lives of their own.

    Its filter of now decides, as for any message; where it does not match, the receipt says that nobody is owed it.
    Raises as :func:`publish` does, and NotFoundError for the subscription.
    """
    directory = snapshot(world, topic).only(subscription)
    offers = [(original.draft, original.message_id) for original in originals]
    return _accept_all(world, directory, offers, idempotency)


def _accept_all(
    world: World, directory: Snapshot, offers: Sequence[tuple[Draft, str | None]], idempotency: Idempotency | None
) -> tuple[Accepted, ...]:
    """Accept each draft, with the id of the message that it replays, if any."""
    for draft, _ in offers:
        fault = check_draft(directory.topic, draft)
        if fault is not None:
            raise TooLargeError(fault.detail)
    answers, entries, rows = [], [], []
    for place, (draft, replay_of) in enumerate(offers):
        claim = None if idempotency is None else Idempotency(f"{idempotency.key}#{place}", idempotency.fingerprint)
        accepted, row = _accept(world, directory, draft, replay_of, claim)
        answers.append(accepted)
        if row is None:
            continue
        rows.append(row)
        if row.map.pending:
            entries.append(_queue_entry(directory.topic, row.message))
    if entries:
        lost = world.queue.send(entries)
        if lost:
            world.journal.count("QueueSendsLeftToRelay", len(lost))
    if directory.shadows and rows:
        observe(world, directory.shadows, rows)
    return tuple(answers)


def _accept(
    world: World, directory: Snapshot, draft: Draft, replay_of: str | None, claim: Idempotency | None
) -> tuple[Accepted, MessageRow | None]:
    """Return the answer, and the message's row unless an earlier request had it accepted."""
    while True:
        now = world.clock.now()
        earlier = None if claim is None else world.store.get(claim_key(directory.topic.name, claim.key))
        if claim is not None and earlier is not None and _is_live(earlier, now):
            return _repeated(earlier, claim), None
        row = _new_row(world, directory, draft, replay_of, now)
        message = row.message
        accepted = Accepted(message.message_id, message.accepted_at, message.expires_at, row.map.pending)
        put = Put(message_key(message.topic, message.message_id), message_row(row), {"pk": ABSENT})
        try:
            if claim is None:
                world.store.write(put)
            else:
                world.store.transact((put, _claim(claim, accepted, message.topic, now, earlier)))
        except ConditionLostError:
            if claim is not None or not _is_stored(world, message):
                continue
        if row.filter_error_count:
            world.journal.filter_failed(message.topic, row.filter_errors)
        return accepted, row


def _is_stored(world: World, message: Message) -> bool:
    """Say whether a lost condition was only the answer to our own write, which the SDK sent twice.

    The body may be gone already, because everybody got the message. Another message under this id is not ours.
    """
    stored = world.store.get(message_key(message.topic, message.message_id))
    if stored is None:
        return False
    found = message_row_of(stored)
    body = message.draft.body if found.has_body else b""
    return found.message == replace(message, draft=replace(message.draft, body=body))


def _queue_entry(topic: Topic, message: Message) -> QueueEntry:
    group = queue_group(topic.ordering, topic.name, message.message_id, message.ordering_key)
    return QueueEntry(topic.name, message.message_id, group)


def _new_row(world: World, directory: Snapshot, draft: Draft, replay_of: str | None, now: int) -> MessageRow:
    topic = directory.topic
    message = Message(
        topic=topic.name,
        message_id=world.dice.unique_id(now),
        draft=draft,
        accepted_at=now,
        expires_at=now + round(topic.retention_s * 1000 / world.time_scale),
        replay_of=replay_of,
    )
    matched = directory.match(message)
    failed = [directory.by_ordinal[ordinal].name for ordinal in matched.errors[:FILTER_ERROR_NAMES_MAX]]
    return MessageRow(
        message=message,
        map=StateMap.of(matched.ordinals),
        subscriptions_version=topic.subscriptions_version,
        version=1,
        filter_errors=tuple(failed),
        filter_error_count=len(matched.errors),
        has_body=bool(matched.ordinals),
    )


def _is_live(claim: Row, now: int) -> bool:
    return cast("int", claim["expires_at"]) > now


def _repeated(row: Row, claim: Idempotency) -> Accepted:
    if row["fingerprint"] != claim.fingerprint:
        raise ConflictError("this Idempotency-Key was used for a different request within the last 5 minutes")
    return Accepted(
        message_id=cast("str", row["message_id"]),
        accepted_at=cast("int", row["accepted_at"]),
        expires_at=cast("int", row["message_expires_at"]),
        matched=cast("int", row["matched"]),
    )


def _claim(claim: Idempotency, accepted: Accepted, topic: str, now: int, earlier: Row | None) -> Put:
    expires_at = now + IDEMPOTENCY_S * 1000
    row: Row = {
        "fingerprint": claim.fingerprint,
        "message_id": accepted.message_id,
        "accepted_at": accepted.accepted_at,
        "message_expires_at": accepted.expires_at,
        "matched": accepted.matched,
        "expires_at": expires_at,
        "ttl": expires_at // 1000 + 1,
    }
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier["message_id"]}
    return Put(claim_key(topic, claim.key), row, expect)


def queue_group(ordering: Ordering, topic: str, message_id: str, ordering_key: str | None) -> str:
    """Return the queue's message group: one order per group (architecture §2).

    >>> queue_group(Ordering.TOPIC, "t", "1", "k") == queue_group(Ordering.TOPIC, "t", "2", None)
    True
    >>> queue_group(Ordering.KEY, "t", "1", "k") == queue_group(Ordering.KEY, "t", "2", "k")
    True
    >>> queue_group(Ordering.KEY, "t", "1", None) == queue_group(Ordering.KEY, "t", "2", None)
    False
    """
    if ordering is Ordering.TOPIC:
        return _digest(topic)
    if ordering is Ordering.KEY and ordering_key is not None:
        return _digest(f"{topic}\x00{ordering_key}")
    return message_id


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
