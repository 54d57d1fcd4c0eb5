"""Clients of the AWS services that belong to the deployment: how often they try, and how long they wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from threading import Lock
from typing import Any, TypeVar, cast

from tagcast_aws.runtime.executor import CALLS_MAX

ROW_READS = ("BatchGetItem", "GetItem", "Query", "Scan")
T = TypeVar("T")


def client_factory(
    make_client: Callable[..., Any] | None, attempts_max: int, answer_s: int = 10
) -> Callable[[str], Any]:
    """Return what makes the client of a service, which answers within *answer_s*: one, whichever threads ask for it.

    *make_client* has the shape of ``boto3.client``, which None stands for: it may not be called by two threads at once.
    Requests are not compared with the service's model before they are sent: the service does so itself, and it is a
    tenth to a fifth of a call's CPU.
    """
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "max_attempts": attempts_max},
        connect_timeout=3,
        read_timeout=answer_s,
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
