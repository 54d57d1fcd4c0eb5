"""Reads `template.yaml` as CloudFormation does. First it applies the SAM transform.

The engine gets a template without event source mappings and schedules, because the local stack itself emulates these.
Their references become outputs of the engine's stack, so that the engine resolves them. The schedule of the Spark jobs
and the queries of Athena are removed, too. Locally, people run the jobs by the command line.
"""

import copy
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

FUNCTION = "AWS::Lambda::Function"
SOURCE = "AWS::Lambda::EventSourceMapping"
RULE = "AWS::Events::Rule"
API = "AWS::ApiGatewayV2::Api"
NOT_HERE = (
    SOURCE,
    "AWS::Athena::NamedQuery",
    "AWS::CloudFormation::Stack",
    "AWS::Glue::Trigger",
    "AWS::Glue::Workflow",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::SSM::Parameter",
)
PACKAGED = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
    "AWS::Serverless::StateMachine": "DefinitionUri",
}
DEFAULT, ANY = "$default", "X-AMAZON-APIGATEWAY-ANY-METHOD"
"""The path of the route for all other requests, and the method of a route for all methods."""
KEPT = Path(__file__).parent / "__pycache__" / "template.json"
_FUNCTION_OF_URI = re.compile(r"\$\{(\w+)\.Arn\}/invocations")


@dataclass(frozen=True)
class RouteSpec:
    """A route of the HTTP API. `function` is a logical id.

    `security` has the security requirements in OpenAPI's form. References in them are not resolved.
    """

    method: str
    path: str
    function: str
    security: Any = ()

    @property
    def key(self) -> str:
        """The route key, such as `GET /topics/{topic}`."""
        return DEFAULT if self.path == DEFAULT else f"{self.method} {self.path}"


@dataclass(frozen=True)
class SourceSpec:
    """An event source mapping. `function` is a logical id. The references in `properties` are not resolved."""

    logical_id: str
    function: str
    properties: Mapping[str, Any]

    @property
    def of_stream(self) -> bool:
        """Whether the source is a table's stream, not a queue."""
        return "StartingPosition" in self.properties

    @property
    def filters(self) -> list[dict[str, Any]]:
        """The event patterns. A record is passed on if it matches one of them, or if there is none."""
        found = self.properties.get("FilterCriteria", {}).get("Filters", [])
        return [json.loads(each["Pattern"]) for each in found]


