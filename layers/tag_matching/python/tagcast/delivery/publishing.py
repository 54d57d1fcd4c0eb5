"""The publish use case: accept messages, match them, store each message and its matches in one write, and queue it.

See docs/protocol.md, Publishing, and docs/semantics.md, Idempotency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tagcast.concurrency.contention import until_won
from tagcast.delivery.queueing import pack_entries
from tagcast.errors import (
    ConditionLostError,
    ConflictError,
    Fault,
    FaultCode,
    TooLargeError,
    UnavailableError,
    UnmatchedError,
)
from tagcast.instant import rfc3339
from tagcast.model import Draft, Keep, Message, Topic
from tagcast.ports import World
from tagcast.queues import queue_group
from tagcast.registry.directory import Directory, publishing_directory
from tagcast.registry.shadowing import observe
from tagcast.rows import stored
from tagcast.rows.claim import CLAIM_ROWS, Accepted, Claim, claim_put
from tagcast.rows.keys import claim_key
from tagcast.rows.message import FILTER_ERROR_NAMES_MAX, MessageRow, bounds_of, may_outgrow, outgrows
from tagcast.rows.message_transitions import accepted_put
from tagcast.rows.state_map import StateMap

QUEUE_RETRY_AFTER_S = 5
"""The Retry-After in seconds if the queue refused an ordered message. A queue that fails rarely recovers within 1 s."""


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The *key* under which a message is claimed, and the *fingerprint*, a digest of the request.

    For a producer, *key* is the Idempotency-Key followed by the message's index in the request. If the service itself
    publishes, *key* has no index.
    """

    key: str
    fingerprint: str

    def at(self, place: int) -> Idempotency:
        """Return the claim of the message at *place* in a request. Each message of a batch has a claim of its own.

        The key of the service's own claim never ends with a place, so it never equals the key of a producer.

        >>> Idempotency("k", "f").at(2)
        Idempotency(key='k#2', fingerprint='f')
        """
        return Idempotency(f"{self.key}#{place}", self.fingerprint)


def is_live(claim: Claim, now: int) -> bool:
    """Return whether a repeated request still gets the answer of this claim, because its message has not expired."""
    return claim.accepted.expires_at > now


def is_accepted(world: World, topic: Topic, claim: Idempotency) -> bool:
    """Return whether an earlier request with this claim was accepted.

    A repetition of that request gets the same answer, even if the topic's settings no longer allow the message.
    """
    known = CLAIM_ROWS.read(world.store, topic.topic_id, claim.key)
    return known is not None and is_live(known, world.clock.now())


def answer_again(known: Claim, claim: Idempotency) -> Accepted:
    """Return the answer that the first request with this key got.

    *known* is the stored claim of the first request. Raises ConflictError if *claim* is the claim of a different
    request.
    """
    if known.fingerprint != claim.fingerprint:
        until = rfc3339(known.accepted.expires_at)
        raise ConflictError(f"this Idempotency-Key was used for a different request, and is remembered until {until}")
    return replace(known.accepted, is_replay=True)


@dataclass(frozen=True, slots=True)
class ArchivedOriginal:
    """An archived message to publish again: its contents as *draft*, and the original's *message_id*."""

    draft: Draft
    message_id: str


@dataclass(frozen=True, slots=True)
class _AcceptedDraft:
    """The result for one draft: the answer, the row (None if it was deleted since), and whether this call stored it."""

    accepted: Accepted
    row: MessageRow | None
    is_new: bool


def check_draft(world: World, topic: Topic, draft: Draft, claim: Idempotency | None) -> Fault | None:
    """Return a fault if the body is too large for *topic*; None if it fits, or if *claim* was accepted before."""
    if len(draft.body) <= topic.settings.body_bytes_max or (claim is not None and is_accepted(world, topic, claim)):
        return None
    return Fault(
        f"the body has {len(draft.body)} bytes; the topic allows {topic.settings.body_bytes_max}",
        "/body",
        FaultCode.TOO_LARGE,
    )


def publish(
    world: World, topic: str, drafts: Sequence[Draft], claims: Sequence[Idempotency | None] = ()
) -> tuple[Accepted, ...]:
    """Accept every draft; return the answers, in order.

    *claims* is empty, or has an item (a claim or None) for each draft. Raises NotFoundError, TooLargeError, and
    ConflictError for an idempotency key of another request. These errors come before anything is stored, unless two
    requests use one key at the same time. Raises UnavailableError, after storing, if the queue did not accept every
    ordered message.

    The order of a topic (or of an ordering key) is the order in which the queue first accepted its messages. So an
    ordered message is acknowledged only after the queue accepted it. After an error, stored messages may be delivered
    after messages that were acknowledged later. If a request repeats an idempotency key, this function sends every
    message with an open first round again. The queue drops repetitions within five minutes. After that time, a message
    may be in the queue twice; fan-out skips a message whose first round is over.
    """
    return _accept_all(world, publishing_directory(world, topic), [(draft, None) for draft in drafts], claims)


