"""Lambda, which nobody else runs without containers: the shipped handlers in this process, and its API's `Invoke`."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from tagcast_aws import wiring

from tests.aws.environments import Context, environ_of
from tests.http_server import Handler, serving

Function = Callable[[Any], Any]


@dataclass
class LambdaApi:
    """Answers `Invoke` of *functions*, by their names; what one raises is the function's error."""

    url: str = ""
    functions: dict[str, Function] = field(default_factory=dict)

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        name = unquote(path).removesuffix("/invocations").rpartition("/")[2].rpartition("function:")[2].split(":")[0]
        function = self.functions.get(name)
        if function is None:
            said = json.dumps({"Type": "User", "Message": f"Function not found: {name}"}).encode()
            return 404, {"x-amzn-ErrorType": "ResourceNotFoundException"}, said
        try:
            return 200, {}, json.dumps(function(json.loads(body))).encode()
        except Exception as fault:  # noqa: BLE001  as the runtime of Lambda does
            said = json.dumps({"errorType": type(fault).__name__, "errorMessage": str(fault)}).encode()
            return 200, {"X-Amz-Function-Error": "Unhandled"}, said


@contextmanager
def lambda_api() -> Iterator[LambdaApi]:
    """Serve `Invoke` on this machine."""
    api = LambdaApi()

    class Serving(Handler):
        def serve(self) -> None:
            status, headers, said = api.answer(self.path, self.body())
            self.answer(status, said, headers)

    with serving(Serving) as api.url:
        yield api


class ShippedFunction:
    """One function of the template: its handler, in a process of its own as far as the wiring goes.

    They run one at a time, since powertools counts for a whole process.
    """

    _turn = threading.Lock()

    def __init__(self, folder: str, properties: Mapping[str, Any], make_client: Callable[..., Any]) -> None:
        module, _, name = str(properties["Handler"]).rpartition(".")
        self._handler = getattr(import_module(f"functions.{folder}.{module}"), name)
        self._process = wiring.Process(wiring.Dependencies(environ_of(properties), make_client))
        self._name, self._timeout_s = str(properties["FunctionName"]), int(properties["Timeout"])

    def __call__(self, event: Any) -> Any:
        """Invoke it as Lambda does: the event comes as JSON, and the answer has to be."""
        with self._turn:
            answer = copy_context().run(self._handled, json.loads(json.dumps(event)))
        return json.loads(json.dumps(answer))

    def _handled(self, event: Any) -> Any:
        wiring.PROCESS.set(self._process)
        context = Context(self._name, f"arn:{self._name}", 512, uuid4().hex, lambda: self._timeout_s * 1000)
        return self._handler(event, context)
