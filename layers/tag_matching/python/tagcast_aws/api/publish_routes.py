"""The routes of the publish function: one message, or a batch in which each message stands on its own."""

from __future__ import annotations

from tagcast.errors import ConflictError
from tagcast.instant import rfc3339
from tagcast.model import Draft, Topic
from tagcast.ports import World
from tagcast.publishing import Accepted, Idempotency, check_draft, publish
from tagcast.topics import get_topic
from tagcast_aws.api import answers
from tagcast_aws.api.message_bodies import BatchBody, MessageBody, read_message
from tagcast_aws.api.problems import Problem, invalid, too_large
from tagcast_aws.api.requests import Request
from tagcast_aws.api.routing import Answer, Route


def publish_one(world: World, request: Request[MessageBody]) -> Answer:
    """Accept one message."""
    (accepted,) = publish(world, request.topic, (request.body.draft(),), _idempotency(request))
    return Answer(201, _accepted(accepted))


def publish_batch(world: World, request: Request[BatchBody]) -> Answer:
    """Accept those messages of a batch that are valid; the others' places hold their problems."""
    idempotency = _idempotency(request)
    topic = get_topic(world, request.topic)
    items = [_checked(topic, item) for item in request.body.messages]
    drafts = [item for item in items if isinstance(item, Draft)]
    accepted = publish(world, topic.name, drafts, idempotency) if drafts else ()
    if len(accepted) != len(drafts):
        raise ConflictError("this Idempotency-Key was used while the topic had other limits")
    remaining = iter(accepted)
    results: list[answers.AcceptedAnswer | answers.RefusedAnswer] = [
        {"error": item.as_json()} if isinstance(item, Problem) else _accepted(next(remaining)) for item in items
    ]
    return Answer(200, {"results": results})


def _checked(topic: Topic, item: object) -> Draft | Problem:
    draft, faults = read_message(item)
    if draft is None:
        return invalid(faults)
    fault = check_draft(topic, draft)
    return draft if fault is None else too_large(fault)


def _idempotency(request: Request[MessageBody] | Request[BatchBody]) -> Idempotency | None:
    key = request.idempotency_key()
    return None if key is None else Idempotency(key, request.fingerprint())


def _accepted(value: Accepted) -> answers.AcceptedAnswer:
    return {
        "message_id": value.message_id,
        "accepted_at": rfc3339(value.accepted_at),
        "expires_at": rfc3339(value.expires_at),
        "matched": value.matched,
    }


ROUTES = (
    Route(
        "POST",
        "/topics/{topic}/messages",
        publish_one,
        "Publish a message",
        {201: answers.AcceptedAnswer},
        body=MessageBody,
        headers=("Idempotency-Key",),
    ),
    Route(
        "POST",
        "/topics/{topic}/messages/batch",
        publish_batch,
        "Publish up to 100 messages, each on its own",
        {200: answers.BatchAnswer},
        body=BatchBody,
        headers=("Idempotency-Key",),
    ),
)
