"""What the shipped code holds for a boto3 client: the same methods, checks of parameters, retries and errors."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from botocore.paginate import Paginator
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from tests.aws.calls import Call, Caller
from tests.aws.faults import ApiError, DisconnectedError, UnansweredError, UnreachableError
from tests.aws.service_model import Model, Operation, model_of, pages_of

if TYPE_CHECKING:
    from tests.aws.box import Box

RETRYABLE_CODES = frozenset(
    ThrottledRetryableChecker._THROTTLED_ERROR_CODES  # type: ignore[attr-defined]
    + TransientRetryableChecker._TRANSIENT_ERROR_CODES  # type: ignore[attr-defined]
)
RETRYABLE_STATUS = frozenset(TransientRetryableChecker._TRANSIENT_STATUS_CODES)  # type: ignore[attr-defined]
ATTEMPTS = {"dynamodb": 10}
"""botocore's attempts where no `Config` says otherwise (mode legacy); 5 for all other services."""
QUOTA, RETRY_COST, TIMEOUT_COST = 500, 5, 10


class Client:
    """Methods appear as they are asked for; `exceptions` and `meta` are those that a real client has."""

    def __init__(self, box: Box, service: str, caller: Caller, config: Config | None) -> None:
        self._box = box
        self._service = service
        self._caller = caller
        self._model: Model = model_of(service)
        self._url = f"https://{service}.us-east-1.amazonaws.com/"
        self._read_timeout_ms = 1000.0 * (60 if config is None else config.read_timeout)  # type: ignore[attr-defined]
        self._attempts = _attempts(service, config)
        self._quota = QUOTA
        self._dice = Random(f"client {box.chance.random()}")
        self.exceptions = self._model.exceptions
        self.meta = SimpleNamespace(
            service_model=self._model.service, region_name="us-east-1", endpoint_url=self._url, config=config
        )

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = self._model.operations.get(name)
        if operation is None:
            raise AttributeError(f"a client of {self._service} has no {name!r}")

        def method(**parameters: Any) -> dict[str, Any]:
            return self._call(operation, parameters)

        method.__name__ = name
        setattr(self, name, method)
        return method

    def get_paginator(self, method: str) -> Paginator[Any]:
        """What asks for one page after the other, as botocore's models say."""
        operation = self._model.operations[method]
        return Paginator(getattr(self, method), pages_of(self._service)[operation.name], operation.model)

    def close(self) -> None:
        """Real clients have it."""

    def _call(self, operation: Operation, parameters: dict[str, Any]) -> dict[str, Any]:
        if operation.token is not None and operation.token not in parameters:
            parameters[operation.token] = f"{self._dice.getrandbits(128):032x}"
        operation.check(parameters)
        spent = 0
        for attempt in range(1, self._attempts + 1):
            try:
                answer = self._attempt(operation, parameters)
            except (ClientError, BotoCoreError) as fault:
                cost = TIMEOUT_COST if isinstance(fault, ReadTimeoutError) else RETRY_COST
                if attempt == self._attempts or not _retryable(fault) or self._quota < cost:
                    raise
                self._quota -= cost
                spent = cost
                self._box.timeline.spend(1000 * self._dice.random() * min(2 ** (attempt - 1), 20))
                continue
            self._quota = min(QUOTA, self._quota + (spent or 1))
            answer["ResponseMetadata"] = {
                "RequestId": f"{self._box.serial():032x}",
                "HTTPStatusCode": 200,
                "HTTPHeaders": {},
                "RetryAttempts": attempt - 1,
            }
            return answer
        raise AssertionError("a client that makes no attempt")

    def _attempt(self, operation: Operation, parameters: dict[str, Any]) -> dict[str, Any]:
        box = self._box
        call = Call(self._caller, self._service, operation.name, parameters, box.timeline.now)
        try:
            return box.carry_out(call, operation)
        except ApiError as error:
            raise self._client_error(operation, error) from None
        except UnreachableError:
            raise EndpointConnectionError(endpoint_url=self._url) from None
        except DisconnectedError:
            raise ConnectionClosedError(endpoint_url=self._url) from None
        except UnansweredError:
            box.timeline.spend(self._read_timeout_ms)
            raise ReadTimeoutError(endpoint_url=self._url) from None

    def _client_error(self, operation: Operation, error: ApiError) -> ClientError:
        code, status = self._model.code_of(error.shape)
        named = self._box.services[self._service].codes.get(error.shape, code)
        described = {"Message": error.message, "Code": named}
        if named != code:
            described["QueryErrorCode"] = code
        response = {
            "Error": described,
            "ResponseMetadata": {
                "RequestId": f"{self._box.serial():032x}",
                "HTTPStatusCode": status or error.status,
                "HTTPHeaders": {},
                "RetryAttempts": 0,
            },
            **(self._model.said(error.shape, error.message) if named == code else {}),
            **error.members,
        }
        made: ClientError = self.exceptions.from_code(code)(response, operation.name)
        return made


def _attempts(service: str, config: Config | None) -> int:
    retries = (None if config is None else config.retries) or {}  # type: ignore[attr-defined]
    if "total_max_attempts" in retries:
        return int(retries["total_max_attempts"])
    if "max_attempts" in retries:
        return int(retries["max_attempts"]) + 1
    return ATTEMPTS.get(service, 5) if retries.get("mode", "legacy") == "legacy" else 3


def _retryable(fault: Exception) -> bool:
    if isinstance(fault, ClientError):
        status = fault.response["ResponseMetadata"]["HTTPStatusCode"]
        return fault.response["Error"]["Code"] in RETRYABLE_CODES or status in RETRYABLE_STATUS
    return isinstance(fault, TransientRetryableChecker._TRANSIENT_EXCEPTION_CLS)  # type: ignore[attr-defined]
