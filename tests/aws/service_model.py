"""botocore's models of the services, loaded once: operations, shapes, error classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from botocore import xform_name
from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ParamValidationError
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.validate import ParamValidator

_LOADER = Loader()
_VALIDATOR = ParamValidator()


@dataclass(frozen=True)
class Operation:
    """One operation: its name in the API and in Python, and which parameter botocore fills when it is left out."""

    name: str
    method: str
    model: OperationModel
    token: str | None

    def check(self, parameters: dict[str, Any]) -> None:
        """Raise botocore's ParamValidationError for parameters that the real client would refuse."""
        shape = self.model.input_shape
        report = None if shape is None else _VALIDATOR.validate(parameters, shape)
        if report is not None and report.has_errors():
            raise ParamValidationError(report=report.generate_report())


@dataclass(frozen=True)
class Model:
    """One service: its operations by their Python names, its exceptions as `client.exceptions` has them."""

    service: ServiceModel
    operations: dict[str, Operation]
    exceptions: Any

    def code_of(self, shape: str) -> tuple[str, int | None]:
        """The error code and the HTTP status of an error's shape; what has no shape is its own code."""
        if shape not in self._errors:
            return shape, None
        error = self._errors[shape].metadata.get("error", {})
        return error.get("code", shape), error.get("httpStatusCode")

    def said(self, shape: str, message: str) -> dict[str, str]:
        """The message as a member of the error, where the error's shape has one: `message` or `Message`."""
        members = self._errors[shape].members if shape in self._errors else {}
        return {name: message for name in ("message", "Message") if name in members}

    @cached_property
    def _errors(self) -> dict[str, Any]:
        return {shape.name: shape for shape in self.service.error_shapes}


@cache
def model_of(service: str) -> Model:
    """The model of a service as `boto3.client` names it."""
    described = ServiceModel(_LOADER.load_service_model(service, "service-2"), service)
    operations = {}
    for name in described.operation_names:
        model = described.operation_model(name)
        token = model.idempotent_members[0] if model.idempotent_members else None
        operations[xform_name(name)] = Operation(name, xform_name(name), model, token)
    return Model(described, operations, ClientExceptionsFactory().create_client_exceptions(described))


@cache
def pages_of(service: str) -> Mapping[str, Any]:
    """How each operation of a service is asked for its next page, by the operation's name."""
    described: Mapping[str, Any] = _LOADER.load_service_model(service, "paginators-1")["pagination"]
    return described
