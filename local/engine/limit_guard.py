"""AWS's size limits that the engine lacks; the numbers are in `local.rules.limits`."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from local.engine.aws_request import Call, Refusal, refusal
from local.rules import limits


def too_large(call: Call, body_bytes: int, is_async: bool = False) -> Refusal | None:
    """Return the error of a call over a limit, or None.

    >>> too_large(Call("stepfunctions", "StartExecution", {"input": "x" * 262_145}), 0).status
    400
    >>> too_large(Call("lambda", "Invoke"), 6 * 1024 * 1024) is None
    True
    """
    match call.service, call.operation:
        case "stepfunctions", "StartExecution":
            if len(str(call.parameters.get("input", "")).encode()) > limits.EXECUTION_INPUT_BYTES_MAX:
                return _refused("states", "ValidationException", f"input: {limits.EXECUTION_INPUT_BYTES_MAX} bytes")
        case "lambda", "Invoke":
            allowed = limits.LAMBDA_EVENT_BYTES_MAX if is_async else limits.LAMBDA_PAYLOAD_BYTES_MAX
            if body_bytes > allowed:
                return _refused("lambda", "RequestTooLargeException", f"event: {allowed} bytes", 413)
        case "firehose", "PutRecordBatch":
            return _of_records([_size(record) for record in call.parameters.get("Records", [])])
        case "firehose", "PutRecord":
            return _of_records([_size(call.parameters.get("Record", {}))])
    return None


def cut(answer: bytes, requested: Mapping[str, Any]) -> bytes:
    """Return a BatchGetItem response cut to AWS's size. The keys of removed items become unprocessed keys.

    >>> cut(b'{"Responses": {"T": []}, "UnprocessedKeys": {}}', {})
    b'{"Responses": {"T": []}, "UnprocessedKeys": {}}'
    """
    if len(answer) <= limits.BATCH_GET_BYTES_MAX:
        return answer
    found = json.loads(answer)
    room = limits.BATCH_GET_BYTES_MAX
    unprocessed = dict(found.get("UnprocessedKeys", {}))
    for table, items in found["Responses"].items():
        kept = []
        for item in items:
            room -= len(json.dumps(item))
            if room >= 0:
                kept.append(item)
                continue
            names = requested[table]["Keys"][0]
            left = unprocessed.setdefault(table, {**requested[table], "Keys": []})
            left["Keys"].append({name: item[name] for name in names})
        found["Responses"][table] = kept
    return json.dumps({**found, "UnprocessedKeys": unprocessed}).encode()


def _of_records(sizes: list[int]) -> Refusal | None:
    if len(sizes) > limits.FIREHOSE_BATCH_MAX:
        return _refused("firehose", "InvalidArgumentException", f"{limits.FIREHOSE_BATCH_MAX} records")
    if max(sizes, default=0) > limits.FIREHOSE_RECORD_BYTES_MAX:
        return _refused("firehose", "InvalidArgumentException", f"record: {limits.FIREHOSE_RECORD_BYTES_MAX} bytes")
    if sum(sizes) > limits.FIREHOSE_BATCH_BYTES_MAX:
        return _refused("firehose", "InvalidArgumentException", f"batch: {limits.FIREHOSE_BATCH_BYTES_MAX} bytes")
    return None


def _size(record: Mapping[str, Any]) -> int:
    try:
        return len(base64.b64decode(str(record.get("Data", ""))))
    except binascii.Error:
        return 0


def _refused(service: str, code: str, what: str, status: int = 400) -> Refusal:
    return refusal(service, code, f"larger than AWS takes ({what})", status)
