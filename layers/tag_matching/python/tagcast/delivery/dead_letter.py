"""Dead letters: a delivery that a subscription gave up is published to another topic before its end is written.

An accident between both repeats the publication, which stores one letter. So none is lost (docs/semantics.md, Dead
letters). Nothing here sends to the queue of deliveries: the relay does, as soon as the table's stream has the letter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from tagcast.errors import NotFoundError, TooLargeError
from tagcast.model import Entry, EntryState, Message, Subscription, SubscriptionSettings
from tagcast.ports import World

DEAD_LETTER_OF, DEAD_LETTER_FROM = "dead_letter_of", "dead_letter_from"
"""The properties of a dead letter: the id that the message had, and ``topic/subscription``."""
DEAD_LETTER_STATE, DEAD_LETTER_ATTEMPTS = "dead_letter_state", "dead_letter_attempts"
"""How the delivery ended, and after how many attempts."""
DEAD_LETTER_OUTCOME, DEAD_LETTER_RESPONSE = "dead_letter_outcome", "dead_letter_response"
"""What came of the last attempt, and the beginning of the receiver's last response, as far as they are known."""


def has_dead_letter(settings: SubscriptionSettings, state: EntryState) -> bool:
    """Say whether a delivery that ends in *state* is published to a dead-letter topic.

    >>> from tagcast.settings import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy
    >>> endpoint, retry = Endpoint(Protocol.PULL, ""), RetryPolicy(Strategy.BACKOFF_RETRY, 3)
    >>> chosen = SubscriptionSettings(endpoint, None, retry, 5, ContentFormat.JSON, None, dead_letter_topic="dead")
    >>> [has_dead_letter(chosen, each) for each in (EntryState.DISCARDED, EntryState.EXPIRED, EntryState.CANCELLED)]
    [True, False, False]
    """
    if settings.dead_letter_topic is None:
        return False
    return state is EntryState.DISCARDED or (state is EntryState.EXPIRED and settings.dead_letter_expired)


def publish_dead_letter(world: World, subscription: Subscription, message: Message, entry: Entry) -> None:
    """Publish *message* as a new one with a life of its own, if its delivery ends as *entry* and that has a letter.

    It is published once within its life, however often this is called. A topic that does not exist, or takes no such
    body, gets nothing. Neither does a message that is a dead letter already make a second one, so topics that name
    each other pass nothing around for ever. Both are counted as ``DeadLettersLost``.
    """
    settings = subscription.settings
    topic = settings.dead_letter_topic
    if topic is None or not has_dead_letter(settings, entry.state):
        return
    if DEAD_LETTER_OF in message.properties:
        world.telemetry.count("DeadLettersLost")
        return
    # Only a letter needs the modules of publishing: the first round and the retry start without them.
    from tagcast.delivery.publishing import Idempotency, publish_by_relay

    properties = {**message.properties, **_origin(subscription, message, entry)}
    draft = replace(message.draft, properties=properties, trace=message.trace)
    once = Idempotency(f"dead letter {subscription.subscription_id} {message.message_id}", message.message_id)
    try:
        publish_by_relay(world, topic, draft, once)
    except (NotFoundError, TooLargeError) as fault:
        world.telemetry.count("DeadLettersLost")
        world.telemetry.failed(f"a dead letter for topic {topic}", fault)


def _origin(subscription: Subscription, message: Message, entry: Entry) -> Mapping[str, str]:
    origin = {
        DEAD_LETTER_OF: message.message_id,
        DEAD_LETTER_FROM: f"{subscription.topic}/{subscription.name}",
        DEAD_LETTER_STATE: entry.state.value,
        DEAD_LETTER_ATTEMPTS: str(entry.attempts),
    }
    if entry.last_outcome:
        origin[DEAD_LETTER_OUTCOME] = entry.last_outcome
    if entry.history and entry.history[-1].response:
        origin[DEAD_LETTER_RESPONSE] = entry.history[-1].response
    return origin


async def publish_dead_letter_after_run(
    world: World, subscription: Subscription, messages: Collection[Message], ended: Mapping[str, Entry]
) -> None:
    """Publish the dead letters of those *messages* that *ended* names, in their order."""
    for message in messages:
        entry = ended.get(message.message_id)
        if entry is not None and has_dead_letter(subscription.settings, entry.state):
            await world.executor.run(partial(publish_dead_letter, world, subscription, message, entry))
