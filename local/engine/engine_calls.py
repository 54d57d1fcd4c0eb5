"""Calls from the local event sources to the engine, as plain JSON in frames, and credentials of all callers.

The sources pass the JSON on without parsing it into an SDK's objects, so they need no SDK.
"""

import base64
import secrets
from dataclasses import dataclass
from typing import Any

from local.functions.frames import FrameCalls, call_head
from local.functions.quick_json import decode, encode

ANSWER_S = 30.0
TARGETS = {"dynamodbstreams": "DynamoDBStreams_20120810", "sqs": "AmazonSQS"}


@dataclass(frozen=True)
class Credentials:
    """An access key, which identifies a caller, and its secret access key. Each start of the stack creates new ones."""

    access_key: str
    secret: str

    @property
    def environment(self) -> dict[str, str]:
        """The credentials as environment variables for AWS SDKs."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret}


def create_credentials() -> Credentials:
    """Create random credentials, which cannot be guessed.

    >>> len(create_credentials().access_key), create_credentials() == create_credentials()
    (20, False)
    """
    return Credentials(f"ASIA{base64.b32encode(secrets.token_bytes(10)).decode()}", secrets.token_hex(20))


class EngineCallError(OSError):
    """The engine refused a call. The message has the operation and the engine's response."""


@dataclass
class EngineCalls:
    """Makes calls to the engine for one caller."""

    frames: FrameCalls
    credentials: Credentials
    region: str

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Call an *operation* of a *service* in :data:`TARGETS`, and return the response.

        Raises EngineCallError if the engine refuses the call, and OSError if it does not respond.
        """
        target = f"{TARGETS[service]}.{operation}"
        head = call_head(self.credentials.access_key, self.region, service.removesuffix("streams"), target)
        done, answer = self.frames.call(head, encode(request), ANSWER_S)
        if not done:
            raise EngineCallError(f"{operation}: {answer.decode(errors='replace')}")
        found: dict[str, Any] = decode(answer or b"{}")
        return found
