"""The engine: a run of one subscription's deliveries passes the gates, one after the other, and what is left is sent.

See docs/protocol.md, Pushing, and docs/filters.md, Functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tagcast.errors import UnavailableError
from tagcast.filters.function_filter import FunctionFilter, function_of, judging_s
from tagcast.model import Entry, EntryState, Message, Ordering, Push, Subscription
from tagcast.ports import GroupQueue, QueueEntry, World
from tagcast.pushing.attempts import (
    Delivery,
    Failure,
    Held,
    RunResult,
    alive,
    end_unpushed,
    failed_unpushed,
    put_off,
)
from tagcast.pushing.circuit import CIRCUIT
from tagcast.pushing.ordered_sender import Run, send_in_order, take_requests
from tagcast.pushing.push_slots import Priority, SlotRequest
from tagcast.pushing.rate_limit import RATE
from tagcast.queues import queue_group
from tagcast.rows import stored
from tagcast.sealing.secrets import at_hand, opened
from tagcast.settings import ENQUEUED_AT_ONCE, UNVERIFIED, Signature

JUDGED_AT_ONCE = 100
"""A filter function is asked about at most 100 messages, as docs/filters.md says."""
FILTER_ERROR = "filter_error"
NOT_TAKEN = "the group's queue did not take it"
NOT_OPENED = "what signs the push cannot be read"


async def attempt_run(world: World, run: Run) -> RunResult:
    """Attempt what the gates let through.

    Each gate leaves deliveries out of the run, and says in the result how they ended, failed, or what holds them. What
    is in none of these was not started.
    """
    result = RunResult()
    run = _expired(world, run, result)
    run = _verified(run, result)
    run = await _circuit(world, run, result)
    run = await _rate(world, run, result)
    run = await _filter_function(world, run, result)
    run = await _keys(world, run, result)
    if run.deliveries:
        sent = _enqueued(world, run) if run.subscription.settings.is_group else send_in_order(world, run)
        result.add(await sent)
    return result


def _expired(world: World, run: Run, result: RunResult) -> Run:
    """End what is past its life."""
    return replace(run, deliveries=alive(world, run.subscription, run.deliveries, result, world.clock.now()))


def _verified(run: Run, result: RunResult) -> Run:
    """Hold everything while the endpoint has not agreed to be pushed to: until then what stands first only expires."""
    if run.subscription.settings.unverified is None or not run.deliveries:
        return run
    result.held = Held(run.deliveries[0][0].expires_at, UNVERIFIED)
    return replace(run, deliveries=())


async def _circuit(world: World, run: Run, result: RunResult) -> Run:
    """Ask whether the host may be attempted, if the attempt before failed; a probe is made with the head alone."""
    if not (run.deliveries and run.asks_circuit and run.circuit.is_doubtful):
        return run
    attempt_s = run.subscription.settings.timeout_s + judging_s(run.subscription)
    await run.circuit.ask(attempt_s, run.attempted_at)
    if run.circuit.until is not None:
        result.held = Held(min(run.circuit.until, run.deliveries[0][0].expires_at), CIRCUIT)
        return replace(run, deliveries=())
    return replace(run, deliveries=run.deliveries[:1]) if run.circuit.probe else run


async def _rate(world: World, run: Run, result: RunResult) -> Run:
    """Take as many attempts as the rate of the subscription lets begin soon."""
    if run.subscription.settings.max_per_second is None or not run.deliveries:
        return run
    deliveries, permit = await take_requests(world, run.subscription, run.deliveries, run.slots.bytes)
    result.held = Held(permit.free_at, RATE)
    return replace(run, deliveries=deliveries, permit=permit)


async def _filter_function(world: World, run: Run, result: RunResult) -> Run:
    """Ask the filter function once about all that it has not judged yet, in a slot like a push's.

    Without a slot nothing is started. An error under the policy ``block`` is a failed attempt of the first message in
    question: what stands before it goes on, what stands behind it is not started and stays unjudged.
    """
    function = function_of(run.subscription)
    if function is None:
        return run
    run = replace(run, deliveries=run.deliveries[:JUDGED_AT_ONCE])
    asked = [each for each in run.deliveries if each[0].message_id in run.unjudged]
    if not asked:
        return run
    slot = SlotRequest(function.function, Priority.UNKNOWN)
    if not await run.slots.take(slot, world.clock.monotonic() + run.seconds):
        return replace(run, deliveries=())
    try:
        return replace(run, deliveries=await _judged(world, run, function, asked, result))
    finally:
        run.slots.give_back(slot)


async def _judged(
    world: World, run: Run, function: FunctionFilter, asked: Sequence[Delivery], result: RunResult
) -> Sequence[Delivery]:
    """End or fail those of *asked* that must not be pushed; return what remains of the run's deliveries."""
    subscription = run.subscription
    verdicts = await world.filter_functions.verdicts(subscription, [message for message, _ in asked])
    if verdicts is not None and len(verdicts) == len(asked):
        for (message, made), yes in zip(asked, verdicts, strict=True):
            if yes:
                result.judged.add(message.message_id)
            else:
                end_unpushed(world, subscription, message, Entry(EntryState.FILTERED, made), result)
        return [each for each in run.deliveries if each[0].message_id not in result.ended]
    world.telemetry.filter_failed(subscription.topic, (subscription.name,))
    if function.on_error == "drop":
        for message, made in asked:
            dropped = Entry(EntryState.DISCARDED, made, last_outcome=FILTER_ERROR)
            end_unpushed(world, subscription, message, dropped, result)
        return [each for each in run.deliveries if each[0].message_id not in result.ended]
    message, made = asked[0]
    failed = failed_unpushed(world, Push(subscription, message, made + 1), FILTER_ERROR)
    if isinstance(failed, Failure):
        result.failures[message.message_id] = failed
    else:
        end_unpushed(world, subscription, message, failed, result)
    return run.deliveries[: run.deliveries.index(asked[0])]


