"""Batched pushes: what a receiver makes of a request with several messages, told apart from the code under test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tagcast.model import Outcome, PushBatch, Strategy
from tagcast.pushing import batch_form

from tests.simulation.endpoints import Play
from tests.simulation.ledger import NAMED, Reply
from tests.simulation.plan import Subscriber

if TYPE_CHECKING:
    from tests.simulation.history import History

TAKING_ALL = (b"", b"ok", b"{}", b"null", b'{"batchItemFailures": []}', b'{"batchItemFailures": null}')
MALFORMED = (b'{"batchItemFailures": [{"id": "1"}]}', b'{"batchItemFailures": "1"}', b'{"batchItemFailures": [{')


@dataclass(frozen=True)
class BatchReply:
    """What a receiver does with a batch: *reply* to the request, with an *answer*; and what that says of each message.

    *uncounted* are those for which it is no attempt.
    """

    reply: Reply
    answer: bytes
    of: Mapping[str, Reply]
    uncounted: frozenset[str]


def batch_reply(history: History, batch: PushBatch) -> BatchReply:
    ids, name = [push.message.message_id for push in batch.pushes], batch.subscription.name
    subscriber = next(each for each in history.plan.subscribers if each.name == name)
    return reply_to(history, subscriber, ids, history.endpoints.reply(batch.pushes[0]), keeps_order=_keeps_order(batch))


def reply_to(play: Play, subscriber: Subscriber, ids: Sequence[str], reply: Reply, *, keeps_order: bool) -> BatchReply:
    """Return what a receiver that gives *reply* does: all fails, or all is taken, or some messages are named."""
    if not reply.success:
        return BatchReply(reply, b"", dict.fromkeys(ids, reply), frozenset(ids[1:]))
    dice = play.chance
    if not _is_partial(play, subscriber):
        return BatchReply(reply, dice.choice(TAKING_ALL), dict.fromkeys(ids, reply), frozenset())
    if dice.random() < 0.3:
        unknown = json.dumps({"batchItemFailures": [{"itemIdentifier": "0"}]}).encode()
        told = Reply(None, "a malformed answer", reply.took_ms)
        return BatchReply(reply, dice.choice((*MALFORMED, unknown)), dict.fromkeys(ids, told), frozenset(ids[1:]))
    named = [each for each in ids if dice.random() < 0.4] or [dice.choice(ids)]
    answer = json.dumps({"batchItemFailures": [{"itemIdentifier": each} for each in dice.sample(named, len(named))]})
    behind = ids[ids.index(named[0]) + 1 :] if keeps_order else []
    failed = Reply(None, NAMED, reply.took_ms)
    of = {each: failed if each in named or each in behind else reply for each in ids}
    return BatchReply(reply, answer.encode(), of, frozenset(behind))


def outcome_of(history: History, batch: PushBatch, reply: BatchReply, now: int) -> Outcome:
    """Return what the shipped code makes of a reply."""
    outcome = history.endpoints.outcome(reply.reply, now)
    return batch_form.read_response(batch, outcome, reply.answer) if outcome.delivered else outcome


def _keeps_order(batch: PushBatch) -> bool:
    return batch.subscription.settings.retry.strategy is Strategy.BACKOFF_RETRY


def _is_partial(play: Play, subscriber: Subscriber) -> bool:
    if not play.faulty and subscriber.recovers:
        return False
    if subscriber.mode == "healthy":
        return play.draws("endpoint", 0.3)
    return play.chance.random() < 0.4
