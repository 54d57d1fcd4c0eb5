"""The process of the embedded engine: ministack with our Lambda host as its Lambda executor.

This folder uses and replaces private names of ministack. `tests/unit/local/test_engine_seam.py` checks each of them.
"""

import asyncio
import fcntl
import http.client
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO
from urllib.parse import quote

from local.engine import last_error, persistent_objects, queues, speedups, statements
from local.engine.asgi import handler_of
from local.engine.aws_request import Call, Handler
from local.engine.callers import FIREHOSE, STATES
from local.engine.checksums import DamageError
from local.engine.direct_calls import DirectCalls, enter
from local.engine.http_server import serve
from local.engine.long_lived import raise_limit
from local.engine.permission_guard import PermissionGuard, Permissions
from local.engine.persistent_state import PersistentState, write_before_answer
from local.rules.limits import EXECUTION_EVENTS_MAX
from local.rules.needs import Account

PARENT_CHECK_S = 1.0
HOST_TIMEOUT_S = 900.0
EXECUTIONS_MAX = 1_000
"""The maximum number of running executions. AWS has a limit, too (a million per account), with the same error."""
ENDED_KEPT, EVENTS_KEPT = 100, 100
"""The number of ended executions that are kept, and of an execution's last events. AWS keeps all for 90 days."""

Executor = Callable[[dict[str, Any], dict[str, Any], str], dict[str, Any]]


def disable_history(functions: ModuleType, events: ModuleType) -> None:
    """Let the engine store no log streams of Lambda functions and no events that EventBridge has delivered.

    *functions* and *events* are the engine's modules for Lambda and EventBridge.
    """
    functions._emit_lambda_logs = lambda *_, **__: None  # type: ignore[attr-defined]
    events._events_log_list = list  # type: ignore[attr-defined]


def host_executor(address: str, otherwise: Executor) -> Executor:
    """Return an executor that invokes functions at the Lambda host with *address* (host:port/key).

    For a function that the host does not know, the executor calls *otherwise*.
    """
    host, _, key = address.partition("/")

    def execute(function: dict[str, Any], event: dict[str, Any], request_id: str) -> dict[str, Any]:
        configuration = function.get("config") or function
        name = str(configuration.get("FunctionName"))
        connection = http.client.HTTPConnection(host, timeout=HOST_TIMEOUT_S)
        try:
            connection.request("POST", f"/{key}/{quote(name)}", json.dumps(event).encode())
            answer = connection.getresponse()
            payload = answer.read()
        except OSError as fault:
            why = {"errorType": "Lambda.ServiceException", "errorMessage": f"the Lambda host does not answer: {fault}"}
            return {"body": why, "error": True, "log": ""}
        finally:
            connection.close()
        if answer.status == HTTPStatus.NOT_FOUND:
            return otherwise(function, event, request_id)
        result = {"body": json.loads(payload) if payload else None, "log": ""}
        return result if answer.status == HTTPStatus.OK else {**result, "error": True}

    return execute


def _why_denied(permissions: Permissions, caller: str, service: str, operation: str, **parameters: Any) -> str:
    """Return why the role of *caller* denies a call of *service*. Return an empty text if nothing denies it.

    A caller without a role may do everything.
    """
    role = permissions.roles.get(caller)
    if role is None:
        return ""
    denied = permissions.first_denied(role, Call(service, operation, parameters))
    if denied is None:
        return ""
    return f"User: {permissions.principal(role)} is not authorized to perform: {denied.action} on {denied.resource}"


def guard_task(permissions: Permissions, call: Callable[..., Any], error: Callable[[str, str], Exception]) -> Any:
    """Wrap *call*, with which a workflow invokes a function. The wrapper raises *error* if the role denies the call."""

    def invoke(function: str, event: Any) -> Any:
        fault = _why_denied(permissions, STATES, "lambda", "Invoke", FunctionName=function)
        if fault:
            raise error("Lambda.AWSLambdaException", fault)
        return call(function, event)

    return invoke


@dataclass
class Executions:
    """Limits the running executions of workflows to *most*, because each execution has a thread of its own.

    *known* has the engine's executions. Of the ended executions, only the last *kept* stay in it.
    """

    known: Any
    most: int = EXECUTIONS_MAX
    kept: int = ENDED_KEPT
    _running: int = 0
    _ended: deque[str] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def full(self) -> bool:
        """Whether no further execution may start."""
        return self._running >= self.most

    def count_run(self, run: Callable[[str], None]) -> Callable[[str], None]:
        """Wrap *run*, which runs one execution. The wrapper counts the execution as long as it runs."""

        def counted_run(execution: str) -> None:
            with self._lock:
                self._running += 1
            try:
                run(execution)
            finally:
                with self._lock:
                    self._running -= 1
                    self._ended.append(execution)
                    if len(self._ended) > self.kept:
                        self.known.pop(self._ended.popleft(), None)

        return counted_run


def bound_history(add: Callable[..., Any], error: Callable[[str, str], Exception]) -> Callable[..., Any]:
    """Wrap *add*, which adds an event to an execution's history. If the history is full, the wrapper raises *error*.

    The error ends the execution. Only the last :data:`EVENTS_KEPT` events are kept. The id of an event is its number.
    """

    def add_bounded(execution: dict[str, Any], kind: str, details: Any = None) -> Any:
        events = execution["events"]
        number = events[-1]["id"] if events else 0
        if kind.endswith("StateEntered") and number >= EXECUTION_EVENTS_MAX:
            raise error("States.Runtime", f"The execution reached the maximum number of {EXECUTION_EVENTS_MAX} events.")
        event = add(execution, kind, details)
        event["id"] = number + 1
        del events[:-EVENTS_KEPT]
        return event

    return add_bounded


