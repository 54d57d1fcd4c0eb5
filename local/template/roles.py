"""The roles of a template with resolved references: permissions of functions, workflow, Firehose and jobs."""

from collections.abc import Mapping
from typing import Any

from local.rules.permissions import Grant, PolicyError, Role, grants_of
from local.template.intrinsics import Resolver
from local.template.translated import FUNCTION, Template

ROLE = "AWS::IAM::Role"
WORKFLOW = "AWS::StepFunctions::StateMachine"
DELIVERY_STREAM = "AWS::KinesisFirehose::DeliveryStream"
JOB = "AWS::Glue::Job"
_ROLE_PROPERTY = {FUNCTION: "Role", WORKFLOW: "RoleArn", JOB: "Role"}
_LOGS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
# The contents of these AWS managed policies; the translator names them in its roles.
_MANAGED = {
    "service-role/AWSLambdaBasicExecutionRole": _LOGS,
    "AWSXrayWriteOnlyAccess": (
        "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
        "xray:GetSamplingRules",
        "xray:GetSamplingTargets",
        "xray:GetSamplingStatisticSummaries",
    ),
}


def roles_of(resolver: Resolver) -> dict[str, Role]:
    """Return every role of the template by logical id, with all of its policies."""
    return {lid: Role(lid, tuple(_grants(resolver, role))) for lid, role in resolver.template.of_type(ROLE)}


def _grants(resolver: Resolver, role: Mapping[str, Any]) -> list[Grant]:
    found: list[Grant] = []
    for policy in role.get("Policies", []):
        found += grants_of(resolver.value(policy["PolicyDocument"]))
    for arn in role.get("ManagedPolicyArns", []):
        name = str(resolver.value(arn)).partition(":policy/")[2]
        if name not in _MANAGED:
            raise PolicyError(f"what the policy {name} says is not known here")
        found += [Grant(action, "*") for action in _MANAGED[name]]
    return found


def role_of(template: Template, logical_id: str) -> str:
    """Return the logical id of the role of a function, a workflow, a delivery stream or a job."""
    resource = template.resources[logical_id]
    properties = resource["Properties"]
    if resource["Type"] == DELIVERY_STREAM:
        given = properties["ExtendedS3DestinationConfiguration"]["RoleARN"]
    else:
        given = properties[_ROLE_PROPERTY[resource["Type"]]]
    return str(given["Fn::GetAtt"][0])
