"""Calls from the stack's event sources to the engine: plain JSON, in the frames of the workers' SDK.

The sources pass the JSON on, so they need no SDK, which would convert it into objects.
"""

from dataclasses import dataclass, field
from typing import Any

from local.engine.credentials import Credentials
from local.functions.frames import FrameCalls, call_head
from local.functions.quick_json import decode, encode

ANSWER_S = 30.0
TARGETS = {"dynamodbstreams": "DynamoDBStreams_20120810", "sqs": "AmazonSQS"}


class EngineCallError(OSError):
    """The engine refused a call; the message is its response."""


@dataclass
class EngineCalls:
    """Makes the calls of one caller to the engine, which accepts frames at *address* (host:port)."""

    address: str
    credentials: Credentials
    region: str
    _frames: FrameCalls = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the calls. Connections are opened on demand."""
        self._frames = FrameCalls(self.address)

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Make a call of a service in TARGETS. Raises EngineCallError if refused, and OSError without a response."""
        target = f"{TARGETS[service]}.{operation}"
        head = call_head(self.credentials.access_key, self.region, service.removesuffix("streams"), target)
        done, answer = self._frames.call(head, encode(request), ANSWER_S)
        if not done:
            raise EngineCallError(f"{operation}: {answer.decode(errors='replace')}")
        found: dict[str, Any] = decode(answer or b"{}")
        return found
