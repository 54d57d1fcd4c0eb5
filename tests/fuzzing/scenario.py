"""Requests one after the other, made up from the API's own document; its links go on with what an answer names."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import schemathesis
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import Case, GenerationMode, Response
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from tagcast_aws.api.routes import description

from tests.fuzzing.checks import validate
from tests.fuzzing.service import Service

Operation: TypeAlias = APIOperation[Any, Any, Any, Any]
Asked: TypeAlias = Case[Any]


class Application:
    """The application of the document: whichever service is asked at present."""

    service: Service

    def __call__(self, environ: Mapping[str, Any], start_response: Any) -> Any:
        return self.service(environ, start_response)


APPLICATION = Application()
SCHEMA = schemathesis.openapi.from_dict(json.loads(json.dumps(description())))
SCHEMA.app = APPLICATION
OPERATIONS: Mapping[str, Operation] = {
    found.ok().definition.raw["operationId"]: found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok)
}
FURNISHED_BY = ("create_topic", "create_subscription", "heartbeat", "set_shadow", "pause", "publish")
REMOVED_BY = ("delete_shadow", "delete_subscription", "delete_topic")
CONDITIONS = ("If-Match", "If-None-Match")
OF_GROUPS = ("pull", "pull", "ack", "nack", "extend", "list_members", "heartbeat", "leave", "get_subscription")
"""What follows a heartbeat: it names a group, which no link does."""
MODES = (*[GenerationMode.POSITIVE] * 4, GenerationMode.NEGATIVE)


@dataclass
class Scenario:
    """One story told to a service of its own; *asked* counts operations and how they were answered."""

    data: st.DataObject
    asked: dict[tuple[str, int], int]
    service: Service = field(default_factory=Service)
    links: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """What may be gone on with: an operation, and parameters that lead to something."""
    handles: list[str] = field(default_factory=list)
    """The receipt handles of pulled messages."""

    def play(self, steps: int) -> None:
        APPLICATION.service = self.service
        for name in FURNISHED_BY:
            mine = [parameters for link, parameters in self.links if name in (link, "heartbeat")]
            self.step(name, mine[0] if mine else {}, GenerationMode.POSITIVE, is_conditional=False)
        for _ in range(steps):
            names = [{}, *(parameters for _, parameters in self.links)]
            anything = st.tuples(st.sampled_from(list(OPERATIONS)), st.sampled_from(names))
            # Links are followed three times of four, and none that removes: made-up names meet 404 alone.
            open_links = [link for link in self.links if not link[0].startswith("delete_")]
            is_linked = self.data.draw(st.integers(0, 3)) > 0 and bool(open_links)
            name, parameters = self.data.draw(st.sampled_from(open_links) if is_linked else anything)
            self.step(name, parameters, self.data.draw(st.sampled_from(MODES)))
        check_what_is_stored(self.service)
        for name in REMOVED_BY:
            for parameters in [parameters for link, parameters in self.links if link == name][:1]:
                self.step(name, parameters, GenerationMode.POSITIVE, is_conditional=False)
        check_what_is_stored(self.service)

    def step(
        self, name: str, parameters: Mapping[str, str], mode: GenerationMode, *, is_conditional: bool = True
    ) -> None:
        operation = OPERATIONS[name]
        requests = operation.as_strategy(
            mode,
            path_parameters=self._fixed(operation, "path_parameters", parameters),
            query=self._fixed(operation, "query", parameters),
        )
        case = self.data.draw(requests)
        if not is_conditional:
            for condition in CONDITIONS:
                case.headers.pop(condition, None)
        if self.handles and isinstance(case.body, dict) and "receipt_handles" in case.body:
            handles: st.SearchStrategy[Any] = st.lists(st.sampled_from(self.handles), min_size=1)
            case.body = {**case.body, "receipt_handles": self.data.draw(handles)}
        response = Response.from_any(case.call())
        self.asked[name, response.status_code] = self.asked.get((name, response.status_code), 0) + 1
        validate(response, case)
        if response.status_code < 300:
            self._check_that_it_happened(case)
            self.links += _linked(operation, case, response)
            if name == "heartbeat":
                self.links += [(each, dict(case.path_parameters)) for each in OF_GROUPS]
            if name == "pull":
                self.handles += [each["receipt_handle"] for each in json.loads(response.content)["messages"]]
            self.service.deliver()

    def _fixed(self, operation: Operation, where: str, parameters: Mapping[str, str]) -> dict[str, str] | None:
        """What an operation is asked with: what a link says, and names of what there is."""
        known = {**{name: value for _, found in self.links for name, value in found.items()}, **parameters}
        names = [each.name for each in getattr(operation, where)]
        fixed = {name: known[name] for name in names if name in known and (where == "query" or name in parameters)}
        return fixed or None

    def _check_that_it_happened(self, case: Asked) -> None:
        """What was put is there, and what was removed is not, as far as one may look at it."""
        if case.method in ("PUT", "DELETE"):
            found = self.service.ask("GET", case.formatted_path)
            assert found["statusCode"] in (405, 200 if case.method == "PUT" else 404), found


def _linked(operation: Operation, case: Asked, response: Response) -> Iterator[tuple[str, dict[str, str]]]:
    """The links of an answer, their expressions evaluated."""
    described = operation.definition.raw["responses"][str(response.status_code)].get("links", {})
    for link in described.values():
        yield link["operationId"], {name: _value(text, case, response) for name, text in link["parameters"].items()}


def _value(expression: str, case: Asked, response: Response) -> str:
    source, _, rest = expression.partition("#/")
    if source == "$response.body":
        return str(json.loads(response.content)[rest])
    return str(case.path_parameters[expression.removeprefix("$request.path.")])


def check_what_is_stored(service: Service) -> None:
    """All that is stored can be shown, in the form that the document says."""
    for operation, status, shown in service.everything():
        assert status == 200, (operation, shown)
        assert not list(validators()[operation].iter_errors(shown)), (operation, shown)


@cache
def validators() -> Mapping[str, Draft202012Validator]:
    """What the answer of each GET must be."""
    document = json.loads(json.dumps(description()).replace("#/components/schemas/", "#/$defs/"))
    found = {}
    for methods in document["paths"].values():
        if "get" in methods:
            schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            whole = {"$defs": document["components"]["schemas"], **schema}
            found[methods["get"]["operationId"]] = Draft202012Validator(whole)
    return found


def told(asked: Mapping[tuple[str, int], int]) -> str:
    """How often each operation was asked, and how it was answered."""
    lines = [f"{sum(asked.values())} requests"]
    for name in sorted({operation for operation, _ in asked}):
        answers = (f"{status}: {count}" for (each, status), count in sorted(asked.items()) if each == name)
        lines.append(f"  {name}: {', '.join(answers)}")
    return "\n".join(lines)
