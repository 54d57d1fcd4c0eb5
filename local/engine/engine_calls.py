"""Calls of the engine by the stack's own event sources: JSON as it comes, in the frames that the workers' SDK uses.

An SDK would turn what it reads into objects that the sources would turn back into the JSON that it was.
"""

from dataclasses import dataclass, field
from typing import Any

from local.engine.credentials import Credentials
from local.functions.frames import FrameCalls, call_head
from local.functions.quick_json import decoded, encoded

ANSWER_S = 30.0
TARGETS = {"dynamodbstreams": "DynamoDBStreams_20120810", "sqs": "AmazonSQS"}


class EngineCallError(OSError):
    """The engine refused a call; the message is its answer."""


@dataclass
class EngineCalls:
    """Calls in the name of one caller, to the engine that takes frames at *address*."""

    address: str
    credentials: Credentials
    region: str
    _frames: FrameCalls = field(init=False)

    def __post_init__(self) -> None:
        """Make no connection yet."""
        self._frames = FrameCalls(self.address)

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Make one call of a service of TARGETS; EngineCallError if it is refused, other OSErrors if none answers."""
        target = f"{TARGETS[service]}.{operation}"
        head = call_head(self.credentials.access_key, self.region, service.removesuffix("streams"), target)
        done, answer = self._frames.call(head, encoded(request), ANSWER_S)
        if not done:
            raise EngineCallError(f"{operation}: {answer.decode(errors='replace')}")
        found: dict[str, Any] = decoded(answer or b"{}")
        return found
