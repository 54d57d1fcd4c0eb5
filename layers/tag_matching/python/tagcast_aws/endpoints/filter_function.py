"""Filter functions on Lambda: one synchronous invocation per batch; any error means no verdict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tagcast.filters.function_filter import function_of
from tagcast.model import Message, Subscription
from tagcast.pushing.batch_form import ANSWER_BYTES_MAX
from tagcast.pushing.envelope import filter_event
from tagcast.resource_names import function_named

from tagcast_aws.endpoints.adapter import AdapterEnvironment

if TYPE_CHECKING:
    from tagcast_aws.endpoints.clients import Caller

EVENT_BYTES_MAX = 5_000_000
"""A larger event is split. Lambda takes synchronous events of up to 6 MB."""


class LambdaFilterFunctions:
    """Implements the core's FilterFunctions. The client is created on first use."""

    def __init__(self, surroundings: AdapterEnvironment) -> None:
        self._surroundings = surroundings

    async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...] | None:
        """Return the function's verdict on each message, or None after any error.

        If the messages are too large for one event, each half is sent in an event of its own.
        """
        function = function_of(subscription)
        assert function is not None
        named = function_named(function.function)
        if named is None or named.begins_with(self._surroundings.own_functions):
            return None
        loop = asyncio.get_running_loop()
        event = await loop.run_in_executor(self._surroundings.threads, filter_event, subscription, messages)
        if len(event) > EVENT_BYTES_MAX and len(messages) > 1:
            middle = len(messages) // 2
            first, second = await asyncio.gather(
                self.verdicts(subscription, messages[:middle]), self.verdicts(subscription, messages[middle:])
            )
            return None if first is None or second is None else first + second
        name = function.function
        try:
            payload = await self._caller.call(
                named.region, function.timeout_s, lambda client: _invoke(client, name, event)
            )
            return None if payload is None else verdicts_in(payload, len(messages))
        except Exception:  # noqa: BLE001 Any fault of the subscriber's function, or on the way to it.
            return None

    @cached_property
    def _caller(self) -> Caller:
        from tagcast_aws.endpoints.clients import Caller

        return Caller("lambda", self._surroundings)


def _invoke(client: Any, function: str, event: bytes) -> bytes | None:
    answer = client.invoke(FunctionName=function, InvocationType="RequestResponse", Payload=event)
    payload: bytes = answer["Payload"].read(ANSWER_BYTES_MAX)
    return None if answer.get("FunctionError") else payload


def verdicts_in(payload: bytes, count: int) -> tuple[bool, ...] | None:
    """Return the verdicts in a function's response, or None if they are not exactly *count* booleans.

    >>> verdicts_in(b'{"verdicts": [true, false]}', 2), verdicts_in(b'{"verdicts": [true, 0]}', 2)
    ((True, False), None)
    """
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    verdicts = answer.get("verdicts") if isinstance(answer, dict) else None
    if not isinstance(verdicts, list) or len(verdicts) != count:
        return None
    return tuple(verdicts) if all(isinstance(verdict, bool) for verdict in verdicts) else None
