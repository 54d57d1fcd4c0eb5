"""Lists who calls the engine: the functions, the jobs, and AWS services, each with its role."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from local.engine.engine_calls import Credentials, create_credentials
from local.rules.permissions import Grant, Need, PolicyError, Role, decide, grants_of
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
    """Return the roles in the template by logical id, each with the grants of all its policies."""
    return {lid: Role(lid, tuple(_grants(resolver, role))) for lid, role in resolver.template.of_type(ROLE)}


def _grants(resolver: Resolver, role: Mapping[str, Any]) -> list[Grant]:
    found: list[Grant] = []
    for policy in role.get("Policies", []):
        found += grants_of(resolver.value(policy["PolicyDocument"]))
    for arn in role.get("ManagedPolicyArns", []):
        name = str(resolver.value(arn)).partition(":policy/")[2]
        if name not in _MANAGED:
            raise PolicyError(f"the local stack does not know the managed policy {name}")
        found += [Grant(action, "*") for action in _MANAGED[name]]
    return found


def role_of(template: Template, logical_id: str) -> str:
    """Return the logical id of the role of a resource: a function, a workflow, a delivery stream or a job."""
    resource = template.resources[logical_id]
    properties = resource["Properties"]
    if resource["Type"] == DELIVERY_STREAM:
        given = properties["ExtendedS3DestinationConfiguration"]["RoleARN"]
    else:
        given = properties[_ROLE_PROPERTY[resource["Type"]]]
    return str(given["Fn::GetAtt"][0])


STATES = "states.amazonaws.com"
FIREHOSE = "firehose.amazonaws.com"
EVENTS = "events.amazonaws.com"
API = "apigateway.amazonaws.com"
PERMISSION = "AWS::Lambda::Permission"


@dataclass(frozen=True)
class Callers:
    """The credentials of the functions and of the jobs, and the role of each caller.

    The keys of `functions` are logical ids. The keys of `roles` are access keys, or names of services that assume a
    role.
    """

    functions: Mapping[str, Credentials]
    jobs: Credentials
    roles: Mapping[str, Role]


def callers_of(template: Template, resolver: Resolver) -> Callers:
    """Create credentials for every function and for the jobs. Return them with the role of each caller.

    Raises ValueError if two workflows, or two delivery streams, have different roles.
    """
    declared = roles_of(resolver)
    roles: dict[str, Role] = {}
    functions: dict[str, Credentials] = {}
    for logical_id, _ in template.of_type(FUNCTION):
        functions[logical_id] = create_credentials()
        roles[functions[logical_id].access_key] = declared[role_of(template, logical_id)]
    jobs = create_credentials()
    for kind, caller in ((WORKFLOW, STATES), (DELIVERY_STREAM, FIREHOSE), (JOB, jobs.access_key)):
        for logical_id, _ in template.of_type(kind):
            role = declared[role_of(template, logical_id)]
            # Locally, the stack's owner runs the jobs with a role of their own (erase, retain).
            if roles.setdefault(caller, role) != role and kind != JOB:
                raise ValueError(f"{logical_id} has another role than others of its kind; the local stack supports one")
    return Callers(functions, jobs, roles)


@dataclass(frozen=True)
class InvocationRights:
    """Decides which AWS services may invoke a function, by the function's permissions (`AWS::Lambda::Permission`)."""

    template: Template
    resolver: Resolver

    def allow(self, service: str, function: str, source_arn: str) -> bool:
        """Return whether *service* may invoke *function*, a logical id, for *source_arn*, a route's or rule's ARN."""
        target = self.resolver.value({"Fn::GetAtt": [function, "Arn"]})
        statements = [
            {
                "Effect": "Allow",
                "Action": permission["Action"],
                "Resource": target,
                "Condition": {"ArnLike": {"aws:SourceArn": self.resolver.value(permission["SourceArn"])}},
            }
            for _, permission in self.template.of_type(PERMISSION)
            if permission["Principal"] == service and permission["FunctionName"] == {"Ref": function}
        ]
        need = Need("lambda:InvokeFunction", target)
        return decide(grants_of({"Statement": statements}), need, {"aws:SourceArn": source_arn}) is not None

    def allow_route(self, method: str, path: str, function: str) -> bool:
        """Return whether the API may invoke *function*, a logical id, for a route such as `GET /topics/{topic}`."""
        api = next(lid for lid, _ in self.template.of_type("AWS::ApiGatewayV2::Api"))
        name = self.resolver.reference(api)
        arn = self.resolver.account.arn("execute-api", f"{name}/$default/{method}{path}")
        return self.allow(API, function, arn)

    def allow_rule(self, rule: str, function: str) -> bool:
        """Return whether EventBridge may invoke *function* for *rule*. Both are logical ids."""
        return self.allow(EVENTS, function, self.resolver.value({"Fn::GetAtt": [rule, "Arn"]}))
