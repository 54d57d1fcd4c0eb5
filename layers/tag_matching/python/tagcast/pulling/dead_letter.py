"""Dead letters: what a group discards is published to the topic that it named for that."""

from __future__ import annotations

from dataclasses import replace

from tagcast.delivery.idempotency import Idempotency
from tagcast.delivery.publishing import publish
from tagcast.errors import NotFoundError, TooLargeError
from tagcast.model import Message, Subscription
from tagcast.ports import World

DEAD_LETTER_OF, DEAD_LETTER_FROM = "dead_letter_of", "dead_letter_from"
"""The properties of a dead letter: the id that the message had, and ``topic/group`` of who discarded it."""


def publish_dead_letter(world: World, group: Subscription, message: Message) -> None:
    """Publish *message* as a new one with a life of its own, once within five minutes, however often it is asked for.

    A topic that is not there, or takes no such body, gets nothing; nor does any of what is a letter already, so that
    topics that name each other pass nothing around for ever. Both are counted as ``DeadLettersLost``.
    """
    topic = group.settings.dead_letter_topic
    if topic is None:
        return
    if DEAD_LETTER_OF in message.properties:
        world.telemetry.count("DeadLettersLost")
        return
    origin = {DEAD_LETTER_OF: message.message_id, DEAD_LETTER_FROM: f"{group.topic}/{group.name}"}
    draft = replace(message.draft, properties={**message.properties, **origin}, trace=message.trace)
    once = Idempotency(f"dead letter {group.subscription_id} {message.message_id}", message.message_id)
    try:
        publish(world, topic, (draft,), once)
    except (NotFoundError, TooLargeError) as fault:
        world.telemetry.count("DeadLettersLost")
        world.telemetry.failed(f"a dead letter for topic {topic}", fault)
