"""Keeps the state of the engine's other services in files, and answers for no change before it is kept."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from local.engine.asgi import Application, Message, Receive, Scope, Send
from local.engine.aws_request import signer_of
from local.engine.journal import Journal

READS = ("Get", "BatchGet", "TransactGet", "Query", "Scan", "Describe", "List", "Head", "AssumeRole")
"""How the operations are called that write nothing."""
KEPT_OTHERWISE = (
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "BatchExecute", "Execute"),
    *("SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessage", "PurgeQueue"),
    *("PutRecord", "PutEvents", "PutMetricData", "StartExecution", "StopExecution", "SendTask"),
    *("Encrypt", "Decrypt", "GenerateDataKey"),
)
"""How those are called whose changes the journal has, or nobody: executions end with the process, keys are but used."""
OF_ONE = {
    "AmazonSQS": "sqs",
    "DynamoDB_20120810": "dynamodb",
    "secretsmanager": "secretsmanager",
    "TrentService": "kms",
}
"""Services that change nothing but their own state."""

States = Mapping[str, Callable[[], Any]]
"""What answers the state of each service."""


def changed_by(scope: Scope) -> Collection[str] | None:
    """The services whose state a request may change: none, one, or any (None).

    >>> def of(target, method="POST", path="/"):
    ...     return changed_by({"method": method, "path": path, "headers": [(b"x-amz-target", target)]})
    >>> of(b"DynamoDB_20120810.GetItem"), of(b"AmazonSQS.SendMessage"), of(b"AmazonSQS.CreateQueue"), of(b"")
    ((), (), ('sqs',), None)
    >>> of(b"", "GET"), of(b"", "PUT", "/bucket/key"), of(b"", "PUT", "/bucket")
    ((), (), None)
    """
    headers = dict(scope["headers"])
    service, _, operation = headers.get(b"x-amz-target", b"").decode("latin-1").partition(".")
    if operation:
        if operation.startswith(READS) or operation.startswith(KEPT_OTHERWISE):
            return ()
        return (OF_ONE[service],) if service in OF_ONE else None
    if scope["method"] in ("GET", "HEAD") or scope["path"].endswith("/invocations"):
        return ()
    signed_for = signer_of(headers.get(b"authorization", b"").decode("latin-1"))[1]
    is_object = signed_for in ("s3", "") and bool(scope["path"].lstrip("/").partition("/")[2])
    return () if is_object else None


class KeptServices:
    """Writes the *states* into a folder, each as `written` has it: service and state in, JSON out."""

    def __init__(self, states: Callable[[], States], folder: Path, written: Callable[[str, Any], str]) -> None:
        self._states = states
        self._folder = folder
        self._written = written
        self._known: dict[str, str] = {}

    def keep(self, names: Collection[str] | None = None) -> None:
        """Write what has changed of these services, or of all."""
        for name, state_of in self._states().items():
            if names is None or name in names:
                self._keep(name, state_of)

    def _keep(self, name: str, state_of: Callable[[], Any]) -> None:
        try:
            state = state_of()
            text = "" if state is None else self._written(name, state)
            if text and text != self._known.get(name):
                draft = self._folder / f"{name}.json.tmp"
                draft.write_text(text)
                draft.replace(self._folder / f"{name}.json")
                self._known[name] = text
        except Exception as fault:  # noqa: BLE001  One service's state must not cost the others theirs.
            print(f"cannot keep the state of {name}: {fault!r}", flush=True)


def keeping(application: Application, services: KeptServices, journal: Journal) -> Application:
    """The application, whose answers go when what they answer for is kept."""

    async def kept(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        names = changed_by(scope)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                journal.write()
                if names != ():
                    services.keep(names)
            await send(message)

        await application(scope, receive, told)

    return kept


def as_persisted(version: int, state: Any, default: Callable[[Any], Any]) -> str:
    """The state as the engine reads it when it starts; its own writer takes ten times as long for the same text.

    >>> as_persisted(2, {"a": 1}, str)
    '{"__ministack_format__": 2, "payload": {"a": 1}}'
    """
    return json.dumps({"__ministack_format__": version, "payload": state}, default=default)
