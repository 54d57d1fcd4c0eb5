"""Actions on subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tagcast.errors import ConflictError, PreconditionFailedError
from tagcast.model import FilterType, Subscription, SubscriptionSettings, Topic
from tagcast.operating.lanes import lane_view
from tagcast.operating.verification import put_verified
from tagcast.registry import subscriptions
from tagcast.registry.directory import read_topic
from tagcast.registry.subscribing import NO_VERSION, SubscriptionRequest
from tagcast.rows import stored

from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.limits import SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_PAGE_MAX
from tagcast_aws.cmq.parameters import Parameters
from tagcast_aws.cmq.request import Action, CmqRequest, seconds
from tagcast_aws.cmq.settings import (
    DEFAULT_STRATEGY,
    Filters,
    content_format,
    endpoint_of,
    format_endpoint,
    format_filter,
    format_word,
    retry_policy,
)


def subscribe(request: CmqRequest) -> dict[str, object]:
    """Create a subscription."""
    given, world = request.given, request.world
    topic_name, name = given.topic(), given.subscription()
    target = endpoint_of(given, request.home)
    filters = Filters.of(given, CmqFault.TAGS_OF_SUBSCRIBE)
    settings = SubscriptionSettings(
        endpoint=target,
        filter=None,
        retry=retry_policy(given, None) or DEFAULT_STRATEGY,
        content_format=content_format(given, target.protocol, None),
    )
    topic = read_topic(world, topic_name)
    settings = replace(settings, filter=_require_filter(filters, topic))
    if topic.subscription_count >= SUBSCRIPTIONS_MAX:
        exists = stored.subscription(world.store, topic_name, name) is not None
        raise CmqError(CmqFault.SUBSCRIPTION_EXISTS if exists else CmqFault.SUBSCRIPTIONS)
    try:
        if world.verification.of_cmq:
            wanted = SubscriptionRequest(name, settings, NO_VERSION, verification="required")
            made, _ = put_verified(world, topic_name, wanted)
        else:
            made, _ = subscriptions.put_subscription(world, topic_name, name, settings, NO_VERSION)
    except PreconditionFailedError:
        raise CmqError(CmqFault.SUBSCRIPTION_EXISTS) from None
    except ConflictError:
        raise CmqError(CmqFault.SUBSCRIPTIONS) from None
    return {"subscriptionId": format_id(made)}


def _require_filter(filters: Filters, topic: Topic) -> dict[str, object] | None:
    if topic.filter_type is FilterType.ROUTING_KEY and not filters.binding_keys:
        raise CmqError(CmqFault.NO_BINDING_KEY)
    return filters.read_by(topic)


def unsubscribe(request: CmqRequest) -> dict[str, object]:
    """Delete a subscription."""
    subscriptions.delete_subscription(request.world, request.given.topic(), request.given.subscription())
    return {}


def set_attributes(request: CmqRequest) -> dict[str, object]:
    """Update the attributes of a subscription that the request names."""
    given, world = request.given, request.world
    topic_name, name = given.topic(), given.subscription()
    topic = read_topic(world, topic_name)

    def update_settings(known: SubscriptionSettings) -> SubscriptionSettings:
        retry = retry_policy(given, known.retry) or known.retry
        format = content_format(given, known.endpoint.protocol, known.content_format)
        if known.batching is not None and (retry, format) != (known.retry, known.content_format):
            raise CmqError(CmqFault.INVALID, "CMQ has no batches; update this subscription by the native API")
        filter = _wanted_filter(given, topic, known.filter)
        return replace(_check_pushed(known), filter=filter, retry=retry, content_format=format)

    subscriptions.change_subscription(world, topic_name, name, update_settings)
    return {}


def _wanted_filter(given: Parameters, topic: Topic, known: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return *known*, the present filter, if the request has none or the same tags and keys; else the request's filter.

    So a *known* that CMQ cannot express stays: it may have more tags, or demand that all of them match.
    """
    shown = format_filter(known)
    if all(list(given.items(name)) in ([], shown[name]) for name in ("filterTag", "bindingKey")):
        return known
    wanted = Filters.of(given, CmqFault.FILTER_TAGS).read_by(topic)
    return known if wanted is None or format_filter(wanted) == shown else wanted


def _check_pushed(known: SubscriptionSettings) -> SubscriptionSettings:
    """Return *known*. Raises CmqError for a consumer group, which CMQ does not have."""
    if known.is_group:
        raise CmqError(CmqFault.INVALID, "the subscription is a consumer group; update it by the native API")
    return known


def clear_tags(request: CmqRequest) -> dict[str, object]:
    """Remove the tags of a subscription, so that it receives everything; any other filter stays."""
    world, topic_name, name = request.world, request.given.topic(), request.given.subscription()
    if _has_tags(_check_pushed(subscriptions.get_subscription(world, topic_name, name).settings)):
        subscriptions.change_subscription(world, topic_name, name, _without_tags)
    return {}


def _without_tags(known: SubscriptionSettings) -> SubscriptionSettings:
    return replace(_check_pushed(known), filter=None if _has_tags(known) else known.filter)


def _has_tags(settings: SubscriptionSettings) -> bool:
    return settings.filter is not None and settings.filter["kind"] == "tags"


def get_attributes(request: CmqRequest) -> dict[str, object]:
    """Return one subscription, with its tags under both names that CMQ's clients use."""
    found = subscriptions.get_subscription(request.world, request.given.topic(), request.given.subscription())
    chosen = found.settings
    return {
        "topicOwner": request.home.account,
        "subscriptionId": format_id(found),
        "msgCount": lane_view(request.world, found).backlog,
        **format_endpoint(chosen.endpoint),
        "notifyStrategy": chosen.retry.strategy.value,
        "notifyContentFormat": format_word(chosen.content_format),
        "createTime": seconds(found.created_at),
        "lastModifyTime": seconds(found.updated_at),
        **format_filter(chosen.filter),
    }


def list_subscriptions(request: CmqRequest) -> dict[str, object]:
    """List the subscriptions of a topic whose names contain ``searchWord``."""
    topic, word = request.given.topic(), (request.given.value("searchWord") or "").lower()
    store = request.world.store
    read_topic(request.world, topic)
    found = [each.name for each in stored.every_subscription(store, topic) if word in each.name.lower()]
    part = stored.subscriptions(store, topic, request.part(found, SUBSCRIPTIONS_PAGE_MAX)).values()
    return {"totalCount": len(found), "subscriptionList": [_show_subscription(each) for each in part]}


def _show_subscription(value: Subscription) -> dict[str, object]:
    return {
        "subscriptionId": format_id(value),
        "subscriptionName": value.name,
        **format_endpoint(value.settings.endpoint),
    }


def format_id(value: Subscription) -> str:
    """Return a subscription's id in CMQ's form."""
    return f"subsc-{value.subscription_id}"


_ONE = ("topicName", "subscriptionName")
_WHOLE = (*_ONE, "protocol", "endpoint", "notifyStrategy", "notifyContentFormat", "filterTag.n", "bindingKey.n")

ACTIONS: Mapping[str, Action] = {
    "Subscribe": Action(subscribe, _WHOLE),
    "Unsubscribe": Action(unsubscribe, _ONE),
    "SetSubscriptionAttributes": Action(set_attributes, _WHOLE),
    "GetSubscriptionAttributes": Action(get_attributes, _ONE),
    "ListSubscriptionByTopic": Action(list_subscriptions, ("topicName", "searchWord", "offset", "limit")),
    "ClearSubscriptionFilterTags": Action(clear_tags, _ONE),
}
