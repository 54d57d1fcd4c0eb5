"""Clients of the AWS services that belong to the deployment: how often they try, and how long they wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tagcast_aws.runtime.executor import CALLS_MAX


def client_factory(
    make_client: Callable[..., Any] | None, attempts_max: int, answer_s: int = 10
) -> Callable[[str], Any]:
    """Return what makes the client of a service, which answers within *answer_s*.

    *make_client* has the shape of ``boto3.client``, which None stands for. Requests are not compared with the service's
    model before they are sent: the service does so itself, and it is a tenth to a fifth of a call's CPU.
    """
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "max_attempts": attempts_max},
        connect_timeout=3,
        read_timeout=answer_s,
        max_pool_connections=CALLS_MAX,
        parameter_validation=False,
    )
    return partial(make_client or _boto3_client, config=config)


def _boto3_client(service: str, **how: Any) -> Any:
    import boto3

    return boto3.client(service, **how)  # type: ignore[call-overload]
