"""Clients of the deployment's AWS services, with their retries and timeouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from typing import Any, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError

from tagcast_aws.runtime.system import CALLS_MAX

ROW_READS = ("BatchGetItem", "GetItem", "Query", "Scan")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """The number of attempts of a call, and the timeout of each attempt in seconds."""

    attempts_max: int
    answer_s: int

    @property
    def longest_s(self) -> float:
        """The maximum duration of a call in seconds, including the SDK's pauses (1, 2, 4 … at most 20 s each).

        >>> Patience(4, 4).longest_s, Patience(1, 25).longest_s
        (27.0, 26.0)
        """
        pauses_s = sum((min(2.0**number, 20.0) for number in range(self.attempts_max - 1)), 0.0)
        return self.attempts_max * (CONNECT_S + self.answer_s) + pauses_s


CONNECT_S = 1
USUAL = Patience(attempts_max=4, answer_s=4)
"""For most calls. A call takes at most 27 s, and every function may run for 29 s or more (docs/limits.md)."""
SOON = Patience(attempts_max=2, answer_s=3)
"""For writes of live events, which the function `archive` waits for."""
ONCE = Patience(attempts_max=1, answer_s=8)
"""For calls whose caller retries, as the archive retries records that Firehose refused."""
WAITING = Patience(attempts_max=1, answer_s=25)
"""For long polling: a retry by the SDK would count as a second pull of each message."""


def client_factory(make_client: Callable[..., Any] | None, patience: Patience = USUAL) -> Callable[[str], Any]:
    """Return a thread-safe function that takes the name of a service and returns its client, always the same.

    *make_client* has the signature of ``boto3.client``, the default, which is not thread-safe. The clients do not
    validate requests: AWS validates them anyway, and validation costs a tenth to a fifth of a call's CPU time.
    """
    from botocore.config import Config

    config = Config(
        # `max_attempts` would count only the retries.
        retries={"mode": "standard", "total_max_attempts": patience.attempts_max},
        connect_timeout=CONNECT_S,
        read_timeout=patience.answer_s,
        max_pool_connections=CALLS_MAX,
        parameter_validation=False,
    )
    lock, made = Lock(), dict[str, Any]()

    def client(service: str) -> Any:
        with lock:
            if service not in made:
                made[service] = (make_client or _boto3_client)(service, config=config)
            return made[service]

    return client


def _boto3_client(service: str, **how: Any) -> Any:
    import boto3

    return with_plain_rows(boto3.client(service, **how))  # type: ignore[call-overload]


def with_plain_rows(client: T) -> T:
    """Make *client* return rows of DynamoDB in their wire form (typed JSON, bytes as base64); return *client*.

    This saves time: botocore checks each value, which takes 20 times as long as parsing the JSON of a hundred rows.
    Errors and other operations are unchanged.
    """
    events = cast("Any", client).meta.events
    for operation in ROW_READS:
        events.register(f"before-parse.dynamodb.{operation}", _read_plainly)
    return client


def _read_plainly(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    if response_dict["status_code"] == HTTPStatus.OK:
        customized_response_dict.update(json.loads(response_dict["body"]))
        response_dict["body"] = b"{}"


def error_code(error: ClientError | BotoCoreError) -> str:
    """Return AWS's code of an error, or the SDK's name for it if AWS did not answer.

    >>> error_code(ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")), error_code(BotoCoreError())
    ('AccessDenied', 'BotoCoreError')
    """
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
