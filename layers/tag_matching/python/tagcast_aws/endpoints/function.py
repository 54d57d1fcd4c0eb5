"""Lambda endpoints: one synchronous invocation per attempt; delivered means no function error."""

from __future__ import annotations

import json
import re
from typing import Any

from tagcast.model import Outcome, Push
from tagcast.pushing.envelope import function_event
from tagcast.pushing.response_text import READ_BYTES_MAX

from tagcast_aws.endpoints.adapter import Surroundings
from tagcast_aws.endpoints.clients import Caller

_ERROR_TYPE = re.compile(r"[\w.$]{1,80}", re.ASCII)


class FunctionEndpoint:
    """Delivers to functions, named by name or ARN."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._caller = Caller("lambda", surroundings)

    async def deliver(self, push: Push) -> Outcome:
        """Invoke the function once."""
        target = push.subscription.settings.endpoint.target
        region = target.split(":")[3] if target.startswith("arn:") else None
        return await self._caller.attempt(push, region, lambda client: _invoke(client, push))

    async def close(self) -> None:
        """Do nothing: no connection belongs to the event loop."""


def _invoke(client: Any, push: Push) -> Outcome:
    answer = client.invoke(
        FunctionName=push.subscription.settings.endpoint.target,
        InvocationType="RequestResponse",
        Payload=function_event(push),
    )
    payload: bytes = answer["Payload"].read()
    kind = answer.get("FunctionError")
    if not kind:
        return Outcome(True, "function returned")
    return Outcome(False, f"function error: {error_type(payload, kind)}", answer=payload[:READ_BYTES_MAX])


def error_type(payload: bytes, kind: str) -> str:
    """Return the ``errorType`` in what a failed function answered, or the *kind* of fault that Lambda names.

    >>> error_type(b'{"errorType": "KeyError", "errorMessage": "secret"}', "Unhandled")
    'KeyError'
    """
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        return kind
    named = answer.get("errorType") if isinstance(answer, dict) else None
    return named if isinstance(named, str) and _ERROR_TYPE.fullmatch(named) else kind
