"""Actions on topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tagcast.errors import ConflictError, PreconditionFailedError
from tagcast.model import FilterType, TopicSettings
from tagcast.registry.directory import read_topic
from tagcast.registry.subscribing import NO_VERSION
from tagcast.registry.topics import change_topic, delete_topic, put_topic, retained_count, search_topics

from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.limits import BODY_BYTES_ASKED_MAX, BODY_BYTES_MAX, BODY_BYTES_MIN, TOPICS_PAGE_MAX
from tagcast_aws.cmq.request import Action, CmqRequest, seconds

FILTER_TYPES: Mapping[int, FilterType] = {1: FilterType.TAGS, 2: FilterType.ROUTING_KEY}


def create(request: CmqRequest) -> dict[str, object]:
    """Create a topic with its permanent filter type."""
    given = request.given
    name, size = given.topic(), _size(request)
    filter_type = FILTER_TYPES[given.integer("filterType", min(FILTER_TYPES), max(FILTER_TYPES)) or 1]
    settings = TopicSettings() if size is None else TopicSettings(body_bytes_max=size)
    try:
        topic, _ = put_topic(request.world, name, settings, NO_VERSION, filter_type)
    except PreconditionFailedError:
        raise CmqError(CmqFault.TOPIC_EXISTS) from None
    return {"topicId": format_id(topic.topic_id)}


def set_attributes(request: CmqRequest) -> dict[str, object]:
    """Update the maximum message size. A request may repeat the present size, even if it is beyond CMQ's bounds."""
    known = read_topic(request.world, request.given.topic())
    if request.given.optional("maxMsgSize") == str(known.settings.body_bytes_max):
        return {}
    size = _size(request)
    if size is not None:
        change_topic(request.world, known.name, lambda settings: replace(settings, body_bytes_max=size))
    return {}


def get_attributes(request: CmqRequest) -> dict[str, object]:
    """Return one topic. The default filter type is tags."""
    topic = read_topic(request.world, request.given.topic())
    filter_type = topic.filter_type or FilterType.TAGS
    return {
        "topicId": format_id(topic.topic_id),
        "msgCount": retained_count(request.world, topic.name),
        "maxMsgSize": topic.settings.body_bytes_max,
        "msgRetentionSeconds": topic.settings.retention_s,
        "createTime": seconds(topic.created_at),
        "lastModifyTime": seconds(topic.updated_at),
        "filterType": next(number for number, kind in FILTER_TYPES.items() if kind is filter_type),
    }


def list_topics(request: CmqRequest) -> dict[str, object]:
    """List the topics whose names contain ``searchWord``."""
    found = search_topics(request.world, request.given.value("searchWord") or "")
    part = request.part(found, TOPICS_PAGE_MAX)
    topics = [{"topicId": format_id(topic_id), "topicName": name} for name, topic_id in part]
    return {"totalCount": len(found), "topicList": topics}


def delete(request: CmqRequest) -> dict[str, object]:
    """Delete a topic without subscriptions."""
    try:
        delete_topic(request.world, request.given.topic())
    except ConflictError:
        raise CmqError(CmqFault.HAS_SUBSCRIPTIONS) from None
    return {}


def _size(request: CmqRequest) -> int | None:
    size = request.given.integer("maxMsgSize", BODY_BYTES_MIN, BODY_BYTES_ASKED_MAX)
    return None if size is None else min(size, BODY_BYTES_MAX)


def format_id(topic_id: str) -> str:
    """Return a topic's id in CMQ's form.

    >>> format_id("07457000000000000001")
    'topic-07457000000000000001'
    """
    return f"topic-{topic_id}"


ACTIONS: Mapping[str, Action] = {
    "CreateTopic": Action(create, ("topicName", "maxMsgSize", "filterType")),
    "SetTopicAttributes": Action(set_attributes, ("topicName", "maxMsgSize")),
    "GetTopicAttributes": Action(get_attributes, ("topicName",)),
    "ListTopic": Action(list_topics, ("searchWord", "offset", "limit")),
    "DeleteTopic": Action(delete, ("topicName",)),
}