@dataclass(frozen=True)
class Template:
    """The template after the SAM transform. *folders* has the folder of each function's code, by logical id."""

    resources: Mapping[str, Any]
    parameters: Mapping[str, Any]
    conditions: Mapping[str, Any]
    outputs: Mapping[str, Any]
    folders: Mapping[str, Path]

    def of_type(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the logical id and the properties of each resource of type *kind*. References are not resolved."""
        for logical_id, resource in self.resources.items():
            if resource["Type"] == kind:
                yield logical_id, resource.get("Properties", {})

    def routes(self) -> list[RouteSpec]:
        """Return the routes of the HTTP API."""
        found = []
        for _, api in self.of_type(API):
            for path, methods in api["Body"]["paths"].items():
                for method, operation in methods.items():
                    uri = operation["x-amazon-apigateway-integration"]["uri"]["Fn::Sub"]
                    owner = _FUNCTION_OF_URI.search(uri)
                    if owner is None:
                        raise ValueError(f"no function in the integration of {method} {path}")
                    found.append(RouteSpec(method.upper(), path, owner.group(1), operation["security"]))
        return found

    def sources(self) -> list[SourceSpec]:
        """Return the event source mappings."""
        return [SourceSpec(lid, p["FunctionName"]["Ref"], p) for lid, p in self.of_type(SOURCE)]

    def schedules(self) -> list[tuple[str, str]]:
        """Return pairs of logical ids: a rule that has a schedule, and a function that the rule invokes."""
        return [
            (lid, target["Arn"]["Fn::GetAtt"][0])
            for lid, rule in self.of_type(RULE)
            if "ScheduleExpression" in rule
            for target in rule["Targets"]
        ]

    def expiring_tables(self) -> list[tuple[str, str]]:
        """Return the logical id and the TTL attribute of each table that has a TTL attribute."""
        return [
            (lid, table["TimeToLiveSpecification"]["AttributeName"])
            for lid, table in self.of_type("AWS::DynamoDB::Table")
            if table.get("TimeToLiveSpecification", {}).get("Enabled")
        ]

    def for_the_engine(self) -> dict[str, Any]:
        """Return the engine's template, without sources and schedules.

        Outputs are added: the ``Ref`` of each resource, and the ARNs of each source and its failure destination.
        """
        resources = {
            lid: copy.deepcopy(resource)
            for lid, resource in self.resources.items()
            if resource["Type"] not in NOT_HERE and not _is_schedule(resource)
        }
        for resource in resources.values():
            resource.pop("DeletionPolicy", None)  # An incomplete stack is deleted completely, and created again.
        kept = {lid: r for lid, r in resources.items() if not self._belongs_to_a_rule(r)}
        outputs = {name: output for name, output in self.outputs.items() if "Condition" not in output}
        for lid in kept:
            outputs[f"Ref{lid}"] = {"Value": {"Ref": lid}}
        for source in self.sources():
            outputs[f"Arn{source.logical_id}"] = {"Value": source.properties["EventSourceArn"]}
            failure = source.properties.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
            if failure:
                outputs[f"OnFailure{source.logical_id}"] = {"Value": failure}
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Parameters": dict(self.parameters),
            "Conditions": dict(self.conditions),
            "Resources": kept,
            "Outputs": outputs,
        }

    def _belongs_to_a_rule(self, resource: Mapping[str, Any]) -> bool:
        source = resource.get("Properties", {}).get("SourceArn")
        rules = {lid for lid, resource in self.resources.items() if _is_schedule(resource)}
        return isinstance(source, dict) and source.get("Fn::GetAtt", [None])[0] in rules


def _is_schedule(resource: Mapping[str, Any]) -> bool:
    return resource["Type"] == RULE and "ScheduleExpression" in resource.get("Properties", {})


class _NoManagedPolicies:
    """A loader without managed policies: the translator needs a loader only for policies without an ARN."""

    def load(self) -> dict[str, str]:
        return {}


def read_template(path: Path) -> Template:
    """Return the template at *path* after the SAM transform.

    The template names an object of the bucket `code` as the code of each function. The object's key is the logical id.

    The last translation is cached in a file, because it takes longer than the rest of a start.
    """
    source = path.read_text()
    made_of = f"{version('aws-sam-translator')} {source}".encode() + Path(__file__).read_bytes()
    digest = hashlib.sha256(made_of).hexdigest()
    found = _read_kept(digest)
    if found is None:
        found = _translate(source)
        _keep(digest, found)
    translated = found["template"]
    return Template(
        resources=translated["Resources"],
        parameters=translated.get("Parameters", {}),
        conditions=translated.get("Conditions", {}),
        outputs=translated.get("Outputs", {}),
        folders={logical_id: path.parent / folder for logical_id, folder in found["folders"].items()},
    )


def _translate(source: str) -> dict[str, Any]:
    """Return the template after the transform, and the folders of code by logical id."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    from samtranslator.translator.transform import transform
    from samtranslator.yaml_helper import yaml_parse

    template = yaml_parse(source)
    folders: dict[str, str] = {}
    for logical_id, resource in template["Resources"].items():
        packaged = PACKAGED.get(resource["Type"])
        if packaged:
            folders[logical_id] = resource["Properties"][packaged]
            resource["Properties"][packaged] = {"Bucket": "code", "Key": logical_id}
    return {"template": transform(template, {}, _NoManagedPolicies()), "folders": folders}


def _read_kept(digest: str) -> dict[str, Any] | None:
    try:
        found = json.loads(KEPT.read_text())
    except (OSError, ValueError):
        return None
    return dict(found["translation"]) if found["digest"] == digest else None


def _keep(digest: str, translation: Mapping[str, Any]) -> None:
    with suppress(OSError):
        KEPT.parent.mkdir(exist_ok=True)
        draft = KEPT.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"digest": digest, "translation": translation}))
        draft.replace(KEPT)
