"""The operations on topics, subscriptions, lanes, messages and filters; those that publish are in `publishing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from tagcast_client import models
from tagcast_client.filters import AnyFilter
from tagcast_client.operation import (
    Operation,
    Page,
    condition,
    given,
    listing,
    nothing,
    path_of,
    query_of,
    reads,
    reads_list,
    reads_results,
    subscription_path,
    topic_path,
)

T = TypeVar("T")


def create_topic(topic: str, settings: Mapping[str, Any]) -> Operation[models.Topic]:
    """PUT /topics/{topic} if there is none."""
    return _create(topic_path(topic), models.Topic, settings)


def update_topic(topic: str, changes: Mapping[str, Any], if_version: int | None) -> Operation[models.Topic]:
    """PATCH /topics/{topic}."""
    return _update(topic_path(topic), models.Topic, changes, if_version)


def create_subscription(topic: str, name: str, settings: Mapping[str, Any]) -> Operation[models.Subscription]:
    """PUT /topics/{topic}/subscriptions/{subscription} if there is none."""
    return _create(subscription_path(topic, name), models.Subscription, settings)


def update_subscription(
    topic: str, name: str, changes: Mapping[str, Any], if_version: int | None
) -> Operation[models.Subscription]:
    """PATCH /topics/{topic}/subscriptions/{subscription}."""
    return _update(subscription_path(topic, name), models.Subscription, changes, if_version)


def _create(path: str, kind: type[T], settings: Mapping[str, Any]) -> Operation[T]:
    return Operation("PUT", path, reads(kind), given(**settings), headers={"If-None-Match": "*"}, repeatable=False)


def _update(path: str, kind: type[T], changes: Mapping[str, Any], if_version: int | None) -> Operation[T]:
    return Operation("PATCH", path, reads(kind), changes, headers=condition(if_version), repeatable=if_version is None)


def get_topic(topic: str) -> Operation[models.Topic]:
    """GET /topics/{topic}."""
    return Operation("GET", topic_path(topic), reads(models.Topic))


def delete_topic(topic: str, if_version: int | None = None) -> Operation[None]:
    """DELETE /topics/{topic}."""
    return Operation("DELETE", topic_path(topic), nothing, headers=condition(if_version), gone_is_done=True)


def list_topics(limit: int | None, cursor: str | None) -> Operation[Page[models.Topic]]:
    """GET /topics."""
    return listing(models.Topic, "topics", "/topics", {"limit": limit, "cursor": cursor})


def create_subscriptions(
    topic: str, subscriptions: Sequence[Mapping[str, Any]], *, replace: bool
) -> Operation[tuple[models.Subscription | models.Refused, ...]]:
    """POST /topics/{topic}/subscriptions/batch: to replace them again changes nothing."""
    body = {"subscriptions": list(subscriptions), "replace": replace}
    path = topic_path(topic, "subscriptions", "batch")
    return Operation("POST", path, reads_results(models.Subscription), body, repeatable=replace)


def get_subscription(topic: str, name: str) -> Operation[models.Subscription]:
    """GET /topics/{topic}/subscriptions/{subscription}."""
    return Operation("GET", subscription_path(topic, name), reads(models.Subscription))


def delete_subscription(topic: str, name: str, if_version: int | None) -> Operation[None]:
    """DELETE /topics/{topic}/subscriptions/{subscription}."""
    return Operation(
        "DELETE", subscription_path(topic, name), nothing, headers=condition(if_version), gone_is_done=True
    )


def update_filter(
    topic: str, name: str, filter: AnyFilter | None, if_version: int | None
) -> Operation[models.Subscription]:
    """PUT …/filter."""
    return Operation(
        "PUT",
        subscription_path(topic, name, "filter"),
        reads(models.Subscription),
        {"filter": filter},
        headers=condition(if_version),
        repeatable=if_version is None,
    )


def rotate_secret(
    topic: str, name: str, secret: str | None, grace_seconds: int | None, if_version: int | None
) -> Operation[models.Subscription]:
    """POST …/secret/rotate: not repeated where the service makes the secret, which only one answer tells."""
    return Operation(
        "POST",
        subscription_path(topic, name, "secret", "rotate"),
        reads(models.Subscription),
        given(secret=secret, grace_seconds=grace_seconds),
        headers=condition(if_version),
        repeatable=secret is not None and if_version is None,
    )


def verify_endpoint(topic: str, name: str) -> Operation[models.Subscription]:
    """POST …/verify."""
    return Operation("POST", subscription_path(topic, name, "verify"), reads(models.Subscription))


def list_subscriptions(topic: str, limit: int | None, cursor: str | None) -> Operation[Page[models.Subscription]]:
    """GET /topics/{topic}/subscriptions."""
    query = {"limit": limit, "cursor": cursor}
    return listing(models.Subscription, "subscriptions", topic_path(topic, "subscriptions"), query)


def list_versions(topic: str, name: str) -> Operation[tuple[models.Version, ...]]:
    """GET /topics/{topic}/subscriptions/{subscription}/versions."""
    return Operation("GET", subscription_path(topic, name, "versions"), reads_list(models.Version, "versions"))


def get_message(topic: str, message_id: str, cursor: str | None, only: str | None) -> Operation[models.Message]:
    """GET /topics/{topic}/messages/{message_id}."""
    query = query_of({"cursor": cursor, "only": only})
    return Operation("GET", topic_path(topic, "messages", message_id), reads(models.Message), query=query)


def find_message(message_id: str, cursor: str | None, only: str | None) -> Operation[models.Message]:
    """GET /messages/{message_id}."""
    query = query_of({"cursor": cursor, "only": only})
    return Operation("GET", path_of("messages", message_id), reads(models.Message), query=query)


def list_messages(topic: str, bodies: bool, limit: int | None, cursor: str | None) -> Operation[Page[models.Message]]:
    """GET /topics/{topic}/messages."""
    query = {"limit": limit, "cursor": cursor, "bodies": True if bodies else None}
    return listing(models.Message, "messages", topic_path(topic, "messages"), query)


def read_history(
    topic: str, since: datetime | None, property: tuple[str, str] | None, query: Mapping[str, str | int | None]
) -> Operation[models.History]:
    """GET /topics/{topic}/history."""
    began, named = None if since is None else since.isoformat(), None if property is None else "=".join(property)
    sent = query_of({"since": began, "property": named, **query})
    return Operation("GET", topic_path(topic, "history"), reads(models.History), query=sent)


def list_attempts(
    topic: str, message_id: str, limit: int | None, cursor: str | None
) -> Operation[Page[models.Attempted]]:
    """GET /topics/{topic}/messages/{message_id}/attempts."""
    path = topic_path(topic, "messages", message_id, "attempts")
    return listing(models.Attempted, "deliveries", path, {"limit": limit, "cursor": cursor})


def explain(topic: str, message_id: str, name: str) -> Operation[Mapping[str, Any]]:
    """GET /topics/{topic}/messages/{message_id}/explain."""
    path = topic_path(topic, "messages", message_id, "explain")
    return Operation("GET", path, lambda answer: answer.json, query={"subscription": name})


def change_lane(topic: str, name: str, change: str) -> Operation[models.Lane]:
    """POST …/pause, …/resume or …/retry: a repetition finds the lane as it should be."""
    return Operation("POST", subscription_path(topic, name, change), reads(models.Lane))


def skip(topic: str, name: str, reason: str, message_id: str | None) -> Operation[models.Lane]:
    """POST …/skip: never repeated after a lost answer, since that might skip one more."""
    path, body = subscription_path(topic, name, "skip"), given(reason=reason, message_id=message_id)
    return Operation("POST", path, reads(models.Lane), body, repeatable=False)


def change_lanes(
    change: str,
    selection: Mapping[str, str],
    lanes: Sequence[Mapping[str, str]] | None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Operation[models.ActedLanes]:
    """POST /lanes/retry, /pause, /resume or /skip: one part. A skip is not repeated after a lost answer."""
    body = given(**selection, lanes=lanes, reason=reason, dry_run=dry_run, limit=limit, cursor=cursor)
    is_repeatable = dry_run or change != "skip"
    return Operation("POST", path_of("lanes", change), reads(models.ActedLanes), body, repeatable=is_repeatable)


def backlog(topic: str, name: str, limit: int | None, cursor: str | None) -> Operation[Page[models.Delivery]]:
    """GET /topics/{topic}/subscriptions/{subscription}/backlog."""
    query = {"limit": limit, "cursor": cursor}
    return listing(models.Delivery, "deliveries", subscription_path(topic, name, "backlog"), query)


def list_lanes(limit: int | None, cursor: str | None) -> Operation[Page[models.UrgentLane]]:
    """GET /lanes."""
    return listing(models.UrgentLane, "lanes", "/lanes", {"limit": limit, "cursor": cursor})


def retry_topic(topic: str) -> Operation[tuple[str, ...]]:
    """POST /topics/{topic}/retry."""
    return Operation("POST", topic_path(topic, "retry"), lambda answer: tuple(answer.json.get("lanes", ())))


def set_shadow(topic: str, name: str, filter: AnyFilter | None) -> Operation[models.Shadow]:
    """PUT /topics/{topic}/subscriptions/{subscription}/shadow."""
    return Operation("PUT", subscription_path(topic, name, "shadow"), reads(models.Shadow), {"filter": filter})


def get_shadow(topic: str, name: str) -> Operation[models.Shadow]:
    """GET /topics/{topic}/subscriptions/{subscription}/shadow."""
    return Operation("GET", subscription_path(topic, name, "shadow"), reads(models.Shadow))


def delete_shadow(topic: str, name: str) -> Operation[None]:
    """DELETE /topics/{topic}/subscriptions/{subscription}/shadow."""
    return Operation("DELETE", subscription_path(topic, name, "shadow"), nothing, gone_is_done=True)


def promote_shadow(topic: str, name: str, shadow_version: int | None) -> Operation[models.Subscription]:
    """POST …/shadow/promote: never repeated after a lost answer, since the shadow is gone once it was promoted."""
    path = subscription_path(topic, name, "shadow", "promote")
    body = given(shadow_version=shadow_version)
    return Operation("POST", path, reads(models.Subscription), body, repeatable=False)


def test_filter(filter: AnyFilter | None, message: models.NewMessage) -> Operation[models.FilterTest]:
    """POST /filters/test."""
    body = {"filter": filter, "message": message.as_json()}
    return Operation("POST", "/filters/test", reads(models.FilterTest), body)


def list_hosts(limit: int | None, cursor: str | None) -> Operation[Page[models.Host]]:
    """GET /hosts."""
    return listing(models.Host, "hosts", "/hosts", {"limit": limit, "cursor": cursor})


def health() -> Operation[models.Health]:
    """GET /health."""
    return Operation("GET", "/health", reads(models.Health))
