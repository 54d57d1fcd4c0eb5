"""A session of boto3 on moto in which answers of the test's own come first."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import boto3
from botocore.exceptions import ClientError
from tagcast_cli.smoke_aws import ACTIONS

REGION: Final = "eu-west-1"


@cache
def shared() -> Any:
    """One session for all: it reads the models of the services once."""
    return boto3.session.Session(region_name=REGION)


def own(service: str) -> Any:
    """Return a client of a service for the test itself. Its calls are not recorded."""
    return shared().client(service)


@dataclass
class Answers:
    """Answers where moto has none, errors in place of any, and every call with its parameters."""

    denied: set[str] = field(default_factory=set)
    faults: list[tuple[str, str]] = field(default_factory=list)
    keys_of_a_page: int = 1_000
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def of(self, action: str) -> list[dict[str, Any]]:
        return [parameters for called, parameters in self.calls if called == action]

    def replies(self) -> dict[str, Any]:
        """What operations are answered here, or the errors that they raise."""
        raise NotImplementedError


class Session:
    """A session of boto3 in whose clients *answers* come first."""

    region_name = REGION

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def get_credentials(self) -> Any:
        return shared().get_credentials()

    def client(self, service: str) -> Any:
        made = own(service)
        made.meta.events.register("before-parameter-build", self._note)
        made.meta.events.register("before-call", self._answer)
        return made

    def _note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        called = f"{model.service_model.service_name}:{model.name}"
        self.answers.calls.append((ACTIONS.get(called, called), dict(params)))
        if model.name == "ListObjectsV2":
            params["MaxKeys"] = self.answers.keys_of_a_page

    def _answer(self, model: Any, **_: Any) -> Any:
        if model.name in self.answers.denied:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, model.name)
        if self.answers.faults and self.answers.faults[0][0] == model.name:
            raise ClientError({"Error": {"Code": self.answers.faults.pop(0)[1], "Message": "no"}}, model.name)
        reply = self.answers.replies().get(model.name)
        if isinstance(reply, ClientError):
            raise reply
        return None if reply is None else (type("Http", (), {"status_code": 200})(), reply)


def stack_outputs(**outputs: str) -> list[dict[str, str]]:
    return [{"OutputKey": name, "OutputValue": value} for name, value in outputs.items()]
