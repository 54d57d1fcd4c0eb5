"""The consumer. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import count
from types import TracebackType
from typing import Self

from tagcast_client._async.client import AsyncClient
from tagcast_client.asyncio_tasks import (
    AsyncListener,
    AsyncSlots,
    AsyncTasks,
    async_verdict,
    is_abandoned,
    report_fault,
)
from tagcast_client.consuming import Batch, ConsumerOptions
from tagcast_client.consuming import member_id as new_member_id
from tagcast_client.errors import (
    AcknowledgedLateError,
    DisagreementError,
    InvalidError,
    NotFoundError,
    ServerError,
    TagcastError,
    UnreachableError,
)
from tagcast_client.filters import Filter
from tagcast_client.settings import AnyFilter

BACKOFF_S_MAX = 30.0
HANDLES_MAX = 100
"""The maximum messages of an extend request."""
ABANDONED_AFTER_S = 0.2
"""The seconds from a shutdown until the consumer abandons a pull without an answer."""
ENDS_WITHIN_S = 5.0
"""The time in which the last heartbeats and extensions are answered, and then the requests to leave. Afterwards the
consumer abandons them: the membership ends without heartbeats."""
_LOG = logging.getLogger("tagcast_client.consumer")


def _log(fault: Exception) -> None:
    """Log a fault: an error of a listener with its traceback."""
    trace = None if isinstance(fault, TagcastError) else fault
    _LOG.warning("%s: %s", type(fault).__name__, fault, exc_info=trace)


class AsyncConsumer:
    """A member of a consumer group: it pulls messages, calls a listener, and acknowledges the messages.

    The consumer continues after a failed listener, a changed filter of the group, or an unreachable API. It reports
    each error to *on_error*, which by default logs the error. Use the consumer as a context manager, or call `start`
    and `shutdown`.
    """

    def __init__(
        self,
        client: AsyncClient,
        consumer_group: str,
        options: ConsumerOptions | None = None,
        on_error: Callable[[Exception], None] = _log,
    ) -> None:
        self.client = client
        self.consumer_group = consumer_group
        self.options = options or ConsumerOptions()
        self.member_id = self.options.member_id or ""
        self._on_error = on_error
        self._listener: AsyncListener | None = None
        self._filters: dict[str, AnyFilter | None] = {}
        self._subscriptions: dict[str, str] = {}
        self._batches: set[Batch] = set()
        self._pulls, self._work, self._upkeep, self._end = AsyncTasks(), AsyncTasks(), AsyncTasks(), AsyncTasks()
        self._slots = AsyncSlots(self.options.consume_thread_max)
        self._own_shutdowns = count()
        self._has_left = False

    def subscribe(self, topic: str, expression: str | AnyFilter | None = "*") -> None:
        """Before `start`, subscribe to a topic with a tag expression (``TagA || TagB``) or any other filter.

        A text is a tag expression. None and the default ``*`` match everything.
        """
        self._filters[topic] = Filter.tag_expression(expression) if isinstance(expression, str) else expression

    def register_message_listener(self, listener: AsyncListener) -> None:
        """Set the listener, which is called with each batch of messages. Its result says what happens to the batch.

        None acknowledges it. Other results are a `ConsumeStatus` and `Later`. An exception counts as RECONSUME_LATER.
        """
        self._listener = listener

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.shutdown()
        except BaseException:  # Cancelled or interrupted, and `shutdown` is not called again.
            try:
                await self._work.abandon(0)
            finally:
                await self._end_membership()
            raise

    async def start(self) -> None:
        """Join the group and start to pull. Raises the errors of the first heartbeat, e.g. DisagreementError.

        Start a consumer only once. Raises ValueError without a subscription or a listener, and RuntimeError after a
        shutdown.
        """
        if self._listener is None or not self._filters:
            raise ValueError("a consumer needs a subscription and a listener before it starts")
        if self._work.stopping:
            raise RuntimeError("this consumer was shut down: create another one")
        self.member_id = self.member_id or new_member_id()  # Not in __init__: a fork would share it.
        try:
            for topic in self._filters:
                try:
                    await self._beat(topic)
                except BaseException as fault:
                    # A refused member is listed in the group, too. An interrupted heartbeat may have arrived.
                    if isinstance(fault, DisagreementError) or not isinstance(fault, Exception):
                        self._subscriptions[topic] = self.consumer_group
                    raise
        except BaseException:
            self._end.start(self._leave)
            await self._end.abandon(ENDS_WITHIN_S)
            self._subscriptions = {}  # Not cleared: an abandoned thread may still read it.
            raise
        for topic in self._filters:
            self._upkeep.start(self._stay_alive, topic)
            self._pulls.start(self._pull_all, topic)
        self._upkeep.start(self._prolong)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for `shutdown`, and return whether `shutdown` was called.

        The call waits for at most *seconds*, or without end if *seconds* is None.
        """
        return await self._work.pause(seconds)

    async def shutdown(self) -> None:
        """Stop pulling, wait for the listeners, acknowledge, and leave the group.

        A listener or *on_error* may call `shutdown`, too. Only the first of these inner calls shuts down; the others
        return at once. A pull that does not end in time is abandoned; its messages become visible again when their
        visibility timeout ends.

        If the call is cancelled, listeners and heartbeats continue, so call `shutdown` again. The end of a ``with``
        block cannot be repeated. So if the end of a block is cancelled, the listeners are cancelled, too.
        """
        self._work.stop()
        self._pulls.stop()
        is_own = any(tasks.has_caller() for tasks in (self._pulls, self._work, self._upkeep))
        if is_own and next(self._own_shutdowns):  # Otherwise two of them wait for each other.
            return
        await self._pulls.abandon(ABANDONED_AFTER_S)
        await self._work.join()
        await self._end_membership()

    async def _end_membership(self) -> None:
        """Stop heartbeats and extensions, and leave the group."""
        self._upkeep.stop()
        try:
            await self._upkeep.abandon(ENDS_WITHIN_S)
        finally:
            await self._leave_once()

    async def _leave_once(self) -> None:
        if self._has_left:
            return
        self._has_left = True
        try:
            self._end.start(self._leave)
        except RuntimeError:  # No thread could start, e.g. because the interpreter ends.
            await self._leave()
        await self._end.abandon(ENDS_WITHIN_S)

    async def _leave(self) -> None:
        """Leave the group in the topics that this consumer has joined. Stop if the service fails or does not answer."""
        for topic in self._subscriptions:
            try:
                await self.client.leave(topic, self.consumer_group, self.member_id)
            except (ServerError, UnreachableError) as fault:
                self._report(fault)
                return  # Other tries would take as long. The memberships end without heartbeats.
            except NotFoundError:
                pass  # This consumer is not a member, e.g. because its first heartbeat was interrupted.
            except TagcastError as fault:
                self._report(fault)

    def _report(self, fault: Exception) -> None:
        """Report a fault to *on_error*. If *on_error* fails, log its error and continue."""
        try:
            report_fault(self._on_error, fault)
        except Exception:  # noqa: BLE001 - logged
            _LOG.exception("on_error failed")

    async def _beat(self, topic: str) -> None:
        options = self.options
        group = await self.client.heartbeat(
            topic,
            self.consumer_group,
            self.member_id,
            self._filters[topic],
            member_version=options.member_version,
            mode=options.message_model.value,
            ordered=options.ordered,
            start_from=options.start_from,
        )
        self._subscriptions[topic] = group.subscription

    async def _stay_alive(self, topic: str) -> None:
        while not await self._upkeep.pause(self.options.heartbeat_seconds):
            try:
                await self._beat(topic)
            except Exception as fault:  # noqa: BLE001 - reported, and the next heartbeat follows
                self._report(fault)

    async def _pull_all(self, topic: str) -> None:
        rest_s, options, most = 0.0, self.options, 1
        while not await self._work.pause(rest_s):
            slots = await self._slots.take(most)
            parts: list[list[Batch]] = []
            try:
                if not self._work.stopping:
                    parts = await self._pull_parts(topic, slots)
                rest_s = 0.0 if parts else options.pull_interval_seconds
            except Exception as fault:  # noqa: BLE001 - reported, and the next pull follows
                if self._pulls.stopping:
                    return
                self._report(fault)
                rest_s = min(BACKOFF_S_MAX, max(1.0, 2 * rest_s))
            if is_abandoned():
                return
            # A pull that waits for messages keeps one slot only: other topics need the rest.
            most = options.consume_thread_max if parts and not options.ordered else 1
            self._slots.give_back(slots - len(parts))
            for part in parts:
                self._batches.update(part)
                try:
                    self._work.start(self._consume, part)
                except RuntimeError as fault:  # No thread could start: the messages come again.
                    self._batches.difference_update(part)
                    self._slots.give_back(1)
                    self._report(fault)

    async def _pull_parts(self, topic: str, slots: int) -> list[list[Batch]]:
        options = self.options
        messages = await self.client.pull(
            topic,
            self._subscriptions[topic],
            max_messages=options.messages_max(slots),
            wait_seconds=options.wait_seconds,
            visibility_timeout_seconds=options.visibility_timeout_seconds,
            member_id=self.member_id,
        )
        return Batch.split(topic, messages, options.consume_message_batch_max_size)

    async def _consume(self, part: Sequence[Batch]) -> None:
        """Call the listener with one batch after the other.

        In an ordered group, stop at the first failed batch, and nack the rest with it by one request: a pull between
        two requests could get a later message without the one before it.
        """
        try:
            for number, batch in enumerate(part):
                delay_s = await self._call_listener(batch)
                if delay_s is not None and self.options.ordered:
                    self._batches.difference_update(part)
                    await self._answer(Batch.join(part[number:]), delay_s)
                    return
                await self._answer(batch, delay_s)
        finally:
            self._slots.give_back(1)

    async def _answer(self, batch: Batch, delay_s: int | None) -> None:
        """Acknowledge *batch*, or nack it with a delay of *delay_s* seconds."""
        self._batches.discard(batch)
        batch.delay_s = delay_s
        try:
            if delay_s is None:
                results = await self.client.ack(batch.topic, self._subscriptions[batch.topic], batch.handles)
                late = {each.receipt_handle for each in results if each.status in ("expired", "unknown")}
                if late:
                    self._report(AcknowledgedLateError(batch.ids_of(late)))
            else:
                await self._give_back(batch)
        except Exception as fault:  # noqa: BLE001 - reported, and the messages come again
            self._report(fault)

    async def _give_back(self, batch: Batch) -> None:
        subscription = self._subscriptions[batch.topic]
        await self.client.nack(batch.topic, subscription, batch.handles, delay_seconds=batch.delay_s)

    async def _call_listener(self, batch: Batch) -> int | None:
        """Return the listener's verdict on *batch*: None for success, or the seconds until it becomes visible again."""
        assert self._listener is not None
        try:
            return self.options.delay_s(await async_verdict(self._listener, batch.messages))
        except Exception as fault:  # noqa: BLE001 - logged, and the batch is redelivered
            self._report(fault)
            return self.options.suspend_seconds

    async def _prolong(self) -> None:
        """Extend the visibility timeout of the messages that listeners process. Requests run concurrently."""
        pause_s = self.options.prolong_seconds or self.options.visibility_timeout_seconds / 3
        while not await self._upkeep.pause(pause_s):
            for topic, batches in Batch.together(self._batches, HANDLES_MAX):
                self._start_extension(topic, batches)

    def _start_extension(self, topic: str, batches: Sequence[Batch]) -> None:
        try:
            self._upkeep.start(self._extend, topic, batches)
        except RuntimeError as fault:  # No thread could start: the next extension follows.
            self._report(fault)

    async def _extend(self, topic: str, batches: Sequence[Batch]) -> None:
        subscription, seconds = self._subscriptions[topic], self.options.visibility_timeout_seconds
        handles = [handle for batch in batches for handle in batch.handles]
        try:
            results = await self.client.extend(topic, subscription, handles, visibility_timeout_seconds=seconds)
        except InvalidError as fault:  # A message was pulled almost 12 hours ago, so all of the request was refused.
            if len(batches) > 1:
                for batch in batches:
                    self._start_extension(topic, (batch,))
            else:
                self._batches.discard(batches[0])
                self._report(fault)
            return
        except Exception as fault:  # noqa: BLE001 - reported, and the next extension follows
            self._report(fault)
            return
        renewed = {result.receipt_handle: result.new_receipt_handle or result.receipt_handle for result in results}
        for batch in batches:
            batch.handles = [renewed.get(handle, handle) for handle in batch.handles]
            if batch.delay_s is None:
                continue
            try:
                await self._give_back(batch)  # Again, because the extension may have come after the first nack.
            except Exception as fault:  # noqa: BLE001 - reported, and the messages come again
                self._report(fault)
