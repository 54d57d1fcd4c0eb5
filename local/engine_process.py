"""The process of the embedded engine: ministack with its Lambda executor handed to our Lambda host.

Three private names of ministack are used, each held by `tests/unit/local/test_engine_seam.py`:
`lambda_svc._execute_function_warm`, `app._build_persistence_save_dict` and `persistence.save_all`.
"""

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from local.lambda_api import ERROR_HEADER, UNKNOWN_FUNCTION, invocation_path

PARENT_CHECK_S = 1.0
HOST_TIMEOUT_S = 900.0

Executor = Callable[[dict[str, Any], dict[str, Any], str], dict[str, Any]]


def host_executor(host: str, port: int, otherwise: Executor) -> Executor:
    """An executor that invokes our functions at the Lambda host, and any other function as before."""

    def execute(function: dict[str, Any], event: dict[str, Any], request_id: str) -> dict[str, Any]:
        configuration = function.get("config") or function
        name = str(configuration.get("FunctionName"))
        connection = http.client.HTTPConnection(host, port, timeout=HOST_TIMEOUT_S)
        try:
            connection.request("POST", invocation_path(quote(name)), json.dumps(event).encode())
            answer = connection.getresponse()
            payload = answer.read()
        except OSError as fault:
            return _failed("Lambda.ServiceException", f"the Lambda host does not answer: {fault}")
        finally:
            connection.close()
        if answer.status == UNKNOWN_FUNCTION:
            return otherwise(function, event, request_id)
        body = json.loads(payload) if payload else None
        if answer.headers.get(ERROR_HEADER):
            return {"body": body, "error": True, "log": ""}
        return {"body": body, "log": ""}

    return execute


def _failed(error_type: str, message: str) -> dict[str, Any]:
    return {"body": {"errorType": error_type, "errorMessage": message}, "error": True, "log": ""}


def _save_regularly(save: Callable[[], None], every_s: float, stopped: threading.Event) -> None:
    while not stopped.wait(every_s):
        save()


def _stop_with_the_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the engine until SIGTERM; the environment says where (see `local.engine`)."""
    from ministack import app
    from ministack.core import persistence
    from ministack.services import lambda_svc

    Path(os.environ["STATE_DIR"]).mkdir(parents=True, exist_ok=True)
    host, _, port = os.environ["TAGCAST_LAMBDA_HOST"].partition(":")
    lambda_svc._execute_function_warm = host_executor(host, int(port), lambda_svc._execute_function_warm)

    stopped = threading.Event()
    saving = threading.Thread(
        target=_save_regularly,
        args=(
            lambda: persistence.save_all(app._build_persistence_save_dict()),
            float(os.environ["TAGCAST_SNAPSHOT_S"]),
            stopped,
        ),
        daemon=True,
    )
    saving.start()
    threading.Thread(target=_stop_with_the_parent, args=(os.getppid(),), daemon=True).start()
    try:
        app.main()
    finally:
        stopped.set()
        saving.join(timeout=10)
        persistence.save_all(app._build_persistence_save_dict())


if __name__ == "__main__":
    main()
