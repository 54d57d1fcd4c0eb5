"""Lambda endpoints: one synchronous invocation per request, which succeeds without a function error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from tagcast.model import Outcome, Push, PushBatch, Subscription
from tagcast.pushing.batch_form import ANSWER_BYTES_MAX, batch_event, read_response
from tagcast.pushing.envelope import function_event
from tagcast.pushing.response_text import READ_BYTES_MAX
from tagcast.resource_names import function_named

from tagcast_aws.endpoints.adapter import OF_THE_SERVICE, AdapterEnvironment
from tagcast_aws.endpoints.clients import Caller

_ERROR_TYPE = re.compile(r"[\w.$]{1,80}", re.ASCII)


class FunctionEndpoint:
    """Invokes subscribed functions, named by name or ARN."""

    def __init__(self, surroundings: AdapterEnvironment) -> None:
        self._caller = Caller("lambda", surroundings)
        self._own = surroundings.own_functions

    async def deliver(self, push: Push) -> Outcome:
        """Invoke the function once."""
        return await self._attempt(push.subscription, lambda: function_event(push), lambda made, _: made)

    async def deliver_batch(self, batch: PushBatch) -> Outcome:
        """Invoke the function once; its result may list failed messages."""
        return await self._attempt(batch.subscription, lambda: batch_event(batch), partial(read_response, batch))

    async def close(self) -> None:
        """Do nothing: there are no connections on the event loop."""

    async def _attempt(
        self, subscription: Subscription, event: Callable[[], bytes], read: Callable[[Outcome, bytes], Outcome]
    ) -> Outcome:
        """Invoke the function with the result of *event*; *read* interprets the response if the invocation succeeds."""
        target = subscription.settings.endpoint.target
        function = function_named(target)
        if function is None:
            return Outcome(False, "not a function name or ARN", unsent=True)
        if function.begins_with(self._own):  # IAM allows fan_out to invoke itself.
            return Outcome(False, OF_THE_SERVICE, unsent=True)
        return await self._caller.attempt(
            subscription, function.region, lambda client: _invoke(client, target, event(), read)
        )


def _invoke(client: Any, name: str, event: bytes, read: Callable[[Outcome, bytes], Outcome]) -> Outcome:
    answer = client.invoke(FunctionName=name, InvocationType="RequestResponse", Payload=event)
    payload: bytes = answer["Payload"].read(ANSWER_BYTES_MAX)
    kind = answer.get("FunctionError")
    if not kind:
        return read(Outcome(True, "function returned"), payload)
    detail = f"function error: {error_type(payload, kind)}"
    return Outcome(False, detail, answer=payload[:READ_BYTES_MAX], refused=True)


def error_type(payload: bytes, kind: str) -> str:
    """Return the ``errorType`` in a failed function's response; if it is missing, *kind*, Lambda's word for the fault.

    >>> error_type(b'{"errorType": "KeyError", "errorMessage": "secret"}', "Unhandled")
    'KeyError'
    """
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        return kind
    named = answer.get("errorType") if isinstance(answer, dict) else None
    return named if isinstance(named, str) and _ERROR_TYPE.fullmatch(named) else kind
