"""Calls of the engine by the stack's own event sources: kept connections, JSON as it comes, a caller but no signature.

An SDK takes ten times as long for the same: it signs what nobody checks here, and turns what it reads into objects
that the sources would turn back into the JSON that it was.
"""

import http.client
import json
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from local.engine.credentials import Credentials

ANSWER_S = 30.0
TARGETS = {"dynamodbstreams": "DynamoDBStreams_20120810", "sqs": "AmazonSQS"}


class EngineCallError(OSError):
    """The engine refused a call; the message is its answer."""


@dataclass
class EngineCalls:
    """Calls in the name of one caller; each thread has a connection of its own."""

    url: str
    credentials: Credentials
    region: str
    _own: threading.local = field(default_factory=threading.local, init=False)

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Make one call of a service of TARGETS; EngineCallError if it is refused, other OSErrors if none answers."""
        scope = f"20260101/{self.region}/{service.removesuffix('streams')}/aws4_request"
        headers = {
            "x-amz-target": f"{TARGETS[service]}.{operation}",
            "content-type": "application/x-amz-json-1.0",
            "authorization": f"AWS4-HMAC-SHA256 Credential={self.credentials.access_key}/{scope}, Signature=none",
        }
        status, answer = self._send(json.dumps(request).encode(), headers)
        if status != http.HTTPStatus.OK:
            raise EngineCallError(f"{operation}: {answer.decode(errors='replace')}")
        found: dict[str, Any] = json.loads(answer or b"{}")
        return found

    def _send(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (http.client.HTTPException, OSError) as fault:
            connection.close()
            raise ConnectionError(f"the engine does not answer: {fault!r}") from fault

    def _connection(self) -> http.client.HTTPConnection:
        if not hasattr(self._own, "connection"):
            where = urlsplit(self.url)
            self._own.connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=ANSWER_S)
        connection: http.client.HTTPConnection = self._own.connection
        return connection
