"""Publish actions: one message, or a batch with common tags and routing key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tagcast.delivery.publishing import publish_matched
from tagcast.model import Draft, FilterType
from tagcast.registry.directory import read_topic

from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.limits import BATCH_BYTES_MAX, BATCH_MAX, TAGS_MAX
from tagcast_aws.cmq.parameters import check_key
from tagcast_aws.cmq.request import Action, CmqRequest

BATCH = "batchpublishmessage"
"""The action, in lower case, whose requests may exceed ``FORM_BYTES_MAX``."""


def publish_one(request: CmqRequest) -> dict[str, object]:
    """Publish one message."""
    body = request.given.value("msgBody")
    if body is None:
        raise CmqError(CmqFault.LACKS, "msgBody")
    (message_id,) = _publish_bodies(request, "msgBody", (body,))
    return {"msgId": message_id}


def publish_several(request: CmqRequest) -> dict[str, object]:
    """Publish the messages of a batch: all or none, except after a fault of the service."""
    bodies = request.given.items("msgBody")
    if not bodies:
        raise CmqError(CmqFault.LACKS, "msgBody.n")
    if len(bodies) > BATCH_MAX:
        raise CmqError(CmqFault.BATCH_SIZE, "msgBody.n")
    if sum(len(body.encode()) for body in bodies) > BATCH_BYTES_MAX:
        raise CmqError(CmqFault.BATCH_BYTES)
    return {"msgList": [{"msgId": message_id} for message_id in _publish_bodies(request, "msgBody.n", bodies)]}


def _publish_bodies(request: CmqRequest, name: str, bodies: Sequence[str]) -> list[str]:
    given, topic = request.given, request.given.topic()
    if not all(bodies):
        raise CmqError(CmqFault.EMPTY_BODY, name)
    tags = given.tags("msgTag", TAGS_MAX, CmqError(CmqFault.MESSAGE_TAGS))
    routing_key = given.optional("routingKey")
    if routing_key is not None:
        check_key("routingKey", routing_key)
    elif read_topic(request.world, topic).filter_type is FilterType.ROUTING_KEY:
        raise CmqError(CmqFault.NO_ROUTING_KEY)
    drafts = [Draft(body.encode(), tags=tags, routing_key=routing_key) for body in bodies]
    return [accepted.message_id for accepted in publish_matched(request.world, topic, drafts)]


ACTIONS: Mapping[str, Action] = {
    "PublishMessage": Action(publish_one, ("topicName", "msgBody", "msgTag.n", "routingKey")),
    "BatchPublishMessage": Action(publish_several, ("topicName", "msgBody.n", "msgTag.n", "routingKey")),
}
