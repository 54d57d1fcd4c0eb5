"""The setting ``batch`` of a subscription in the API's requests and answers, and the rules for batched pushes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field
from pydantic.config import JsonDict
from tagcast.errors import Fault, FaultCode
from tagcast.model import Batching, Protocol
from tagcast.pushing.batch_form import BATCH_FORMATS
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.subscriptions.retry import KEEPS_ORDER, asks_for_order


class BatchedPushes(Body):
    """The limits of one request to the endpoint. A message larger than ``max_bytes`` is sent alone."""

    max_messages: Annotated[int, Field(ge=limits.BATCHED_MIN, le=limits.BATCHED_MAX)]
    max_bytes: Annotated[int, Field(ge=limits.BATCHED_BYTES_MIN, le=limits.BATCHED_BYTES_MAX)] = (
        limits.BATCHED_BYTES_DEFAULT
    )


class BatchedPushesAnswer(TypedDict):
    """The limits of one request to the endpoint."""

    max_messages: int
    max_bytes: int


_FORMATS = sorted(each.value for each in BATCH_FORMATS)
_SQS, _FIFO = Protocol.SQS.value, ".fifo"
_IS_FIFO: JsonDict = {"type": "string", "pattern": r"\.fifo$"}
OF_BATCHES: JsonDict = {
    "if": {"properties": {"batch": {"type": "object"}}, "required": ["batch"]},
    "then": {
        "properties": {"retry": {"properties": {"max_retries": {"minimum": 1}}}},
        "if": {"properties": {"endpoint": {"properties": {"protocol": {"const": _SQS}}}}},
        "then": {"properties": {"batch": {"properties": {"max_messages": {"maximum": limits.QUEUE_BATCH_MAX}}}}},
        "else": {"properties": {"content_format": {"enum": [*_FORMATS, None]}}},
        "not": {
            "properties": {
                "endpoint": {
                    "anyOf": [
                        {"properties": {"arn": _IS_FIFO}, "required": ["arn"]},
                        {"properties": {"queue_url": _IS_FIFO}, "required": ["queue_url"]},
                    ]
                },
            },
            **KEEPS_ORDER,
        },
    },
}
"""The schema rules for a subscription with batches; :func:`batch_faults` checks the same rules."""


def batch_faults(subscription: Mapping[str, object]) -> list[Fault]:
    """Return a fault for each field that contradicts batches; none without batches.

    Pointers are relative to the subscription.
    """
    batch = subscription.get("batch")
    if not isinstance(batch, Mapping):
        return []
    faults = []
    endpoint, retry = (_object(subscription.get(name)) for name in ("endpoint", "retry"))
    retries, wanted = retry.get("max_retries"), batch.get("max_messages")
    if retries == 0 and not isinstance(retries, bool):
        reason = "must be at least 1 with batches, because a failed batch is retried message by message"
        faults.append(Fault(reason, "/retry/max_retries", FaultCode.CONFLICT))
    if endpoint.get("protocol") != _SQS:
        if subscription.get("content_format") not in (None, *_FORMATS):
            detail = f"must be one of {', '.join(_FORMATS)} with batches"
            faults.append(Fault(detail, "/content_format", FaultCode.CONFLICT))
        return faults
    if isinstance(wanted, int) and limits.QUEUE_BATCH_MAX < wanted <= limits.BATCHED_MAX:
        detail = f"must be at most {limits.QUEUE_BATCH_MAX} for a queue"
        faults.append(Fault(detail, "/batch/max_messages", FaultCode.TOO_LARGE))
    target = endpoint.get("arn") or endpoint.get("queue_url")
    if isinstance(target, str) and target.endswith(_FIFO) and asks_for_order(subscription):
        reason = "is not possible for a FIFO queue, which cannot keep the order of a batch after a refused message"
        faults.append(Fault(reason, "/batch", FaultCode.CONFLICT))
    return faults


def batching_of(body: BatchedPushes | None) -> Batching | None:
    """Convert the limits of a batch to the core's :class:`Batching`; None for a subscription without batches."""
    return None if body is None else Batching(body.max_messages, body.max_bytes)


def show_batch(value: Batching) -> BatchedPushesAnswer:
    """Return the limits of a batch under the names of the API.

    >>> show_batch(Batching(10, 65_536))
    {'max_messages': 10, 'max_bytes': 65536}
    """
    return {"max_messages": value.messages_max, "max_bytes": value.bytes_max}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
