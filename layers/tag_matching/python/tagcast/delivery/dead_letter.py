"""Dead letters: the message of a discarded or expired delivery is published to another topic before the end is written.

So a crash between the two writes loses no letter. The publication is repeated, but stores only one letter
(docs/semantics.md, Dead letters). The relay sends letters to the delivery queue when it reads them in the table's
stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tagcast.errors import NotFoundError, TooLargeError
from tagcast.model import Entry, EntryState, Message, Subscription, SubscriptionSettings
from tagcast.ports import World

DEAD_LETTER = "dead_letter_"
"""The prefix of a dead letter's properties. Producers can set them only in a replay, which ``replay_of`` marks."""
DEAD_LETTER_OF, DEAD_LETTER_FROM = "dead_letter_of", "dead_letter_from"
"""Properties of a dead letter: the original message id, and ``topic/subscription``."""
DEAD_LETTER_STATE, DEAD_LETTER_ATTEMPTS = "dead_letter_state", "dead_letter_attempts"
"""The final state of the delivery, and its number of attempts."""
DEAD_LETTER_OUTCOME, DEAD_LETTER_RESPONSE = "dead_letter_outcome", "dead_letter_response"
"""The last outcome, and the beginning of the receiver's last response, if known."""


def has_dead_letter(settings: SubscriptionSettings, state: EntryState) -> bool:
    """Return whether the message of a delivery that ends in *state* is published to a dead-letter topic.

    >>> from tagcast.subscription_settings import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy
    >>> endpoint, retry = Endpoint(Protocol.PULL, ""), RetryPolicy(Strategy.BACKOFF_RETRY, 3)
    >>> chosen = SubscriptionSettings(endpoint, None, retry, 5, ContentFormat.JSON, None, dead_letter_topic="dead")
    >>> [has_dead_letter(chosen, each) for each in (EntryState.DISCARDED, EntryState.EXPIRED, EntryState.CANCELLED)]
    [True, False, False]
    """
    if settings.dead_letter_topic is None:
        return False
    return state is EntryState.DISCARDED or (state is EntryState.EXPIRED and settings.dead_letter_expired)


def publish_dead_letter(world: World, subscription: Subscription, message: Message, entry: Entry) -> None:
    """Publish *message* to the subscription's dead-letter topic, if it has one for a delivery that ended as *entry*.

    Repeated calls publish once within the message's life. The letter is lost if the topic does not exist or refuses the
    body. A dead letter has no dead letter, so two topics that name each other cannot loop. Lost and omitted letters
    count as ``DeadLettersLost``.
    """
    settings = subscription.settings
    topic = settings.dead_letter_topic
    if topic is None or not has_dead_letter(settings, entry.state):
        return
    if DEAD_LETTER_OF in message.properties:
        world.telemetry.count("DeadLettersLost")
        return
    # Imported here: the first round and the retry start faster without the modules of publishing.
    from tagcast.delivery.publishing import Idempotency, publish_by_relay

    properties = {**message.properties, **_origin(subscription, message, entry)}
    draft = replace(message.draft, properties=properties, trace=message.trace)
    once = Idempotency(f"dead letter {subscription.subscription_id} {message.message_id}", message.message_id)
    try:
        publish_by_relay(world, topic, draft, once)
    except (NotFoundError, TooLargeError):
        world.telemetry.count("DeadLettersLost")


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
    """Publish the dead letters of *messages*, in their order. *ended* has the ended deliveries by message id."""
    for message in messages:
        entry = ended.get(message.message_id)
        if entry is not None and has_dead_letter(subscription.settings, entry.state):
            await world.executor.run(publish_dead_letter, world, subscription, message, entry)
