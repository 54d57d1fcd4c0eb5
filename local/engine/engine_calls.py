"""Calls from the local event sources to the engine, as plain JSON in frames.

The sources pass the JSON on without parsing it into an SDK's objects, so they need no SDK.
"""

from dataclasses import dataclass, field
from typing import Any

from local.engine.credentials import Credentials
from local.functions.frames import FrameCalls, call_head
from local.functions.quick_json import decode, encode

ANSWER_S = 30.0
TARGETS = {"dynamodbstreams": "DynamoDBStreams_20120810", "sqs": "AmazonSQS"}


class EngineCallError(OSError):
    """The engine refused a call. The message has the operation and the engine's response."""


@dataclass
class EngineCalls:
    """Makes calls to the engine for one caller. The engine accepts frames at *address* (host:port)."""

    address: str
    credentials: Credentials
    region: str
    _frames: FrameCalls = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the calls. Connections are opened on demand."""
        self._frames = FrameCalls(self.address)

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Call an *operation* of a *service* in :data:`TARGETS`, and return the response.

        Raises EngineCallError if the engine refuses the call, and OSError if it does not respond.
        """
        target = f"{TARGETS[service]}.{operation}"
        head = call_head(self.credentials.access_key, self.region, service.removesuffix("streams"), target)
        done, answer = self._frames.call(head, encode(request), ANSWER_S)
        if not done:
            raise EngineCallError(f"{operation}: {answer.decode(errors='replace')}")
        found: dict[str, Any] = decode(answer or b"{}")
        return found
