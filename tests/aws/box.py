"""AWS in a box: the services, and the one path that every call takes through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from tests.aws import limits
from tests.aws.calls import Call, Caller
from tests.aws.client import Client
from tests.aws.faults import (
    Accidents,
    ApiError,
    DisconnectedError,
    Kind,
    NoAccidents,
    UnansweredError,
    UnplayedError,
    UnreachableError,
)
from tests.aws.quotas import Quotas, shares_of
from tests.aws.unsaid import USUAL, Unsaid

if TYPE_CHECKING:
    from tests.aws.roles import Roles
    from tests.aws.service_model import Operation
    from tests.aws.solo_timeline import Timeline

__all__ = ["ACCOUNT", "ADMINISTRATOR", "REGION", "Box", "Call", "Caller", "Service"]

ADMINISTRATOR = "administrator"
"""The role of tests and operators: everything is allowed."""
REGION, ACCOUNT = "us-east-1", "123456789012"
INBOUND = (0.3, 0.7)
"""The share of a call's time that passes before the service acts."""


class Service:
    """A service of the box: a method named as the client's for each operation that it plays; each takes a Call."""

    name: ClassVar[str]
    denied: ClassVar[str] = "AccessDeniedException"
    throttled: ClassVar[tuple[str, int]] = ("ThrottlingException", 400)
    failed: ClassVar[tuple[str, int]] = ("InternalServerError", 500)
    codes: ClassVar[Mapping[str, str]] = {}
    """Codes that differ from their shape's name although the model does not say so."""

    def __init__(self, box: Box) -> None:
        self.box = box

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        """The actions and resources that the caller's role must allow."""
        raise UnplayedError(f"{self.name} says nothing of the permissions of {call.operation}")


class Box:
    """One account in one region. Services are added by `add`; clients of any service come from `client`."""

    def __init__(
        self,
        timeline: Timeline,
        roles: Roles | None = None,
        accidents: Accidents | None = None,
        seed: int | str = 0,
        place: limits.QuotaPlace = limits.LARGE_REGION,
        unsaid: Unsaid = USUAL,
    ) -> None:
        self.timeline = timeline
        self.unsaid = unsaid
        self.quotas = Quotas(lambda: self.timeline.now, place)
        self.roles = roles
        self.accidents: Accidents = accidents or NoAccidents()
        self.chance = Random(f"box {seed}")
        self.services: dict[str, Service] = {}
        self.calls: Counter[tuple[str, str, str]] = Counter()
        """How often each role asked for each action on each resource."""
        self.requests: Counter[str] = Counter()
        """How many requests each service got, repetitions included."""
        self.client_type: type[Client] = Client
        """What clients are; one that measures may be put in its place."""
        self.acting: Caller | None = None
        """Whose request has its effect now."""
        self._serial = 0

    def add(self, service: Service) -> None:
        """Let clients of the service's name reach it."""
        self.services[service.name] = service

    def client(self, service: str, caller: Caller | str, config: Any = None) -> Any:
        """An object with the methods of `boto3.client(service)` that calls as *caller*."""
        if service not in self.services:
            raise UnplayedError(f"the box has no {service}")
        return self.client_type(self, service, Caller(caller) if isinstance(caller, str) else caller, config)

    def serial(self) -> int:
        """A number that was not given before, for ids of any kind."""
        self._serial += 1
        return self._serial

    def allows(self, role: str, action: str, resource: str) -> bool:
        """Say whether *role* may do *action* to *resource*."""
        if role == ADMINISTRATOR or self.roles is None:
            return True
        return self.roles.allows(role, action, resource)

    def carry_out(self, call: Call, operation: Operation) -> dict[str, Any]:
        """Play one request: time passes, the caller is authorized, an accident may happen, and the service acts.

        An accident of kinds that fail before the effect raises instead of it, one of the others after it.
        """
        service = self.services[call.service]
        effect = getattr(service, operation.method, None)
        if effect is None:
            raise UnplayedError(f"the box does not play {call.service} {operation.name}")
        self.requests[service.name] += 1
        low, high = limits.latency(call.service, operation.name)
        takes = self.chance.uniform(low, high)
        inbound = takes * self.chance.uniform(*INBOUND)
        self.timeline.spend(inbound)
        kind = self.accidents.strike(call)
        if kind is not None:
            self._refuse(service, kind)
        self._authorize(service, call)
        self._limit(service, call)
        self.acting = call.caller
        answer: dict[str, Any] = effect(call)
        if kind is not None:
            self._lose(service, kind)
        self.timeline.spend(takes - inbound)
        return answer

    def _authorize(self, service: Service, call: Call) -> None:
        role = call.caller.role
        for action, resource in service.needs(call):
            self.calls[role, action, resource] += 1
            if not self.allows(role, action, resource):
                message = f"User: {role} is not authorized to perform: {action} on resource: {resource}"
                raise ApiError(service.denied, message, status=403 if service.denied == "AccessDenied" else 400)

    def _limit(self, service: Service, call: Call) -> None:
        """Refuse what is beyond a quota of the account; those of queues, tables and streams are their services'."""
        for action, resource in service.needs(call):
            if action not in limits.THROUGHPUT:
                if call.caller.role == ADMINISTRATOR:
                    continue
                raise UnplayedError(f"tests.aws.limits.THROUGHPUT has no row for {action}")
            if not self.quotas.take(*shares_of(action, resource)):
                raise ApiError(service.throttled[0], "Rate exceeded", status=service.throttled[1])

    @staticmethod
    def _refuse(service: Service, kind: Kind) -> None:
        match kind:
            case Kind.UNREACHABLE:
                raise UnreachableError
            case Kind.THROTTLED:
                raise ApiError(service.throttled[0], "Rate exceeded", status=service.throttled[1])
            case Kind.FAILED_BEFORE:
                raise ApiError(service.failed[0], "We encountered an internal error.", status=service.failed[1])
            case _:
                return

    @staticmethod
    def _lose(service: Service, kind: Kind) -> None:
        match kind:
            case Kind.FAILED_AFTER:
                raise ApiError(service.failed[0], "We encountered an internal error.", status=service.failed[1])
            case Kind.LOST_ANSWER:
                raise DisconnectedError
            case Kind.UNANSWERED:
                raise UnansweredError
            case _:
                return