def publish_by_relay(world: World, topic: str, draft: Draft, claim: Idempotency) -> None:
    """Store a message like :func:`publish`, but let the relay send it to the queue.

    Functions that push have no permission to send to the service's own queue. Otherwise a subscription with this queue
    as its endpoint could write there. The message waits for the table's stream, usually less than a second.
    """
    _accept_all(world, publishing_directory(world, topic), [(draft, None)], (claim,), is_queued=False)


def publish_matched(world: World, topic: str, drafts: Sequence[Draft]) -> tuple[Accepted, ...]:
    """Accept every draft like :func:`publish`. Raise UnmatchedError and accept none if any draft is unmatched."""
    directory = publishing_directory(world, topic)
    _check_sizes(world, directory, drafts, ())
    for draft in drafts:
        if not _new_row(world, directory, draft, None, world.clock.now()).map.pending_count:
            raise UnmatchedError(len(directory.by_ordinal))
    return _accept_all(world, directory, [(draft, None) for draft in drafts])


def replay(
    world: World,
    topic: str,
    subscription: str,
    originals: Sequence[ArchivedOriginal],
    claims: Sequence[Idempotency | None] = (),
) -> tuple[Accepted, ...]:
    """Publish archived messages again for one subscription, as new messages with new ids and lives.

    The subscription's current filter decides. If this filter does not match, the receipt shows no delivery. Raises the
    errors of :func:`publish`, and NotFoundError if the subscription does not exist.
    """
    directory = publishing_directory(world, topic).only(subscription)
    offers = [(original.draft, original.message_id) for original in originals]
    return _accept_all(world, directory, offers, claims)


def _accept_all(
    world: World,
    directory: Directory,
    offers: Sequence[tuple[Draft, str | None]],
    claims: Sequence[Idempotency | None] = (),
    *,
    is_queued: bool = True,
) -> tuple[Accepted, ...]:
    """Accept each draft in *offers*. A replay comes with the id of its original. Queue all if *is_queued*."""
    _check_sizes(world, directory, [draft for draft, _ in offers], claims)
    _check_claims(world, directory.topic, claims)
    taken: list[_AcceptedDraft] = []
    lost = 0
    try:
        for place, (draft, replay_of) in enumerate(offers):
            claim = claims[place] if claims else None
            carrying = partial(_carrying, directory.topic, taken, len(offers))
            taken.append(_accept(world, directory, draft, replay_of, claim, carrying))
    finally:  # Also after an error, because no row has the queue entries of the messages stored so far.
        if is_queued:
            lost = _queue(world, directory.topic, [each.row for each in taken if each.row is not None])
    rows = [each.row for each in taken if each.row is not None and each.is_new]
    if directory.shadows and rows:
        observe(world, directory.shadows, rows)
    if lost:
        detail = f"the queue did not accept {lost} of {len(offers)} messages in order; try again"
        raise UnavailableError(detail, QUEUE_RETRY_AFTER_S)
    return tuple(each.accepted for each in taken)


def _check_sizes(
    world: World, directory: Directory, drafts: Sequence[Draft], claims: Sequence[Idempotency | None]
) -> None:
    for place, draft in enumerate(drafts):
        claim = claims[place] if claims else None
        if (fault := check_draft(world, directory.topic, draft, claim)) is not None:
            raise TooLargeError(fault.detail)
        if may_outgrow(directory.topic, draft.body):
            row = _new_row(world, directory, draft, None, world.clock.now())
            if outgrows(row) and (claim is None or not is_accepted(world, directory.topic, claim)):
                raise TooLargeError(
                    f"the message with its {row.map.pending_count} matching subscriptions is too large to store"
                )


def _check_claims(world: World, topic: Topic, claims: Sequence[Idempotency | None]) -> None:
    """Raise ConflictError if one of several claims belongs to another request, before any message is stored.

    A single message is not checked here, because its write checks the claim.
    """
    claims_by_key = {claim_key(topic.topic_id, claim.key): claim for claim in claims if claim is not None}
    if len(claims_by_key) < 2:
        return
    now = world.clock.now()
    for key, row in world.store.get_many(tuple(claims_by_key)).items():
        if is_live(known := CLAIM_ROWS.value_of(row), now):
            answer_again(known, claims_by_key[key])


