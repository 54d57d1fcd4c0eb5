"""A botocore plugin for the workers. It sends frequent calls in frames instead of HTTP requests.

This saves the millisecond of CPU time that the SDK takes per call for endpoints, signatures and HTTP. If the engine
refuses a call or does not respond, the SDK sends the call again over HTTP. So errors and retries are the SDK's own. A
refused call has changed nothing.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

from local.functions.frames import FrameCalls, call_head

PLUGINS = "BOTOCORE_EXPERIMENTAL__PLUGINS"
"""botocore's variable for plugins; a version that ignores it uses HTTP."""
ADDRESS = "TAGCAST_FRAMES"
"""The variable with the engine's address for frames."""
SERVICES = ("dynamodb", "sqs", "firehose")
"""Services whose JSON equals the SDK's parameters and results, except bytes."""
TURNS = 4
"""The maximum number of concurrent table calls of a process. The engine serves all calls one after the other.

So a process with hundreds of calls, such as for the lanes of a large topic, delays no other process.
"""
METADATA = {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}

Call = Callable[[str, dict[str, Any]], dict[str, Any]]


def plugin_environment(address: str) -> dict[str, str]:
    """Return the environment variables of the plugin. *address* (host:port) accepts frames.

    A worker that uses the plugin must be able to import `local`.
    """
    return {PLUGINS: f"tagcast={__name__}", ADDRESS: address}


def initialize_client_plugin(client: Any) -> None:
    """Install the plugin in *client* if its requests go to the engine. botocore calls this for each new client."""
    model = client.meta.service_model
    if model.service_name in SERVICES and client.meta.endpoint_url == os.environ["AWS_ENDPOINT_URL"]:
        calls = _calls(os.environ[ADDRESS])
        client._make_api_call = ShortCalls(client, calls, os.environ["AWS_ACCESS_KEY_ID"])


class ShortCalls:
    """Makes the calls of one boto3 client, in frames instead of HTTP requests."""

    def __init__(self, client: Any, calls: FrameCalls, access_key: str) -> None:
        model = client.meta.service_model
        self._long_way: Call = client._make_api_call
        self._answer_s: float = client.meta.config.read_timeout
        self._calls = calls
        self._turn = calls.turn if model.service_name == "dynamodb" else nullcontext()
        self._read = partial(json.loads, object_hook=with_bytes) if model.service_name == "dynamodb" else json.loads
        region, service, prefix = client.meta.region_name, model.signing_name, model.metadata["targetPrefix"]
        self._heads = {
            name: call_head(access_key, region, service, f"{prefix}.{name}") for name in model.operation_names
        }

    def __call__(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Make a call. Repeat a refused or unanswered call with the SDK."""
        try:
            with self._turn:
                done, answer = self._calls.call(self._heads[operation], encode_request(parameters), self._answer_s)
        except OSError:
            done, answer = False, b""
        if not done:
            return self._long_way(operation, parameters)
        found: dict[str, Any] = self._read(answer or b"{}")
        found["ResponseMetadata"] = METADATA
        return found


def encode_request(parameters: dict[str, Any]) -> bytes:
    """Return the JSON body of a request. Bytes become Base64 text.

    >>> encode_request({"Key": {"pk": {"B": b"x"}}})
    b'{"Key": {"pk": {"B": "eA=="}}}'
    """
    return json.dumps(parameters, default=_as_base64).encode()


def with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Replace the Base64 text in a binary attribute value by bytes. Return any other JSON object unchanged.

    >>> with_bytes({"B": "eA=="}), with_bytes({"BS": ["eA=="]}), with_bytes({"B": {"S": "an attribute B"}})
    ({'B': b'x'}, {'BS': [b'x']}, {'B': {'S': 'an attribute B'}})
    """
    if isinstance(value.get("B"), str):
        value["B"] = b64decode(value["B"])
    elif isinstance(value.get("BS"), list):
        value["BS"] = [b64decode(text) for text in value["BS"]]
    return value


def _as_base64(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} cannot be a part of a request")


@cache
def _calls(address: str) -> FrameCalls:
    return FrameCalls(address, TURNS)
