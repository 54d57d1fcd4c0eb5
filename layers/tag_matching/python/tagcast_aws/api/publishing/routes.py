"""The routes of the publish function: one message, or a batch with a result for each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tagcast.delivery.publishing import Idempotency, check_draft, publish, replay
from tagcast.instant import rfc3339
from tagcast.model import Draft, Topic
from tagcast.ports import World
from tagcast.registry.directory import publishing_directory
from tagcast.rows.claim import Accepted
from tagcast.trace_context import TraceContext
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import Instant, RefusedAnswer
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.http.body import read
from tagcast_aws.api.http.problems import Problem, ProblemCode, invalid_problem
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import REPLAYED_HEADER, Answer, Route
from tagcast_aws.api.publishing.body import BatchBody, MessageBody, ReplayBody, ReplayedMessage


class AcceptedAnswer(TypedDict):
    """An accepted message. ``matched`` is the number of subscriptions that matched."""

    message_id: str
    accepted_at: Instant
    expires_at: Instant
    matched: int


class BatchAnswer(TypedDict):
    """The results of a batch, in the order of its messages."""

    results: list[AcceptedAnswer | RefusedAnswer]


def show_accepted(value: Accepted) -> AcceptedAnswer:
    """Return the answer to one accepted message."""
    return {
        "message_id": value.message_id,
        "accepted_at": rfc3339(value.accepted_at),
        "expires_at": rfc3339(value.expires_at),
        "matched": value.matched,
    }


M = TypeVar("M", bound=MessageBody)
T = TypeVar("T")


def publish_one(world: World, request: Request[MessageBody]) -> Answer:
    """Publish a message."""
    (one,) = publish(world, request.topic, (_add_trace(request.body.draft(), request.trace),), _claims(request, 1))
    return Answer(201, show_accepted(one), _replay_header((one,)))


def publish_batch(world: World, request: Request[BatchBody]) -> Answer:
    """Publish up to 100 messages; each succeeds or fails on its own."""
    topic = publishing_directory(world, request.topic).topic
    claims = _claims(request, len(request.body.messages))
    items = [_item(world, topic, MessageBody, *each) for each in zip(request.body.messages, claims, strict=True)]
    valid = _valid(items)
    drafts = [_add_trace(item.draft(), request.trace) for item in valid.values()]
    return _results(items, publish(world, topic.name, drafts, [claims[place] for place in valid]) if drafts else ())


def replay_batch(world: World, request: Request[ReplayBody]) -> Answer:
    """Replay up to 100 archived messages to this subscription only."""
    from tagcast.registry.subscriptions import get_subscription  # Only replays need this import.

    topic, subscription = publishing_directory(world, request.topic).topic, request.subscription
    get_subscription(world, topic.name, subscription)
    claims = _claims(request, len(request.body.messages))
    items = [_item(world, topic, ReplayedMessage, *each) for each in zip(request.body.messages, claims, strict=True)]
    valid = _valid(items)
    originals, valid_claims = [item.original() for item in valid.values()], [claims[place] for place in valid]
    return _results(items, replay(world, topic.name, subscription, originals, valid_claims) if valid else ())


def _valid(items: Sequence[T | Problem]) -> dict[int, T]:
    """Return the valid items by their places in the request."""
    return {place: item for place, item in enumerate(items) if not isinstance(item, Problem)}


def _add_trace(draft: Draft, trace: TraceContext | None) -> Draft:
    """Return *draft* with its own trace, or with the request's *trace* if it has none."""
    return draft if draft.trace is not None or trace is None else replace(draft, trace=trace)


def _item(world: World, topic: Topic, model: type[M], item: object, claim: Idempotency | None) -> M | Problem:
    """Return one item of a request as a *model*, or its problem."""
    body, faults = read(model, item)
    if body is None:
        return invalid_problem(faults)
    fault = check_draft(world, topic, body.draft(), claim)
    return body if fault is None else Problem(ProblemCode.TOO_LARGE, fault.detail, (fault,))


def _results(items: Sequence[object], taken: Sequence[Accepted]) -> Answer:
    """Return the results in the order of the batch: answers to accepted messages, problems of refused messages."""
    remaining = iter(taken)
    results: list[AcceptedAnswer | RefusedAnswer] = [
        {"error": item.as_json()} if isinstance(item, Problem) else show_accepted(next(remaining)) for item in items
    ]
    return Answer(200, {"results": results}, _replay_header(taken))


def _replay_header(taken: Sequence[Accepted]) -> dict[str, str]:
    """Return the header for an answer that repeats an earlier one; empty unless all of *taken* are repetitions."""
    return {REPLAYED_HEADER: "true"} if taken and all(each.is_replay for each in taken) else {}


def _claims(
    request: Request[MessageBody] | Request[BatchBody] | Request[ReplayBody], count: int
) -> Sequence[Idempotency | None]:
    """Return *count* claims of the request's Idempotency-Key, one for each message; all are None without a key."""
    key = request.idempotency_key()
    if key is None:
        return [None] * count
    idempotency = Idempotency(key, request.fingerprint())
    return [idempotency.at(place) for place in range(count)]


_ALL = "/topics/{topic}/messages"
_REPLAY = "/topics/{topic}/subscriptions/{subscription}/replay"
_TAG, _SCOPE = "publishing", TokenScope.PUBLISH
_ONCE = ("Idempotency-Key",)
_TRACED = (*_ONCE, "traceparent", "tracestate")
_TAKEN, _RESULTS = {201: AcceptedAnswer}, {200: BatchAnswer}

ROUTES = (
    Route("publish", _TAG, "POST", _ALL, publish_one, _TAKEN, body=MessageBody, headers=_TRACED, scope=_SCOPE),
    Route(
        "publish_batch",
        _TAG,
        "POST",
        f"{_ALL}/batch",
        publish_batch,
        _RESULTS,
        body=BatchBody,
        headers=_TRACED,
        scope=_SCOPE,
    ),
    Route("replay", _TAG, "POST", _REPLAY, replay_batch, _RESULTS, body=ReplayBody, headers=_ONCE, scope=_SCOPE),
)