def guard_delivery(permissions: Permissions, put: Callable[[str, str, bytes], None]) -> Callable[..., None]:
    """Wrap *put*, with which Firehose writes an object. If Firehose's role denies the write, only log the refusal."""

    def deliver(bucket: str, key: str, body: bytes) -> None:
        fault = _why_denied(permissions, FIREHOSE, "s3", "PutObject", Bucket=bucket, Key=key)
        if fault:
            print(f"Firehose could not deliver: {fault}", flush=True)
        else:
            put(bucket, key, body)

    return deliver


def drop_written_records(deliver: Callable[..., None]) -> Callable[..., None]:
    """Wrap *deliver*, which writes Firehose's records to S3. The wrapper drops written records from memory."""

    def deliver_all(stream: dict[str, Any], destination: dict[str, Any], records: list[Any]) -> None:
        deliver(stream, destination, records)
        destination["records"].clear()

    return deliver_all


def hold(folder: Path) -> TextIO:
    """Lock *folder* until the returned file is closed. Wait for the engine of a killed stack, which may still write."""
    lock = (folder / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"the engine of an earlier run has not ended yet: {folder} is in use", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _stop_with_the_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _guard(permissions: Permissions, full: Callable[[], bool], acts: Mapping[str, Callable[[Any], None]]) -> Handler:
    """Return the engine behind the permission guard. Most calls bypass the engine's router."""
    from ministack import app
    from ministack.services import dynamodb, dynamodb_streams, firehose, sqs

    services = {
        "DynamoDB_20120810": dynamodb.handle_request,
        "DynamoDBStreams_20120810": dynamodb_streams.handle_request,
        "AmazonSQS": sqs.handle_request,
        "Firehose_20150804": firehose.handle_request,
    }
    direct = DirectCalls(handler_of(app.app), services, enter)
    return PermissionGuard(direct, permissions, os.environ["TAGCAST_OWNER"], full, acts)


def main() -> None:
    """Run the engine until SIGTERM. Its settings are environment variables, which `local.engine.engine` sets.

    If a file is damaged or cannot be written, report this and end. The incomplete state is not saved.
    """
    last_error.keep_from_children()
    folder = Path(os.environ["STATE_DIR"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold(folder.parent):
            run(folder)
    except DamageError as damage:
        last_error.end_process(str(damage))
    except OSError as fault:
        sentence = last_error.why_not_written(fault, folder)
        if sentence is None:
            raise
        last_error.end_process(sentence)


def run(folder: Path) -> None:
    """Run the engine until SIGTERM or SIGINT. The engine's state is in *folder* and in the folders next to it."""
    from ministack import app
    from ministack.core import responses
    from ministack.services import dynamodb, dynamodb_streams, eventbridge, firehose, lambda_svc, s3, sqs, stepfunctions

    address = os.environ["TAGCAST_LAMBDA_HOST"]
    lambda_svc._execute_function_warm = host_executor(address, lambda_svc._execute_function_warm)
    disable_history(lambda_svc, eventbridge)
    kept = PersistentState(folder, Path(os.environ["TAGCAST_POSITIONS"]))
    app._load_persisted_state = kept.load_services
    persistent_objects.install(s3)
    queues.install(sqs)
    speedups.install_json(responses, dynamodb, dynamodb_streams, sqs, firehose)
    speedups.install_tables(dynamodb)
    statements.install(dynamodb)

    account = Account(os.environ["MINISTACK_ACCOUNT_ID"], os.environ["MINISTACK_REGION"])
    permissions = Permissions(account, Path(os.environ["TAGCAST_USES"]))
    executions = Executions(stepfunctions._executions)
    stepfunctions._run_execution = executions.count_run(stepfunctions._run_execution)
    stepfunctions._call_lambda = guard_task(permissions, stepfunctions._call_lambda, stepfunctions._ExecutionError)
    stepfunctions._add_event = bound_history(stepfunctions._add_event, stepfunctions._ExecutionError)
    firehose._deliver_records_to_s3 = drop_written_records(firehose._deliver_records_to_s3)
    firehose._put_s3_object = guard_delivery(permissions, persistent_objects.put_object(s3))

    threading.Thread(target=_stop_with_the_parent, args=(int(os.environ["TAGCAST_PARENT"]),), daemon=True).start()
    acts: dict[str, Callable[[Any], None]] = {
        "roles": permissions.put,
        "show": kept.queues.show,
        "expire": lambda what: kept.tables.expire(what["table"], what["attribute"], time.time()),
    }
    handler = write_before_answer(_guard(permissions, lambda: executions.full, acts), kept.services, kept.journal)
    raise_limit()
    ports = int(os.environ["GATEWAY_PORT"]), int(os.environ["TAGCAST_FRAMES_PORT"])
    asyncio.run(serve(app.app, handler, kept, os.environ["BIND_HOST"], *ports, os.environ["TAGCAST_HOST"]))
    kept.end()


if __name__ == "__main__":
    main()
