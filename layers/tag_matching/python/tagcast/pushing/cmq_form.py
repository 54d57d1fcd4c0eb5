"""What a push looks like to a receiver that was written for CMQ (docs/from-cmq.md, Pushes)."""

from __future__ import annotations

from tagcast.model import Message, Push
from tagcast.pushing.json_text import base64_text

NOBODY = "0"
"""The owner of topics where no account is known."""
AGENT = "Qcloud Notification Service Agent"


def fields_before(push: Push, account: str) -> dict[str, object]:
    """Return the fields of the JSON body that name topic and subscription; the owner is a number, as CMQ sends it."""
    return {
        "TopicOwner": int(account),
        "topicName": push.message.topic,
        "subscriptionName": push.subscription.name,
    }


def shared_fields(message: Message) -> dict[str, object]:
    """Return the fields of the JSON body that all pushes of *message* have in common; a body of bytes is base64."""
    draft = message.draft
    return {
        "msgId": message.message_id,
        "msgBody": draft.body.decode() if draft.is_text else base64_text(draft.body),
        "publishTime": message.accepted_at // 1000,
    }


def cmq_headers(message: Message, sent_at: int) -> dict[str, str]:
    """Return the headers of CMQ's pushes; tags are separated by a comma and a blank."""
    return {
        "content-type": "text/plain",
        "user-agent": AGENT,
        "x-cmq-request-id": str(sent_at),
        "x-cmq-message-id": message.message_id,
        "x-cmq-message-tag": ", ".join(message.tags),
    }
