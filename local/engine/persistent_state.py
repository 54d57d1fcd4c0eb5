"""The engine's persistent state. It survives a kill of all processes, but not a power failure.

No response leaves the engine before the request's changes are written (:func:`write_before_answer`): rows and messages
to the journal, all other state to one file.
"""

import asyncio
import gc
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from local.engine.aws_request import Handler, Request, signer_of
from local.engine.checksums import DamageError
from local.engine.journal import Journal
from local.engine.long_lived import collect_rarely
from local.engine.persistent_queues import OF_QUEUES, PersistentQueues
from local.engine.persistent_services import PersistentServices
from local.engine.persistent_tables import PersistentTables
from local.functions.plain_server import Response

LOOK_S = 1.0
READS = ("Get", "BatchGet", "TransactGet", "Query", "Scan", "Describe", "List", "Head", "AssumeRole")
"""Prefixes of operations that only read."""
KEPT_OTHERWISE = (
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "BatchExecute", "Execute"),
    *("SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessage", "PurgeQueue"),
    *("PutRecord", "PutEvents", "PutMetricData", "StartExecution", "StopExecution", "SendTask"),
    *("Encrypt", "Decrypt", "GenerateDataKey"),
)
"""Prefixes of operations whose changes are in the journal, or are not stored: executions end with the process."""
OF_ONE = {
    "AmazonSQS": "sqs",
    "DynamoDB_20120810": "dynamodb",
    "secretsmanager": "secretsmanager",
    "TrentService": "kms",
}
"""Maps prefixes of `x-amz-target` to services whose operations change only the service's own state."""


class PersistentState:
    """The engine's persistent state: rows and messages in the journal, all other state in one file."""

    def __init__(self, folder: Path, positions: Path) -> None:
        from ministack.services import dynamodb, sqs

        self.journal = Journal(folder.parent / "journal")
        self.tables = PersistentTables(dynamodb, self.journal, positions)
        self.queues = PersistentQueues(sqs, self.journal)
        self.services = PersistentServices(self._states, folder / "services.json", self._encode)
        self.tables.install()
        self.queues.install()

    def load_services(self) -> None:
        """Load all services' states. Raises DamageError if the file is missing, damaged or from a newer engine."""
        from ministack import app
        from ministack.core import persistence

        if not self.journal.exists:
            self.services.keep(())  # Later, a missing file is damage.
        for name, text in self.services.read().items():
            found = json.loads(text, object_hook=persistence._json_object_hook)
            if found["__ministack_format__"] > persistence._state_format_version(name):
                raise DamageError(self.services.path, "a later version of the engine wrote it")
            if found["payload"]:
                app._get_module(app._state_map[name]).load_persisted_state(found["payload"])

    def restore(self) -> None:
        """Restore rows and messages from the journal. Call `load_services` first."""
        gc.disable()  # Everything created here stays.
        state, changes = self.journal.read()
        if state is not None:
            self.tables.restore(state["tables"])
            self.queues.restore(state["queues"])
        for kind, *change in changes:
            (self.queues if kind in OF_QUEUES else self.tables).replay_change(kind, *change)
        self.queues.end()
        self.tables.end()
        gc.enable()

    async def keep_short(self) -> None:
        """Save disk and memory until cancelled: begin a new journal whenever it has grown, and trim the streams."""
        collect_rarely()
        while True:
            await asyncio.sleep(LOOK_S)
            self.tables.trim()
            await self.journal.renew_if_grown(self.state)

    def state(self) -> dict[str, Any]:
        """Return the state of all tables and queues. A new journal begins with this state."""
        return {"tables": self.tables.state(), "queues": self.queues.state()}

    def end(self) -> None:
        """Write all state. Call this after the server has stopped."""
        self.journal.write()
        self.services.keep()

    def _states(self) -> Mapping[str, Callable[[], Any]]:
        from ministack import app

        states = app._build_persistence_save_dict()
        own = {"dynamodb": self.tables.structure, "sqs": self.queues.structure}
        return {**states, **own, "stepfunctions": lambda: without_executions(states["stepfunctions"]())}

    def _encode(self, name: str, state: Any) -> str:
        from ministack.core import persistence

        stored = {"__ministack_format__": persistence._state_format_version(name), "payload": state}
        return json.dumps(stored, default=persistence._json_default)


def without_executions(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of Step Functions without executions, because they end with the engine's process.

    >>> without_executions({"state_machines": 1, "executions": 2, "map_runs": 3})
    {'state_machines': 1}
    """
    return {name: value for name, value in state.items() if name not in ("executions", "map_runs")}


def changed_by(request: Request) -> Collection[str] | None:
    """Return the services whose state in the file of `PersistentServices` a request may change.

    The result is empty if the request changes no such state. It is None if the request may change any.

    >>> def of(target, method="POST", path="/"):
    ...     return changed_by(Request(method, path, "", {"x-amz-target": target}, b""))
    >>> of("DynamoDB_20120810.GetItem"), of("AmazonSQS.SendMessage"), of("AmazonSQS.CreateQueue"), of("")
    ((), (), ('sqs',), None)
    >>> of("", "GET"), of("", "PUT", "/bucket/key"), of("", "PUT", "/bucket")
    ((), (), None)
    """
    service, operation = request.operation
    if operation:
        if operation.startswith(READS) or operation.startswith(KEPT_OTHERWISE):
            return ()
        return (OF_ONE[service],) if service in OF_ONE else None
    if request.method in ("GET", "HEAD") or request.path.endswith("/invocations"):
        return ()
    signed_for = signer_of(request.headers.get("authorization", ""))[1]
    is_object = signed_for in ("s3", "") and bool(request.path.lstrip("/").partition("/")[2])
    return () if is_object else None


def write_before_answer(engine: Handler, services: PersistentServices, journal: Journal) -> Handler:
    """Wrap *engine*, so that the changes of each request are stored before its response is sent."""

    async def handle(request: Request) -> Response:
        response = await engine(request)
        journal.write()
        if (names := changed_by(request)) != ():
            services.keep(names)
        return response

    return handle
