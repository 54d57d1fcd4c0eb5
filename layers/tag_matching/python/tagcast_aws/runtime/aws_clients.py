"""Clients of the AWS services that belong to the deployment: how often they try, and how long they wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from typing import Any, TypeVar, cast

from tagcast_aws.runtime.executor import CALLS_MAX

ROW_READS = ("BatchGetItem", "GetItem", "Query", "Scan")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a client asks in all, and how many seconds each attempt waits for an answer."""

    attempts_max: int
    answer_s: int

    @property
    def longest_s(self) -> float:
        """The longest that one call can take, with the pauses of the SDK's standard mode (1, 2, 4 … 20 s at most).

        >>> Patience(4, 4).longest_s, Patience(1, 25).longest_s
        (27.0, 26.0)
        """
        pauses_s = sum((min(2.0**number, 20.0) for number in range(self.attempts_max - 1)), 0.0)
        return self.attempts_max * (CONNECT_S + self.answer_s) + pauses_s


CONNECT_S = 1
USUAL = Patience(attempts_max=4, answer_s=4)
"""Every function has 29 s or more: a call ends before its function does (docs/limits.md)."""
SOON = Patience(attempts_max=2, answer_s=3)
"""For what tells watchers, since the archive waits for it."""
ONCE = Patience(attempts_max=1, answer_s=8)
"""For what repeats by itself: records that Firehose refused."""
WAITING = Patience(attempts_max=1, answer_s=25)
"""For a receive that waits: a second one by the SDK would count as a pull of each message."""


def client_factory(make_client: Callable[..., Any] | None, patience: Patience = USUAL) -> Callable[[str], Any]:
    """Return what makes the client of a service: one, whichever threads ask for it.

    *make_client* has the shape of ``boto3.client``, which None stands for: it may not be called by two threads at once.
    Requests are not compared with the service's model before they are sent: the service does so itself, and it is a
    tenth to a fifth of a call's CPU.
    """
    from botocore.config import Config

    config = Config(
        # `max_attempts` would count what follows the first attempt.
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
    """Let a client of DynamoDB hand over the rows that it reads as they travel: in typed JSON, bytes as base64.

    Comparing each value of a hundred rows with the service's model takes botocore 20 times as long as reading the JSON.
    What is no answer, and what other services say, is left to it.
    """
    events = cast("Any", client).meta.events
    for operation in ROW_READS:
        events.register(f"before-parse.dynamodb.{operation}", _read_plainly)
    return client


def _read_plainly(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    if response_dict["status_code"] == HTTPStatus.OK:
        customized_response_dict.update(json.loads(response_dict["body"]))
        response_dict["body"] = b"{}"
