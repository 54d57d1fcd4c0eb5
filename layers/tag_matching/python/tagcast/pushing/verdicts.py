"""Verdicts of filter functions: asked for before the first attempt, and never again once given.

See docs/filters.md, Functions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tagcast.filters.function_filter import FunctionFilter, function_of
from tagcast.model import Entry, EntryState, Message, Push, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import Delivery, Failure, Progress, failed_unpushed
from tagcast.pushing.course import Share, attempt_in_order
from tagcast.pushing.handing import hand_over
from tagcast.pushing.opening import attempt_opened
from tagcast.pushing.push_slots import Ask, Rank
from tagcast.settings import Signature

BATCH_MAX = 100
FILTER_ERROR = "filter_error"


def is_judged_by_function(subscription: Subscription) -> bool:
    """Say whether deliveries to *subscription* need the verdict of a function."""
    return function_of(subscription) is not None


def judging_s(subscription: Subscription) -> int:
    """Return how many seconds a verdict may take; 0 where no function decides."""
    function = function_of(subscription)
    return 0 if function is None else function.timeout_s


async def attempt_judged(
    world: World,
    subscription: Subscription,
    deliveries: Sequence[Delivery],
    unjudged: Collection[str],
    share: Share,
) -> Progress:
    """Push *deliveries*, or hand them over to a group, those among *unjudged* only if the filter function says yes.

    It is asked once about all of them, in a slot like a push; without one nothing is started. An error under the
    policy ``block`` is a failed attempt of the first one: what stands before it is pushed, what stands behind it is
    not started and stays unjudged.
    """
    function = function_of(subscription)
    progress = Progress()
    ready = list(deliveries)
    if function is not None:
        now = world.clock.now()
        for message, made in ready[:BATCH_MAX]:
            # Settled here: a clock that is set back must not let it be pushed without a verdict.
            if message.message_id in unjudged and message.is_expired(now):
                _settle(world, subscription, message, Entry(EntryState.EXPIRED, made), progress)
        ready = [each for each in ready[:BATCH_MAX] if each[0].message_id not in progress.settled]
        asked = [each for each in ready if each[0].message_id in unjudged]
        if asked:
            until = world.clock.monotonic() + share.seconds
            ask = Ask(function.function, Rank.UNKNOWN)
            if not await share.slots.take(ask, until):
                return progress
            try:
                ready = await _judge(world, subscription, function, ready, asked, progress)
            finally:
                share.slots.give_back(ask)
    if subscription.settings.is_group:
        came = await hand_over(world, subscription, ready, share.seconds)
    elif subscription.settings.sealed is not None or subscription.settings.signature is Signature.V1A:
        came = await attempt_opened(world, subscription, ready, share)
    else:
        came = await attempt_in_order(world, subscription, ready, share)
    progress.settled |= came.settled
    progress.failures |= came.failures
    progress.handed |= came.handed
    return progress


async def _judge(
    world: World,
    subscription: Subscription,
    function: FunctionFilter,
    deliveries: Sequence[Delivery],
    asked: Sequence[Delivery],
    progress: Progress,
) -> list[Delivery]:
    """Settle or fail those of *asked* that must not be pushed; return what remains of *deliveries*."""
    verdicts = await world.filter_functions.verdicts(subscription, [message for message, _ in asked])
    if verdicts is not None and len(verdicts) == len(asked):
        for (message, made), yes in zip(asked, verdicts, strict=True):
            if yes:
                progress.judged.add(message.message_id)
            else:
                _settle(world, subscription, message, Entry(EntryState.FILTERED, made), progress)
        return [each for each in deliveries if each[0].message_id not in progress.settled]
    world.telemetry.filter_failed(subscription.topic, (subscription.name,))
    if function.on_error == "drop":
        for message, made in asked:
            dropped = Entry(EntryState.DISCARDED, made, last_outcome=FILTER_ERROR)
            _settle(world, subscription, message, dropped, progress)
        return [each for each in deliveries if each[0].message_id not in progress.settled]
    message, made = asked[0]
    result = failed_unpushed(world, Push(subscription, message, made + 1), FILTER_ERROR)
    if isinstance(result, Failure):
        progress.failures[message.message_id] = result
    else:
        _settle(world, subscription, message, result, progress)
    return list(deliveries[: deliveries.index(asked[0])])


def _settle(world: World, subscription: Subscription, message: Message, entry: Entry, progress: Progress) -> None:
    progress.settled[message.message_id] = entry
    world.telemetry.settled(message, subscription, entry.state)
