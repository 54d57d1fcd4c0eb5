"""Leads calls that the service lives of past the SDK's long way: a plugin of botocore in the workers of the functions.

Of a call, the long way takes a millisecond of CPU: addresses, signatures that nobody checks here, HTTP. What is said is
the same. A call that is refused, or not answered, is made again the long way: refusals change nothing, and the SDK then
knows what to raise and what to try again.
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
"""Where botocore looks for plugins; one that does not know it any more goes the long way."""
ADDRESS = "TAGCAST_FRAMES"
"""Where the engine takes frames."""
SERVICES = ("dynamodb", "sqs", "firehose")
"""Whose requests and answers are JSON as the SDK's users have them, but for bytes."""
TURNS = 4
"""Calls of the tables that a process has under way: the engine serves one after the other, for all processes, so that a
process with hundreds to make, as for the lanes of a large topic, lets calls of the others come between."""
METADATA = {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}

Call = Callable[[str, dict[str, Any]], dict[str, Any]]


def plugin_environment(address: str) -> dict[str, str]:
    """What a worker needs to use the plugin, besides the code of `local`."""
    return {PLUGINS: f"tagcast={__name__}", ADDRESS: address}


def initialize_client_plugin(client: Any) -> None:
    """Give a client that has just been made the short way, if its service is the engine's; botocore calls this."""
    model = client.meta.service_model
    if model.service_name in SERVICES and client.meta.endpoint_url == os.environ["AWS_ENDPOINT_URL"]:
        calls = _calls(os.environ[ADDRESS])
        client._make_api_call = ShortCalls(client, calls, os.environ["AWS_ACCESS_KEY_ID"])


class ShortCalls:
    """What carries out the calls of one client."""

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
        """Make a call; what is refused, or not answered, the long way."""
        try:
            with self._turn:
                done, answer = self._calls.call(self._heads[operation], said(parameters), self._answer_s)
        except OSError:
            done, answer = False, b""
        if not done:
            return self._long_way(operation, parameters)
        found: dict[str, Any] = self._read(answer or b"{}")
        found["ResponseMetadata"] = METADATA
        return found


def said(parameters: dict[str, Any]) -> bytes:
    """The body of a request, bytes as Base64.

    >>> said({"Key": {"pk": {"B": b"x"}}})
    b'{"Key": {"pk": {"B": "eA=="}}}'
    """
    return json.dumps(parameters, default=_as_base64).encode()


def with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """An attribute of an answer with the bytes of its Base64; any other object as it is.

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
    raise TypeError(f"{type(value).__name__} is no part of a request")


@cache
def _calls(address: str) -> FrameCalls:
    """The calls of this process, which all its clients share."""
    return FrameCalls(address, TURNS)
