"""Real clients of boto3 whose requests end in the box instead of a socket: botocore signs, retries and parses.

Services that speak JSON only; each call costs some ten times what one of `Box.client` does, and retries wait in real
time, so that this is for tests of the box itself.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, cast

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError, ReadTimeoutError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from tests.aws.box import ADMINISTRATOR, REGION, Box
from tests.aws.calls import Call, Caller
from tests.aws.faults import ApiError, DisconnectedError, UnansweredError, UnreachableError
from tests.aws.service_model import model_of

WIRED = ("dynamodb", "sqs", "firehose", "stepfunctions")


def wired(box: Box, service: str, config: Any = None) -> Any:
    """A client of boto3 that calls the box as an administrator."""
    if service not in WIRED:
        raise NotImplementedError(f"{service} does not speak JSON alone")
    make: Any = _session().client
    client = make(service, region_name=REGION, aws_access_key_id="box", aws_secret_access_key="box", config=config)
    client.meta.events.register("before-send", _answering(box, service, Caller(ADMINISTRATOR)))
    return client


@cache
def _session() -> boto3.session.Session:
    return boto3.session.Session()


def _answering(box: Box, service: str, caller: Caller) -> Callable[..., AWSResponse]:
    model = model_of(service)
    operations = {operation.name: operation for operation in model.operations.values()}

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = operations[(target if isinstance(target, str) else target.decode()).rsplit(".", 1)[1]]
        assert isinstance(request.body, str | bytes | None)
        body = json.loads(request.body or b"{}")
        shape = operation.model.input_shape
        assert shape is not None
        parameters = _taken(body, shape)
        call = Call(caller, service, operation.name, parameters, box.timeline.now)
        try:
            given = box.carry_out(call, operation)
        except ApiError as error:
            return _error(box, service, request.url, error)
        except UnreachableError:
            raise EndpointConnectionError(endpoint_url=request.url) from None
        except DisconnectedError:
            raise ConnectionClosedError(endpoint_url=request.url) from None
        except UnansweredError:
            raise ReadTimeoutError(endpoint_url=request.url) from None
        answered = operation.model.output_shape
        return _response(request.url, 200, {}, {} if answered is None else _given(given, answered))

    return answer


def _error(box: Box, service: str, url: str, error: ApiError) -> AWSResponse:
    code, status = model_of(service).code_of(error.shape)
    headers = {}
    named = box.services[service].codes.get(error.shape)
    if named is not None:
        headers["x-amzn-query-error"] = f"{named};Sender"
    said = model_of(service).said(error.shape, error.message) or {"message": error.message}
    body = {"__type": f"com.amazonaws.{service}#{code}", **said, **_plain(dict(error.members))}
    return _response(url, status or error.status, headers, body)


def _response(url: str, status: int, headers: dict[str, str], body: Any) -> AWSResponse:
    return AWSResponse(url, status, cast("Any", headers), _Raw(json.dumps(body).encode()))


class _Raw(io.BytesIO):
    """What botocore reads an answer from."""

    def stream(self, **_: Any) -> Any:
        while chunk := self.read(65536):
            yield chunk


def _taken(value: Any, shape: Shape) -> Any:
    """Parameters as the client's caller wrote them: blobs are bytes again."""
    match shape:
        case StructureShape():
            return {name: _taken(part, shape.members[name]) for name, part in value.items()}
        case ListShape():
            return [_taken(each, shape.member) for each in value]
        case MapShape():
            return {name: _taken(each, shape.value) for name, each in value.items()}
        case Shape(type_name="blob"):
            return base64.b64decode(value)
    return value


def _given(value: Any, shape: Shape) -> Any:
    """An answer as it travels."""
    match shape:
        case StructureShape():
            return {name: _given(part, shape.members[name]) for name, part in value.items()}
        case ListShape():
            return [_given(each, shape.member) for each in value]
        case MapShape():
            return {name: _given(each, shape.value) for name, each in value.items()}
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