async def _keys(world: World, run: Run, result: RunResult) -> Run:
    """Open the secrets of the subscription, and read the service's seeds, if a push needs them.

    While they cannot be read nothing is pushed. That is no attempt, since the trouble is the service's.
    """
    settings = run.subscription.settings
    needs_keys = settings.sealed is not None or settings.signature is Signature.V1A
    if settings.is_group or not needs_keys or not run.deliveries:
        return run
    try:
        ready = _at_hand(world, run.subscription)
        if ready is None:
            ready = await world.executor.run(partial(_with_keys, world, run.subscription))
    except UnavailableError as fault:
        world.telemetry.failed("secrets of a subscription", fault)
        for message, made in alive(world, run.subscription, run.deliveries, result, world.clock.now())[:1]:
            result.failures[message.message_id] = put_off(world, made, NOT_OPENED)
        return replace(run, deliveries=())
    return replace(run, subscription=ready)


def _at_hand(world: World, subscription: Subscription) -> Subscription | None:
    if subscription.settings.signature is Signature.V1A and not world.signer.is_ready:
        return None
    return at_hand(world, subscription)


def _with_keys(world: World, subscription: Subscription) -> Subscription:
    if subscription.settings.signature is Signature.V1A:
        world.signer.prepare()
    return opened(world, subscription)


async def _enqueued(world: World, run: Run) -> RunResult:
    """Send the deliveries to the queue of the group, in their order, ten at a time until the time of the run is over.

    That is no attempt: a pull is. What the queue does not take fails, with as many attempts as it had, since the
    trouble is the service's. What is not reached is left for later. See docs/protocol.md, Pull groups.
    """
    group, result, until = run.subscription, RunResult(), world.clock.monotonic() + run.seconds
    waiting = alive(world, group, run.deliveries, result, world.clock.now())
    if not waiting:
        return result
    entries = await world.executor.run(partial(_entries, world, group, [message for message, _ in waiting]))
    for start in range(0, len(waiting), ENQUEUED_AT_ONCE):
        if result.failures or (start and world.clock.monotonic() >= until):
            break
        end = start + ENQUEUED_AT_ONCE
        send = partial(world.group_queues.send, GroupQueue.of(group), entries[start:end])
        lost = {entry.message_id for entry in await world.executor.run(send)}
        for message, made in waiting[start:end]:
            if message.message_id not in lost:
                result.enqueued.add(message.message_id)
            elif not result.failures:  # Those behind it were not tried, as far as anybody has to know.
                result.failures[message.message_id] = put_off(world, made, NOT_TAKEN)
    world.telemetry.count("HandedOver", len(result.enqueued))
    return result


def _entries(world: World, group: Subscription, messages: Sequence[Message]) -> list[QueueEntry]:
    """Return the entries of *messages*; only an ordered queue is told their orders."""
    ordering = Ordering.NONE
    if group.settings.ordered and (topic := stored.topic(world.store, group.topic)) is not None:
        ordering = topic.ordering
    return [
        QueueEntry(each.topic, each.message_id, queue_group(ordering, each.topic, each.message_id, each.ordering_key))
        for each in messages
    ]