def _queue(world: World, topic: Topic, rows: Sequence[MessageRow]) -> int:
    """Send the messages whose first round is open; return how many ordered messages the queue did not accept."""
    waiting = [row for row in rows if row.map.waiting]
    if not waiting:
        return 0
    lost = world.queue.send(pack_entries(topic.settings.ordering, waiting))
    if lost:
        named = {message_id for entry in lost for message_id in entry.message_ids}
        world.telemetry.count("QueueSendsLeftToRelay", len(named))
    return len({message_id for entry in lost if entry.has_order for message_id in entry.message_ids})


def _carrying(topic: Topic, taken: Sequence[_AcceptedDraft], size: int, row: MessageRow) -> MessageRow:
    """Return *row* with queue entries: the last row of a request of *size* messages has the entries of all messages.

    The relay reads the rows one by one. With these entries it sends the same entries as the publisher, and the queue
    drops the repetition.
    """
    if size == 1:
        return row
    if len(taken) + 1 < size:
        return replace(row, is_alone=False)
    rows = [each.row for each in taken if each.row is not None]
    packs = pack_entries(topic.settings.ordering, [each for each in (*rows, row) if each.map.waiting])
    return replace(row, is_alone=False, packs=packs)


def _accept(
    world: World,
    directory: Directory,
    draft: Draft,
    replay_of: str | None,
    claim: Idempotency | None,
    carrying: Callable[[MessageRow], MessageRow],
) -> _AcceptedDraft:
    """Store the message, or return the message that an earlier request with the same claim stored.

    The claim is read only after a failed write: most keys are new, and the condition of the write checks that anyway.
    """
    earlier: Claim | None = None

    def attempt() -> _AcceptedDraft:
        nonlocal earlier
        now, topic = world.clock.now(), directory.topic
        row = carrying(_new_row(world, directory, draft, replay_of, now))
        message = row.message
        accepted = Accepted(message.message_id, message.accepted_at, message.expires_at, row.map.pending_count)
        put = accepted_put(row)
        try:
            if claim is None:
                world.store.write(put)
            else:
                answer = Claim(claim.fingerprint, accepted)
                world.store.transact((put, claim_put(topic.topic_id, claim.key, answer, earlier)))
        except ConditionLostError:
            earlier = None if claim is None else CLAIM_ROWS.read(world.store, topic.topic_id, claim.key)
            if claim is not None and earlier is not None and is_live(earlier, now):
                accepted = answer_again(earlier, claim)
                return _AcceptedDraft(
                    accepted, stored.accepted(world.store, topic.name, accepted.message_id), is_new=False
                )
            if claim is not None or not _is_stored(world, message):
                raise
        if row.filter_error_count:
            world.telemetry.record_filter_failures(message.topic, row.filter_errors, row.filter_error_count)
        return _AcceptedDraft(accepted, row, is_new=True)

    return until_won(world, f"topic {directory.topic.name}", attempt)


def _is_stored(world: World, message: Message) -> bool:
    """Return whether *message* is stored, so that the condition failed only because the SDK repeated the write.

    The stored body may already be deleted, if all deliveries ended. A different message with this id came from another
    writer.
    """
    found = stored.accepted(world.store, message.topic, message.message_id)
    if found is None:
        return False
    body = message.draft.body if found.has_body else b""
    return found.message == replace(message, draft=replace(message.draft, body=body))


def _new_row(world: World, directory: Directory, draft: Draft, replay_of: str | None, now: int) -> MessageRow:
    topic = directory.topic
    message = Message(
        topic=topic.name,
        message_id=world.dice.unique_id(now),
        draft=draft,
        accepted_at=now,
        expires_at=now + round(topic.settings.retention_s * 1000 / world.time_scale),
        replay_of=replay_of,
    )
    matched = directory.match(message)
    is_kept = topic.settings.keep is Keep.LIFE
    in_order = directory.in_order.intersection(matched.ordinals)
    has_order = (
        queue_group(topic.settings.ordering, topic.name, message.message_id, draft.ordering_key) != message.message_id
    )
    failed = [directory.by_ordinal[ordinal].name for ordinal in matched.errors[:FILTER_ERROR_NAMES_MAX]]
    return MessageRow(
        message=message,
        map=StateMap.of(matched.ordinals),
        subscriptions_version=topic.subscriptions_version,
        filter_errors=tuple(failed),
        filter_error_count=len(matched.errors),
        has_body=is_kept or bool(matched.ordinals),
        in_order=in_order,
        is_split=has_order and 0 < len(in_order) < len(matched.ordinals),
        is_kept=is_kept,
        bounds=bounds_of(matched.ordinals, world.section_max),
        is_pending=bool(matched.ordinals),
    )
