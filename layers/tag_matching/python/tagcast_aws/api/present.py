"""Core values as the API shows them: names, units and instants of http-api.md, never a secret."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tagcast.filters.kinds import compile_filter
from tagcast.instant import rfc3339
from tagcast.model import Endpoint, Entry, Protocol, RetryPolicy, Strategy, Subscription, Topic
from tagcast.operating.lanes import DueDelivery, LaneView
from tagcast.operating.messages import MessageView
from tagcast.registry.shadows import ShadowReport
from tagcast.rows.filter_version import FilterVersion
from tagcast.rows.shadow import Verdict

from tagcast_aws.api import answers


def topic(value: Topic) -> answers.TopicAnswer:
    """Return the topic."""
    return {
        "name": value.name,
        "retention_seconds": value.retention_s,
        "max_message_bytes": value.body_bytes_max,
        "ordering": value.ordering.value,
        "subscriptions": value.subscription_count,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
    }


def subscription(value: Subscription, lane: LaneView | None = None) -> answers.SubscriptionAnswer:
    """Return the subscription without its secret; with its lane, if that was looked at."""
    chosen = value.settings
    answer: answers.SubscriptionAnswer = {
        "topic": value.topic,
        "name": value.name,
        "endpoint": endpoint(chosen.endpoint),
        "filter": None if chosen.filter is None else dict(chosen.filter),
        "retry": retry(chosen.retry),
        "timeout_seconds": chosen.timeout_s,
        "content_format": chosen.content_format.value,
        "version": value.version,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
    }
    warnings = compile_filter(chosen.filter).warnings
    if warnings:
        answer["warnings"] = list(warnings)
    if lane is not None:
        answer["lane"] = lane_state(lane)
    return answer


def endpoint(value: Endpoint) -> dict[str, str]:
    """Return the endpoint under the field that its protocol has for it.

    >>> endpoint(Endpoint(Protocol.SQS, "arn:aws:sqs:eu-west-1:123456789012:orders"))
    {'protocol': 'sqs', 'arn': 'arn:aws:sqs:eu-west-1:123456789012:orders'}
    """
    return {"protocol": value.protocol.value, target_field(value): value.target}


def target_field(value: Endpoint) -> str:
    """Return the field of an endpoint that says where it is.

    >>> target_field(Endpoint(Protocol.LAMBDA, "bill"))
    'function'
    """
    match value.protocol:
        case Protocol.HTTP | Protocol.HTTPS:
            return "url"
        case Protocol.SQS:
            return "arn" if value.target.startswith("arn:") else "queue_url"
        case Protocol.LAMBDA:
            return "function"


def retry(value: RetryPolicy) -> dict[str, Any]:
    """Return the notify strategy with the fields that it has.

    >>> retry(RetryPolicy(Strategy.BACKOFF_RETRY, 3))
    {'strategy': 'BACKOFF_RETRY', 'max_retries': 3}
    """
    answer: dict[str, Any] = {"strategy": value.strategy.value, "max_retries": value.max_retries}
    match value.strategy:
        case Strategy.BACKOFF_RETRY:
            if value.interval_s is not None:
                answer["interval_seconds"] = value.interval_s
        case Strategy.EXPONENTIAL_DECAY_RETRY:
            answer["max_interval_seconds"] = value.interval_s_max
    return answer


def lane_state(value: LaneView) -> answers.LaneAnswer:
    """Return the lane with its head."""
    head: answers.HeadAnswer | None = None
    if value.head is not None:
        head = {
            "message_id": value.head.message_id,
            "attempts": value.head.attempts,
            "next_attempt_at": _instant(value.head.next_attempt_at),
        }
    answer: answers.LaneAnswer = {"state": value.state.value, "backlog": value.backlog, "head": head}
    if value.has_more:
        answer["backlog_has_more"] = True
    return answer


def delivery(value: DueDelivery) -> answers.DeliveryAnswer:
    """Return one owed delivery of a backlog."""
    return {
        "message_id": value.message_id,
        "state": value.state.value,
        "attempts": value.attempts,
        "next_attempt_at": _instant(value.next_attempt_at),
        "expires_at": rfc3339(value.expires_at),
        "last_attempt_at": _instant(value.last_attempt_at),
        "last_outcome": value.last_outcome,
    }


def filter_version(value: FilterVersion) -> answers.VersionAnswer:
    """Return one version of a filter."""
    kept = None if value.filter is None else dict(value.filter)
    return {"version": value.version, "filter": kept, "changed_at": rfc3339(value.changed_at)}


def shadow(value: ShadowReport) -> answers.ShadowAnswer:
    """Return a shadow with its counts and samples."""
    kept, counts = value.shadow.filter, value.counts
    answer: answers.ShadowAnswer = {
        "filter": None if kept is None else dict(kept),
        "shadow_version": value.shadow.shadow_version,
        "active_version": value.active_version,
        "since": rfc3339(value.shadow.since),
        "counts": {
            "evaluated": sum(counts.values()),
            "both": counts[Verdict.BOTH],
            "only_active": counts[Verdict.ONLY_ACTIVE],
            "only_shadow": counts[Verdict.ONLY_SHADOW],
            "neither": counts[Verdict.NEITHER],
            "errors": counts[Verdict.ERRORS],
        },
        "samples": [
            {"message_id": message_id, "way": "only_active" if way is Verdict.ONLY_ACTIVE else "only_shadow"}
            for message_id, way in value.samples
        ],
    }
    warnings = compile_filter(kept).warnings
    if warnings:
        answer["warnings"] = list(warnings)
    return answer


def message(value: MessageView) -> answers.MessageAnswer:
    """Return the message or its receipt, with the state map."""
    answer = _receipt(value)
    if value.body is None:
        answer["body"] = None
    elif value.message.draft.is_text:
        answer["body"] = value.body.decode()
    else:
        answer["body_base64"] = base64.b64encode(value.body).decode()
    return answer


def message_without_body(value: MessageView) -> answers.MessageAnswer:
    """Return the message as a list shows it: how large its body is, instead of the body."""
    answer = _receipt(value)
    if value.body is not None:
        answer["body_bytes"] = len(value.body)
    return answer


def _receipt(value: MessageView) -> answers.MessageAnswer:
    sent = value.message
    answer: answers.MessageAnswer = {
        "message_id": sent.message_id,
        "topic": sent.topic,
        "state": value.state,
        "accepted_at": rfc3339(sent.accepted_at),
        "expires_at": rfc3339(sent.expires_at),
        "tags": list(sent.tags),
        "routing_key": sent.routing_key,
        "properties": dict(sent.properties),
        "ordering_key": sent.ordering_key,
        "content_type": sent.draft.content_type,
        "subscribers": {name: _entry(entry) for name, entry in value.subscribers.items()},
    }
    if sent.replay_of is not None:
        answer["replay_of"] = sent.replay_of
    if value.filter_error_count:
        answer["filter_errors"] = list(value.filter_errors)
        answer["filter_error_count"] = value.filter_error_count
    return answer


def _entry(value: Entry) -> answers.EntryAnswer:
    answer: answers.EntryAnswer = {"state": value.state.value, "attempts": value.attempts}
    if value.last_attempt_at is not None:
        answer["last_attempt_at"] = rfc3339(value.last_attempt_at)
    if value.last_outcome is not None:
        answer["last_outcome"] = value.last_outcome
    if value.filter_version is not None:
        answer["filter_version"] = value.filter_version
    return answer


def _instant(value: int | None) -> str | None:
    return None if value is None else rfc3339(value)


def page(name: str, items: list[Any], cursor: str | None) -> Mapping[str, Any]:
    """Return one page of a list under its *name*.

    >>> page("topics", [], None)
    {'topics': [], 'next_cursor': None}
    """
    return {name: items, "next_cursor": cursor}
